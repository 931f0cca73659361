"""Plots and charts: their lengths are in proportion and their numbers add up."""

import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape
from msgspec.structs import replace

from authorizerd.replay.load.lanes.histogram import Histogram
from authorizerd.replay.load.report import LoadReport, Percentiles, SecondReport
from authorizerd.replay.load.results import percentiles
from authorizerd.replay.report import load_plots
from authorizerd.replay.report.heat_map import COLUMNS_MAX, LEVELS, ROWS_MAX, level_of
from authorizerd.replay.report.plots import (
    PAGE_FRAME,
    Axis,
    Curve,
    Plot,
    Point,
    linear_axis,
    log_axis,
)
from tests.ops.replay.report import examples
from tests.ops.replay.report.elements import call_macro, parse_macro
from tests.ops.replay.report.examples import dry_run, load

LEFT, RIGHT, TOP, BOTTOM = PAGE_FRAME.left, PAGE_FRAME.right, PAGE_FRAME.top, PAGE_FRAME.bottom


@given(st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=5), st.sampled_from([(1, 2, 5), (1,)]))
def test_logarithmic_axis_contains_its_values_in_order(
    values: list[float], steps: tuple[float, ...]
) -> None:
    axis = log_axis(values, steps)
    assert axis.first <= min(values) * (1 + 1e-8)
    assert axis.last >= max(values) * (1 - 1e-8)
    places = [axis.locate(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(0 <= place <= 1 for place in places)
    assert 2 <= len(axis.ticks) <= 20


@pytest.mark.parametrize(("axis", "ticks"), [
    (log_axis([20, 500], steps=(1,)), (10, 100, 1000)),
    (log_axis([10], steps=(1,)), (10, 100)),
    (log_axis([3, 12]), (2, 5, 10, 20)),
    (log_axis([0, -1]), (1, 2)),
    (linear_axis(0, 40), (0, 5, 10, 15, 20, 25, 30, 35, 40)),
    (linear_axis(3, 7), (3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7)),
])  # fmt: skip
def test_ticks_are_round_numbers(axis: Axis, ticks: tuple[float, ...]) -> None:
    assert axis.ticks == pytest.approx(ticks)


def test_equal_ratios_are_equal_distances() -> None:
    axis = log_axis([1, 1000])
    assert [axis.locate(value) for value in (-5, 1, 10, 100)] == pytest.approx([0, 0, 1 / 3, 2 / 3])


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_linear_axis_has_exact_ends(first: int, length: int) -> None:
    axis = linear_axis(first, first + length)
    assert (axis.locate(first), axis.locate(first + length)) == (0, 1)
    assert 1 <= len(axis.ticks) <= 12
    assert all(first <= tick <= (first + length) * (1 + 1e-9) for tick in axis.ticks)


def draw(
    points: list[Point], *, markers: tuple[tuple[str, float], ...] = (), name: str = "served"
) -> ElementTree.Element:
    plot = Plot(
        label=name, x=linear_axis(0, 10), y=linear_axis(0, 100), x_title="s", y_title="ms",
        curves=[Curve(name, points)], markers=markers,
    )  # fmt: skip
    described = call_macro(
        "svg.jinja", "plot", plot, [SimpleNamespace(second=0)], 5, caller=lambda _: escape(name)
    )
    return ElementTree.fromstring(described)


def lines(root: ElementTree.Element) -> list[list[tuple[float, ...]]]:
    return [
        [tuple(map(float, place.split(","))) for place in line.attrib["points"].split()]
        for line in root.iter("polyline")
    ]


def test_ends_of_the_axes_are_the_edges_of_the_plot() -> None:
    assert lines(draw([(0, 0.0), (10, 100.0)])) == [[(LEFT, BOTTOM), (RIGHT, TOP)]]


def test_missing_figure_is_a_gap_and_a_lone_figure_a_short_line() -> None:
    root = draw([(0, 1.0), (1, 2.0), (2, None), (3, 5.0), (4, None), (5, 1.0), (6, 1.0)])
    assert len(lines(root)) == 2
    assert len([line for line in root.iter("line") if line.get("class") == "curve curve-1"]) == 2


def test_close_points_are_drawn_once_and_the_last_always() -> None:
    (line,) = lines(draw([(x / 10_000, 50.0) for x in range(100_001)]))
    assert len(line) < 6_900
    assert line[-1][0] == RIGHT


def test_names_are_text_in_legend_marker_and_hint() -> None:
    name = "<script>&\"'"
    root = draw([(0, 1.0)], markers=((name, 9),), name=name)
    assert [text.text for text in root.iter("text")].count(name) == 2
    assert [title.text for title in root.iter("title")] == [name]
    assert root.get("aria-label") == name
    assert not list(root.iter("script"))


CHARTS = "charts.html.jinja"
NAMES = st.text("ab<&", min_size=1, max_size=4)
CELLS = st.dictionaries(st.tuples(NAMES, NAMES), st.integers(1, 10**7), min_size=1, max_size=200)


def widths(markup: str) -> list[float]:
    return [float(each.attrib["width"]) for each in ElementTree.fromstring(markup).iter("rect")]


def test_bar_is_in_proportion_to_the_longest() -> None:
    first, second = widths(call_macro(CHARTS, "bar", 30, 10, 80))
    assert (first, second) == (60, 20)


def test_parts_have_counts_and_shares() -> None:
    markup = call_macro(CHARTS, "parts", "Lines", [("events", 3, "part-1"), ("aside", 1, "part-3")])
    drawn = widths(markup)
    assert drawn[0] / drawn[1] == pytest.approx(3)
    assert " events: 3 (75.0 %)" in markup
    assert " events: 0 (–)" in call_macro(CHARTS, "parts", "Lines", [("events", 0, "part-1")])


def rows_of(cells: dict[tuple[str, str], int]) -> list[ElementTree.Element]:
    body = parse_macro(
        CHARTS,
        "heat_map",
        "who",
        [
            replace(examples.changed().details[0], principal=row, operation=column, events=number)
            for (row, column), number in cells.items()
        ],
        ["operation"],
    ).find(".//tbody")
    assert body is not None
    return list(body)


@given(CELLS)
def test_heat_map_is_bounded_and_adds_up(cells: dict[tuple[str, str], int]) -> None:
    rows = rows_of(cells)
    numbers = [
        int(cell.text.replace(",", "")) for row in rows for cell in row.iter("td") if cell.text
    ]
    assert sum(numbers) == sum(cells.values())
    assert len(rows) <= ROWS_MAX + 1
    assert all(len(row) <= COLUMNS_MAX + 2 for row in rows)


def test_heat_map_ranks_names_and_ends_with_others() -> None:
    rows = rows_of({(f"p{number}", "c"): number for number in range(1, 31)})
    names = ["".join(row[0].itertext()) for row in rows]
    assert names == [*(f"p{number}" for number in range(30, 30 - ROWS_MAX, -1)), "others"]


def test_tone_is_a_power_of_ten() -> None:
    levels = [level_of(number) for number in (0, 1, 9, 10, 99_999, 100_000, 10**9)]
    assert levels == [0, 1, 1, 2, 5, len(LEVELS), len(LEVELS)]


COUNT = st.integers(0, 10**6)
LATENCY = st.none() | st.floats(0, 1e6)
SECONDS = st.lists(
    st.builds(SecondReport, COUNT, COUNT, COUNT, LATENCY, LATENCY, LATENCY),
    max_size=20,
    unique_by=lambda each: each.second,
)


def measure(*latencies_ns: int) -> Percentiles:
    histogram = Histogram()
    for latency_ns in latencies_ns:
        histogram.record(latency_ns)
    return percentiles(histogram)


def lasting(*seconds: SecondReport) -> LoadReport:
    return replace(load(), timeline=[*seconds], death=None)


@given(SECONDS)
def test_groups_keep_sums_and_the_worst(seconds: list[SecondReport]) -> None:
    width, groups = load_plots.group_seconds(seconds)
    assert len(groups) <= load_plots.POINTS_MAX
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
    assert load_plots.group_seconds(told) == (1, [told[0], silent, told[1]])


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=50))
def test_percentiles_rise_and_end_at_the_maximum(latencies_ns: list[int]) -> None:
    points = load_plots.exceedances(measure(*latencies_ns))
    assert points == sorted(points)
    assert points[-1] == (len(latencies_ns), max(latencies_ns) / 1e6)


def test_point_counts_the_questions_that_took_longer() -> None:
    """Of 4 questions, 3 took longer than the first, and none longer than the last."""
    points = load_plots.exceedances(measure(*(ms * 10**6 for ms in (1, 2, 4, 8))))
    assert [one_in for one_in, _ in points] == [4 / 3, 2, 4, 4]


def test_lost_target_is_marked() -> None:
    for plot in (load_plots.plot_latency(load()), load_plots.plot_rates(load())):
        assert plot is not None
        assert [name for name, _ in plot.markers] == ["target lost"]


@pytest.mark.parametrize("report", [dry_run(), replace(load(), timeline=[], latency=None)])
def test_load_without_figures_has_no_plot_over_time(report: LoadReport) -> None:
    assert (load_plots.plot_latency(report), load_plots.plot_rates(report)) == (None, None)


def test_latency_without_samples_has_no_plot_of_percentiles() -> None:
    assert load_plots.plot_percentiles([("service", measure())]) is None


def test_incomplete_last_second_is_omitted_unless_the_target_was_lost_in_it() -> None:
    ends = [SecondReport(second, 40, 40, 1.0, 1.0, 1.0) for second in range(3)]
    run = lasting(*ends, SecondReport(3, 0, 1, 1.0, 1.0, 1.0))
    for death, last in ((load().death, 3.5), (None, 2.5)):
        plot = load_plots.plot_rates(replace(run, death=death))
        assert plot is not None
        assert plot.curves[0].points[-1] == (last, 1.0 if death else 40.0)
        assert ("is left out" in plot.caption) == (death is None)


def test_caption_of_a_long_run_says_what_a_point_stands_for() -> None:
    run = lasting(
        *(SecondReport(n, 10, 10, 1.0, 2.0, 3.0) for n in range(load_plots.POINTS_MAX + 1))
    )
    latency, rates = load_plots.plot_latency(run), load_plots.plot_rates(run)
    assert latency is not None
    assert rates is not None
    assert "each point is the worst of 2 seconds" in latency.caption
    assert "each point is the mean of 2 seconds" in rates.caption


LATENCIES_NS = st.lists(st.integers(0, 10**12), max_size=20)


@given(LATENCIES_NS, LATENCIES_NS)
def test_bins_contain_every_sample_of_both_runs(was_ns: list[int], now_ns: list[int]) -> None:
    bins = load_plots.bin_latencies([measure(*was_ns), measure(*now_ns)])
    for number, latencies_ns in enumerate((was_ns, now_ns)):
        shares = [each.shares[number] for each in bins]
        assert sum(shares) == pytest.approx(100 if latencies_ns else 0)
    for one, following in pairwise(bins):
        assert one.last_ms == pytest.approx(following.first_ms)
        assert one.last_ms / one.first_ms == pytest.approx(10**0.1)
    assert (load_plots.plot_histogram("x", ["was", "now"], bins) is None) == (not bins)


def test_histogram_draws_both_runs_over_each_other() -> None:
    one_ms, two_ms = 10**6 + 1, 2 * 10**6
    bins = load_plots.bin_latencies([measure(one_ms, one_ms), measure(one_ms, two_ms)])
    plot = load_plots.plot_histogram("x", ["was", "now"], bins)
    assert plot is not None
    assert [max(y for _, y in curve.points if y is not None) for curve in plot.curves] == [100, 50]
    assert [curve.name for curve in plot.curves] == ["was", "now"]
