from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from authorizerd.replay.report.axes import linear_axis, time_axis
from authorizerd.replay.report.plots import PAGE_FRAME, Curve, Marker, Plot, Point
from tests.ops.replay.report.elements import parse_macro

LEFT, RIGHT, TOP, BOTTOM = PAGE_FRAME.left, PAGE_FRAME.right, PAGE_FRAME.top, PAGE_FRAME.bottom


def draw(
    points: list[Point], *, markers: tuple[Marker, ...] = (), name: str = "served"
) -> ElementTree.Element:
    plot = Plot(
        label=name,
        x=time_axis(0, 10, start=LEFT, end=RIGHT),
        y=linear_axis(100, start=BOTTOM, end=TOP),
        x_title="s",
        y_title="ms",
        x_number=str,
        y_number=str,
        curves=[Curve(name=name, style="curve-1", points=points)],
        markers=markers,
        hints=[(0, 5, name)],
    )
    return parse_macro("svg.jinja", "plot", plot)


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
    assert len(line) < 1_300
    assert line[-1][0] == RIGHT


def test_names_are_text_in_legend_marker_and_hint() -> None:
    name = "<script>&\"'"
    root = draw([(0, 1.0)], markers=(Marker(name=name, x=9),), name=name)
    assert [text.text for text in root.iter("text")].count(name) == 2
    assert [title.text for title in root.iter("title")] == [name]
    assert root.get("aria-label") == name
    assert not list(root.iter("script"))
