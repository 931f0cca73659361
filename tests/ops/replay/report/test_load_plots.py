from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.lanes.histogram import Histogram
from authorizerd.replay.load.report import LoadReport, Percentiles, SecondReport
from authorizerd.replay.load.results import percentiles
from authorizerd.replay.report.load_plots import (
    POINTS_MAX,
    bin_latencies,
    exceedances,
    group_seconds,
    plot_histogram,
    plot_latency,
    plot_percentiles,
    plot_rates,
)
from tests.ops.replay.report.examples import dry_run, load

COUNT = st.integers(0, 10**6)
LATENCY = st.none() | st.floats(0, 1e6)
SECONDS = st.lists(
    st.builds(SecondReport, COUNT, COUNT, COUNT, LATENCY, LATENCY, LATENCY),
    max_size=20,
    unique_by=lambda each: each.second,
)
replace = msgspec.structs.replace


def measure(*latencies_ns: int) -> Percentiles:
    histogram = Histogram()
    for latency_ns in latencies_ns:
        histogram.record(latency_ns)
    return percentiles(histogram)


def lasting(*seconds: SecondReport) -> LoadReport:
    return replace(load(), timeline=[*seconds], death=None)


@given(SECONDS)
def test_groups_keep_sums_and_the_worst(seconds: list[SecondReport]) -> None:
    width, groups = group_seconds(seconds)
    assert len(groups) <= POINTS_MAX
    for attribute in ("offered", "served"):
        sums = [sum(getattr(each, attribute) for each in listed) for listed in (groups, seconds)]
        assert sums[0] == sums[1]
    worst = [
        max((each.max_ms for each in listed if each.max_ms is not None), default=None)
        for listed in (groups, seconds)
    ]
    assert worst[0] == worst[1]
    assert [each.second for each in groups] == [
        groups[0].second + number * width for number in range(len(groups))
    ]


def test_second_without_a_report_has_rate_0_and_no_latency() -> None:
    told = [SecondReport(second, 10, 10, 1.0, 1.0, 1.0) for second in (3, 5)]
    silent = SecondReport(4, 0, 0, None, None, None)
    assert group_seconds(told) == (1, [told[0], silent, told[1]])


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=50))
def test_percentiles_rise_and_end_at_the_maximum(latencies_ns: list[int]) -> None:
    points = exceedances(measure(*latencies_ns))
    assert points == sorted(points)
    assert points[-1] == (len(latencies_ns), max(latencies_ns) / 1e6)


def test_point_counts_the_questions_that_took_longer() -> None:
    """Of 4 questions, 3 took longer than the first, and none longer than the last."""
    points = exceedances(measure(*(ms * 10**6 for ms in (1, 2, 4, 8))))
    assert [one_in for one_in, _ in points] == [4 / 3, 2, 4, 4]


def test_lost_target_is_marked() -> None:
    for plot in (plot_latency(load()), plot_rates(load())):
        assert plot is not None
        assert [name for name, _ in plot.markers] == ["target lost"]


@pytest.mark.parametrize("report", [dry_run(), replace(load(), timeline=[], latency=None)])
def test_load_without_figures_has_no_plot_over_time(report: LoadReport) -> None:
    assert (plot_latency(report), plot_rates(report)) == (None, None)


def test_latency_without_samples_has_no_plot_of_percentiles() -> None:
    assert plot_percentiles([("service", measure())]) is None


def test_incomplete_last_second_is_omitted_unless_the_target_was_lost_in_it() -> None:
    ends = [SecondReport(second, 40, 40, 1.0, 1.0, 1.0) for second in range(3)]
    run = lasting(*ends, SecondReport(3, 0, 1, 1.0, 1.0, 1.0))
    for death, last in ((load().death, 3.5), (None, 2.5)):
        plot = plot_rates(replace(run, death=death))
        assert plot is not None
        assert plot.curves[0].points[-1] == (last, 1.0 if death else 40.0)
        assert ("is left out" in plot.caption) == (death is None)


def test_caption_of_a_long_run_says_what_a_point_stands_for() -> None:
    run = lasting(*(SecondReport(n, 10, 10, 1.0, 2.0, 3.0) for n in range(POINTS_MAX + 1)))
    latency, rates = plot_latency(run), plot_rates(run)
    assert latency is not None
    assert rates is not None
    assert "each point is the worst of 2 seconds" in latency.caption
    assert "each point is the mean of 2 seconds" in rates.caption


LATENCIES_NS = st.lists(st.integers(0, 10**12), max_size=20)


@given(LATENCIES_NS, LATENCIES_NS)
def test_bins_contain_every_sample_of_both_runs(was_ns: list[int], now_ns: list[int]) -> None:
    bins = bin_latencies([measure(*was_ns), measure(*now_ns)])
    for number, latencies_ns in enumerate((was_ns, now_ns)):
        shares = [each.shares[number] for each in bins]
        assert sum(shares) == pytest.approx(100 if latencies_ns else 0)
    for one, following in pairwise(bins):
        assert one.last_ms == pytest.approx(following.first_ms)
        assert one.last_ms / one.first_ms == pytest.approx(10**0.1)
    assert (plot_histogram("x", ["was", "now"], bins) is None) == (not bins)


def test_histogram_draws_both_runs_over_each_other() -> None:
    one_ms, two_ms = 10**6 + 1, 2 * 10**6
    bins = bin_latencies([measure(one_ms, one_ms), measure(one_ms, two_ms)])
    plot = plot_histogram("x", ["was", "now"], bins)
    assert plot is not None
    highest = [max(y for _, y in curve.points if y is not None) for curve in plot.curves]
    assert highest == [100, 50]
    assert [curve.name for curve in plot.curves] == ["was", "now"]
