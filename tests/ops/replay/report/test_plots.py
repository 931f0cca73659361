from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from authorizerd.replay.report.plots import (
    PAGE_FRAME,
    Axis,
    Curve,
    Plot,
    Point,
    linear_axis,
    log_axis,
)
from tests.ops.replay.report.elements import call_macro

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


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (log_axis([20, 500], steps=(1,)), (10, 100, 1000)),
        (log_axis([10], steps=(1,)), (10, 100)),
        (log_axis([3, 12]), (2, 5, 10, 20)),
        (log_axis([0, -1]), (1, 2)),
        (linear_axis(0, 40), (0, 5, 10, 15, 20, 25, 30, 35, 40)),
        (linear_axis(3, 7), (3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7)),
    ],
)
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
        label=name,
        x=linear_axis(0, 10),
        y=linear_axis(0, 100),
        x_title="s",
        y_title="ms",
        curves=[Curve(name, points)],
        markers=markers,
    )
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
