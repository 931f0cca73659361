from __future__ import annotations

import pytest

from authorizerd.daemon.console.samples import SAMPLES_MAX, Samples


def test_first_rate_is_about_the_time_since_the_start() -> None:
    rates = Samples(100.0).measure(120.0, {"a": 40, "b": 0})
    assert (rates.seconds, rates.by_name) == (20.0, {"a": 2.0, "b": 0.0})


@pytest.mark.parametrize(
    ("times", "now", "seconds"),
    [
        ((2, 4, 6), 8, 8),  # the start is a sample as well
        ((2, 4, 6, 8, 10), 12, 10),
        ((20,), 25, 5),
        ((20,), 100, 80),
        ((20, 100), 102, 2),
        ((20, 20.5), 21.5, 1.5),  # the second one is too soon
    ],
)
def test_rate_is_about_the_last_seconds(
    times: tuple[float, ...], now: float, seconds: float
) -> None:
    """The counter grows by 3 a second."""
    samples = Samples(0.0)
    for time in times:
        samples.measure(time, {"a": round(time * 3)})
    rates = samples.measure(now, {"a": round(now * 3)})
    assert rates.seconds == seconds
    assert rates.by_name["a"] == pytest.approx(3, rel=0.3)


def test_counter_that_was_reset_counts_as_none() -> None:
    samples = Samples(0.0)
    samples.measure(20.0, {"a": 100})
    assert samples.measure(25.0, {"a": 1}).by_name == {"a": 0.0}


def test_number_of_samples_is_bounded() -> None:
    samples = Samples(0.0)
    for second in range(2 * SAMPLES_MAX):
        samples.measure(float(second), {})
    assert len(samples._samples) == SAMPLES_MAX
