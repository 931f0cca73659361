"""The judgement of a soak's samples: what is flat, what grows, and what cannot be judged."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.soak.flatness import Limit, Verdict, estimate_slope, judge

SECONDS = range(0, 1800, 5)


def noise(second: int) -> float:
    """The same at each second, whichever tests ran before."""
    return Random(second).gauss(0, 5)


def saw(second: int) -> float:
    """A heap between two collections."""
    return 100 + second % 60 / 6


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (lambda second: 100, Verdict.FLAT),
        (lambda second: 100 + noise(second), Verdict.FLAT),
        (saw, Verdict.FLAT),
        (lambda second: 100 - second / 100, Verdict.FLAT),
        # It grows during the warm-up only.
        (lambda second: min(second, 500), Verdict.FLAT),
        # A fifth of the samples are peaks, and the last one is the highest.
        (lambda second: 100 + (second % 25 == 20) * second, Verdict.FLAT),
        (lambda second: 100 + second * 0.005, Verdict.GROWS),
        (lambda second: saw(second) + second * 0.005, Verdict.GROWS),
        (lambda second: 100 + noise(second) + second * 0.01, Verdict.GROWS),
        # One more with each of 15 reloads.
        (lambda second: 100 + second // 120, Verdict.GROWS),
    ],
    ids=[
        "constant", "noise", "sawtooth", "falling", "warm-up", "peaks",
        "steady growth", "growing sawtooth", "growth in noise", "steps",
    ],
)  # fmt: skip
def test_growth_is_told_from_noise(value: Callable[[int], float], verdict: Verdict) -> None:
    judgement = judge([(second, value(second)) for second in SECONDS], Limit(4))
    assert judgement.verdict is verdict, judgement


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [
        (Limit(11), Verdict.GROWS),
        (Limit(13), Verdict.FLAT),
        (Limit(11, 0.012), Verdict.FLAT),
        (Limit(0, 0.011), Verdict.GROWS),
    ],
)
def test_limit_is_the_larger_of_two(limit: Limit, verdict: Verdict) -> None:
    """The growth is 12 in the 1,200 seconds after the warm-up, at a median of about 1,000."""
    assert judge([(second, 988 + second / 100) for second in SECONDS], limit).verdict is verdict


@pytest.mark.parametrize("count", [0, 1, 2, 29])
def test_few_samples_are_not_judged(count: int) -> None:
    judgement = judge([(second, second * 1000) for second in SECONDS[:count]], Limit(1))
    assert judgement.verdict is Verdict.NOT_JUDGED


def test_slope_is_the_median_of_all_pairs() -> None:
    assert estimate_slope([(0, 0), (1, 1), (2, 2), (3, 30)]) == 5.5
