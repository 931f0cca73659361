"""Plots and charts: their lengths are in proportion and their numbers add up."""

import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.replay.load.lanes.tally import Histogram
from authorizerd.replay.load.report import LoadReport, Percentiles, SecondReport, percentiles
from authorizerd.replay.report import plots, rendering
from authorizerd.replay.report.plots import Axis, Curve, Plot, Point, linear_axis, log_axis
from tests.ops.replay.report import examples
from tests.ops.replay.report.elements import call_macro
from tests.ops.replay.report.examples import dry_run, load


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


def plot_of(points: list[Point]) -> Plot:
    return Plot(
        label="x", x=linear_axis(0, 10), y=linear_axis(0, 100), x_title="s", y_title="ms",
        curves=[Curve("served", points)],
    )  # fmt: skip


def draw(plot: Plot) -> ElementTree.Element:
    return ElementTree.fromstring(call_macro("svg.jinja", "plot", plot))


def lines(root: ElementTree.Element) -> list[list[tuple[float, ...]]]:
    return [
        [tuple(map(float, place.split(","))) for place in line.attrib["points"].split()]
        for line in root.iter("polyline")
    ]


def test_curve_ends_at_the_edges_and_has_gaps() -> None:
    """A lone figure is a short line. Close points are drawn once, and the last always."""
    whole = plot_of([(0, 0.0), (10, 100.0)])
    assert lines(draw(whole)) == [[(whole.left, whole.bottom), (whole.right, whole.top)]]
    root = draw(plot_of([(0, 1.0), (1, 2.0), (2, None), (3, 5.0), (4, None), (5, 1.0), (6, 1.0)]))
    assert len(lines(root)) == 2
    assert len([line for line in root.iter("line") if line.get("class") == "curve curve-1"]) == 2
    (line,) = lines(draw(plot_of([(x / 10_000, 50.0) for x in range(100_001)])))
    assert len(line) < 6_900
    assert line[-1][0] == whole.right


CHARTS = "charts.html.jinja"


def widths(markup: str) -> list[float]:
    return [float(each.attrib["width"]) for each in ElementTree.fromstring(markup).iter("rect")]


def test_bars_and_parts_are_in_proportion_with_counts_and_shares() -> None:
    assert widths(call_macro(CHARTS, "bar", 30, 10, 80)) == [60, 20]
    markup = call_macro(CHARTS, "parts", "Lines", [("events", 3, "part-1"), ("aside", 1, "part-3")])
    drawn = widths(markup)
    assert drawn[0] / drawn[1] == pytest.approx(3)
    assert " events: 3 (75.0 %)" in markup
    assert " events: 0 (–)" in call_macro(CHARTS, "parts", "Lines", [("events", 0, "part-1")])


NAMES = st.text("ab<&", min_size=1, max_size=4)
CELLS = st.dictionaries(st.tuples(NAMES, NAMES), st.integers(1, 10**7), min_size=1, max_size=200)


def rows_of(cells: dict[tuple[str, str], int]) -> list[ElementTree.Element]:
    detail = examples.changed().details[0]
    details = [
        replace(detail, principal=row, operation=column, events=number)
        for (row, column), number in cells.items()
    ]
    drawn = call_macro(CHARTS, "heat_map", "who", details, ["operation"])
    body = ElementTree.fromstring(drawn).find(".//tbody")
    assert body is not None
    return list(body)


@given(CELLS)
def test_heat_map_is_bounded_and_adds_up(cells: dict[tuple[str, str], int]) -> None:
    rows = rows_of(cells)
    texts = [cell.text for row in rows for cell in row.iter("td") if cell.text]
    assert sum(int(text.replace(",", "")) for text in texts) == sum(cells.values())
    assert len(rows) <= rendering.HEAT_ROWS_MAX + 1
    assert all(len(row) <= rendering.HEAT_COLUMNS_MAX + 2 for row in rows)


def test_heat_map_ranks_names_ends_with_others_and_has_a_tone_for_each_power_of_ten() -> None:
    rows = rows_of({(f"p{number}", "c"): number for number in range(1, 31)})
    names = ["".join(row[0].itertext()) for row in rows]
    assert names == [
        *(f"p{number}" for number in range(30, 30 - rendering.HEAT_ROWS_MAX, -1)),
        "others",
    ]
    levels = [rendering.get_tone(number) for number in (0, 1, 9, 10, 99_999, 100_000, 10**9)]
    assert levels == [0, 1, 1, 2, 5, len(rendering.TONES), len(rendering.TONES)]


COUNT = st.integers(0, 10**6)
LATENCY = st.none() | st.floats(0, 1e6)
SECONDS = st.lists(
    st.builds(SecondReport, COUNT, COUNT, COUNT, LATENCY, LATENCY, LATENCY),
    max_size=20,
    unique_by=lambda each: each.second,
)


@given(SECONDS)
def test_groups_keep_sums_and_the_worst(seconds: list[SecondReport]) -> None:
    width, groups = plots.group_seconds(seconds)
    assert len(groups) <= plots.POINTS_MAX
    sums, worst = (
        [
            (sum(each.offered for each in listed), sum(each.served for each in listed)),
            max((each.max_ms for each in listed if each.max_ms is not None), default=None),
        ]
        for listed in (groups, seconds)
    )
    assert sums == worst
    assert [each.second for each in groups] == [
        groups[0].second + number * width for number in range(len(groups))
    ]


def test_second_without_a_report_has_rate_0_and_no_latency() -> None:
    told = [SecondReport(second, 10, 10, 1.0, 1.0, 1.0) for second in (3, 5)]
    silent = SecondReport(4, 0, 0, None, None, None)
    assert plots.group_seconds(told) == (1, [told[0], silent, told[1]])


def measure(*latencies_ns: int) -> Percentiles:
    histogram = Histogram()
    for latency_ns in latencies_ns:
        histogram.record(latency_ns)
    return percentiles(histogram)


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=50))
def test_percentiles_rise_and_end_at_the_maximum(latencies_ns: list[int]) -> None:
    points = plots.exceedances(measure(*latencies_ns))
    assert points == sorted(points)
    assert points[-1] == (len(latencies_ns), max(latencies_ns) / 1e6)


def test_point_counts_the_questions_that_took_longer() -> None:
    """Of 4 questions, 3 took longer than the first, and none longer than the last."""
    points = plots.exceedances(measure(*(ms * 10**6 for ms in (1, 2, 4, 8))))
    assert [one_in for one_in, _ in points] == [4 / 3, 2, 4, 4]


def plots_of(report: LoadReport) -> tuple[Plot, Plot]:
    latency, rates = plots.plot_latency(report), plots.plot_rates(report)
    assert latency is not None
    assert rates is not None
    return latency, rates


def lasting(count: int, *more: SecondReport) -> LoadReport:
    seconds = [SecondReport(n, 40, 40, 1.0, 2.0, 3.0) for n in range(count)]
    return replace(load(), timeline=[*seconds, *more], death=None)


def test_lost_target_is_marked_and_its_incomplete_last_second_drawn() -> None:
    assert [[name for name, _ in plot.markers] for plot in plots_of(load())] == [
        ["target lost"]
    ] * 2
    run = lasting(3, SecondReport(3, 0, 1, 1.0, 1.0, 1.0))
    for death, last in ((load().death, (3.5, 1.0)), (None, (2.5, 40.0))):
        _, rates = plots_of(replace(run, death=death))
        assert rates.curves[0].points[-1] == last
        assert ("is left out" in rates.caption) == (death is None)


def test_load_without_figures_has_no_plots() -> None:
    for report in (dry_run(), replace(load(), timeline=[], latency=None)):
        assert plots.plot_latency(report) is plots.plot_rates(report) is None
    assert plots.plot_percentiles([("service", measure())]) is None


def test_caption_of_a_long_run_says_what_a_point_stands_for() -> None:
    latency, rates = plots_of(lasting(plots.POINTS_MAX + 1))
    assert "each point is the worst of 2 seconds" in latency.caption
    assert "each point is the mean of 2 seconds" in rates.caption


LATENCIES_NS = st.lists(st.integers(0, 10**12), max_size=20)


@given(LATENCIES_NS, LATENCIES_NS)
def test_bins_contain_every_sample_of_both_runs(was_ns: list[int], now_ns: list[int]) -> None:
    bins = plots.bin_latencies([measure(*was_ns), measure(*now_ns)])
    for number, latencies_ns in enumerate((was_ns, now_ns)):
        shares = [each.shares[number] for each in bins]
        assert sum(shares) == pytest.approx(100 if latencies_ns else 0)
    for one, following in pairwise(bins):
        assert one.last_ms == pytest.approx(following.first_ms)
        assert one.last_ms / one.first_ms == pytest.approx(10**0.1)
    assert (plots.plot_histogram("x", ["was", "now"], bins) is None) == (not bins)


def test_histogram_draws_both_runs_over_each_other() -> None:
    one_ms, two_ms = 10**6 + 1, 2 * 10**6
    bins = plots.bin_latencies([measure(one_ms, one_ms), measure(one_ms, two_ms)])
    plot = plots.plot_histogram("x", ["was", "now"], bins)
    assert plot is not None
    assert [max(y for _, y in curve.points if y is not None) for curve in plot.curves] == [100, 50]
    assert [curve.name for curve in plot.curves] == ["was", "now"]
