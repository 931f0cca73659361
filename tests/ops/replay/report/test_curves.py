"""Curves stand where their figures are."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from authorizerd.replay.report.axes import linear_axis, time_axis
from authorizerd.replay.report.curves import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    Curve,
    Marker,
    Plot,
    Point,
    svg,
)


def drawn(
    *curves: list[Point], markers: tuple[Marker, ...] = (), name: str = "served"
) -> ElementTree.Element:
    plot = Plot(
        label=name,
        x=time_axis(0, 10, start=LEFT, end=RIGHT),
        y=linear_axis(100, start=BOTTOM, end=TOP),
        x_title="s",
        y_title="ms",
        x_number=str,
        y_number=str,
        curves=[Curve(name=name, style="curve-1", points=points) for points in curves],
        markers=markers,
        hints=[(0, 5, name)],
    )
    return ElementTree.fromstring(svg(plot))


def lines(root: ElementTree.Element) -> list[list[tuple[float, ...]]]:
    return [
        [tuple(map(float, place.split(","))) for place in line.attrib["points"].split()]
        for line in root.iter("polyline")
    ]


def test_a_point_stands_at_its_figures() -> None:
    """The ends of the axes are the ends of the plot."""
    (line,) = lines(drawn([(0, 0.0), (10, 100.0)]))
    assert line == [(LEFT, BOTTOM), (RIGHT, TOP)]


def test_a_gap_in_the_figures_is_one_in_the_curve() -> None:
    """What was not measured is not drawn; a lone figure is still seen."""
    root = drawn([(0, 1.0), (1, 2.0), (2, None), (3, 5.0), (4, None), (5, 1.0), (6, 1.0)])
    assert len(lines(root)) == 2
    assert len([line for line in root.iter("line") if line.get("class") == "curve curve-1"]) == 2


def test_points_that_fall_together_are_drawn_once() -> None:
    """The last one always is."""
    (line,) = lines(drawn([(x / 10_000, 50.0) for x in range(100_001)]))
    assert len(line) < 1_300
    assert line[-1][0] == RIGHT


def test_names_are_text() -> None:
    """In the legend, at a marker, where it is pointed at."""
    name = "<script>&\"'"
    root = drawn([(0, 1.0)], markers=(Marker(name=name, x=9),), name=name)
    assert [text.text for text in root.iter("text")].count(name) == 2
    assert [title.text for title in root.iter("title")] == [name]
    assert root.get("aria-label") == name
    assert not list(root.iter("script"))
