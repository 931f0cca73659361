"""What was measured is what is drawn, however long it was measured."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.histogram import Histogram
from authorizerd.replay.load.report import SecondReport, percentiles
from authorizerd.replay.report.load_plots import (
    POINTS_MAX,
    exceeded,
    latency_over_time,
    percentile_curves,
    rates_over_time,
    timeline_of,
)
from tests.ops.replay.report.elements import Elements
from tests.ops.replay.report.examples import dry_run, load

LATENCY = st.none() | st.floats(0, 1e6)
SECONDS = st.lists(
    st.builds(
        SecondReport,
        st.integers(0, 10**6),
        st.integers(0, 10**6),
        st.integers(0, 10**6),
        LATENCY,
        LATENCY,
        LATENCY,
    ),
    max_size=20,
    unique_by=lambda each: each.second,
)


@given(SECONDS)
def test_seconds_are_put_together_without_loss(seconds: list[SecondReport]) -> None:
    """Counts add up and the worst is kept; there are only so many groups."""
    width, groups = timeline_of(seconds)
    assert len(groups) <= POINTS_MAX
    assert sum(each.offered for each in groups) == sum(each.offered for each in seconds)
    assert sum(each.served for each in groups) == sum(each.served for each in seconds)
    worst = [each.max_ms for each in seconds if each.max_ms is not None]
    grouped = [each.max_ms for each in groups if each.max_ms is not None]
    assert max(grouped, default=None) == max(worst, default=None)
    assert [each.second for each in groups] == [
        groups[0].second + number * width for number in range(len(groups))
    ]


def test_a_silent_second_is_a_rate_of_nothing() -> None:
    """It is no gap: nothing was due and nothing was answered. It has no latency."""
    told = [SecondReport(second, 10, 10, 1.0, 1.0, 1.0) for second in (3, 5)]
    assert timeline_of(told) == (
        1,
        [told[0], SecondReport(4, 0, 0, None, None, None), told[1]],
    )


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=50))
def test_the_curve_of_percentiles_ends_at_the_worst(latencies_ns: list[int]) -> None:
    """Ever fewer take ever longer; the last point is the one that took longest."""
    histogram = Histogram()
    for latency_ns in latencies_ns:
        histogram.record(latency_ns)
    points = exceeded(percentiles(histogram))
    assert points == sorted(points)
    assert points[-1] == (len(latencies_ns), max(latencies_ns) / 1e6)


def test_a_point_says_how_few_took_longer() -> None:
    """Of four, three took longer than the first: 4 in 3; none took longer than the last."""
    histogram = Histogram()
    for latency_ms in (1, 2, 4, 8):
        histogram.record(latency_ms * 10**6)
    assert [one_in for one_in, _ in exceeded(percentiles(histogram))] == [4 / 3, 2, 4, 4]


def test_a_bucket_that_cannot_be_is_not_computed() -> None:
    """It would be a number of as many digits as it says."""
    odd = msgspec.structs.replace(percentiles(Histogram()), buckets=[(2**60, 1)], samples=1)
    assert exceeded(odd)


def test_a_lost_target_is_marked() -> None:
    """In both plots over time."""
    for plot in (latency_over_time(load()), rates_over_time(load())):
        assert "target lost" in Elements(plot).text


def test_what_was_not_measured_is_not_drawn() -> None:
    """A dry run has neither latency nor rate."""
    nothing = msgspec.structs.replace(load(), timeline=[], latency=None)
    for measured in (dry_run(), nothing):
        assert latency_over_time(measured) == rates_over_time(measured) == ""
    latency = load().latency
    assert latency is not None
    none = percentiles(Histogram())
    assert (
        percentile_curves(
            msgspec.structs.replace(latency, corrected=none, service=none, send_lag=none)
        )
        == ""
    )


def test_a_second_that_is_not_whole_is_no_rate() -> None:
    """The last is left out, unless the target was lost in it: then it tells of that."""
    ends = [SecondReport(second, 40, 40, 1.0, 1.0, 1.0) for second in range(3)]
    run = msgspec.structs.replace(load(), timeline=[*ends, SecondReport(3, 0, 1, 1.0, 1.0, 1.0)])
    assert "3 s: 0 per s offered, 1.00 per s served" in Elements(rates_over_time(run)).texts
    whole = Elements(rates_over_time(msgspec.structs.replace(run, death=None)))
    assert "3 s: 0 per s offered, 1.00 per s served" not in whole.texts
    assert "2 s: 40.0 per s offered, 40.0 per s served" in whole.texts
    assert "is left out" in whole.text


def test_a_long_run_says_what_a_point_stands_for() -> None:
    """The worst of a latency, the mean of a rate."""
    seconds = [SecondReport(second, 10, 10, 1.0, 2.0, 3.0) for second in range(POINTS_MAX + 1)]
    long = msgspec.structs.replace(load(), timeline=seconds, death=None)
    assert "each point is the worst of 2 seconds" in Elements(latency_over_time(long)).text
    assert "each point is the mean of 2 seconds" in Elements(rates_over_time(long)).text
