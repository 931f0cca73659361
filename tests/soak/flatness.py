"""Judge whether a series of samples grows.

The slope is Theil and Sen's: the median of the slopes between all pairs of samples. Peaks and a
sawtooth do not move it, as long as fewer than 29 % of the samples are unusual. What counts is how
much the slope adds over the time that is judged, not whether it differs from 0.

**Invariant:** too few samples are never flat: they are reported as not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from statistics import median
from typing import Final

WARM_UP_SHARE: Final = 1 / 3
"""The part of a process's life that is not judged: caches and allocators fill."""
SAMPLES_MIN: Final = 30
_SAMPLES_MAX: Final = 600
"""More samples are thinned evenly, because each pair of them is looked at."""

Sample = tuple[float, float]
"""A time in seconds, and a value."""


class Verdict(Enum):
    """What a series of samples shows."""

    FLAT = "flat"
    GROWS = "grows"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Limit:
    """How much a series may grow over the time that is judged: the larger of the two."""

    absolute: float
    share: float = 0.0
    """A part of the median, such as 0.03."""

    def of(self, typical: float) -> float:
        return max(self.absolute, self.share * typical)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict and its figures. ``growth`` is the slope times the seconds that are judged."""

    verdict: Verdict
    samples: int = 0
    seconds: float = 0.0
    typical: float = 0.0
    growth: float = 0.0
    allowed: float = 0.0


def judge(samples: Sequence[Sample], limit: Limit) -> Judgement:
    """Judge the samples after the warm-up; their times must rise."""
    if not samples:
        return Judgement(verdict=Verdict.NOT_JUDGED)
    first, last = samples[0][0], samples[-1][0]
    begin = first + (last - first) * WARM_UP_SHARE
    judged = [each for each in samples if each[0] >= begin]
    if len(judged) < SAMPLES_MIN:
        return Judgement(verdict=Verdict.NOT_JUDGED, samples=len(judged))
    seconds = last - judged[0][0]
    typical = median(value for _, value in judged)
    growth = estimate_slope(judged) * seconds
    allowed = limit.of(typical)
    return Judgement(
        verdict=Verdict.GROWS if growth > allowed else Verdict.FLAT,
        samples=len(judged),
        seconds=seconds,
        typical=typical,
        growth=growth,
        allowed=allowed,
    )


def estimate_slope(samples: Sequence[Sample]) -> float:
    """Return Theil and Sen's slope, per second. The times must differ.

    Source: P. K. Sen, Estimates of the Regression Coefficient Based on Kendall's Tau (1968).
    """
    step = -(-len(samples) // _SAMPLES_MAX)
    return median(
        (later_value - value) / (later - time)
        for (time, value), (later, later_value) in combinations(samples[::step], 2)
    )
