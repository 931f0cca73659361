"""Curves as an SVG inside the page: its colours are the page's, so that it follows light and dark.

**Invariant:** a curve is told from its neighbour by its dashes and its name, not by its colour
alone; a gap in the figures is a gap in the curve. What a plot shows at one place on its x axis is
told there when it is pointed at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from authorizerd.replay.report.axes import Axis
from authorizerd.replay.report.markup import Markup, element, joined

WIDTH: Final = 760
HEIGHT: Final = 270
LEFT: Final = 62.0
RIGHT: Final = WIDTH - 18.0
TOP: Final = 36.0
BOTTOM: Final = HEIGHT - 40.0
_LEGEND_STEP: Final = 26
_CHARACTER: Final = 6.4
_CLOSEST: Final = 0.6
"""Points nearer than this, in pixels, to the one before are not drawn."""

Point = tuple[float, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points in rising x; ``style`` is a class of the page's, ``curve-1`` and so on."""

    name: str
    style: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """An upright line across the plot."""

    name: str
    x: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """``hints`` are (from x, to x, text): what is said where that part is pointed at."""

    label: str
    x: Axis
    y: Axis
    x_title: str
    y_title: str
    x_number: Callable[[float], str]
    y_number: Callable[[float], str]
    curves: Sequence[Curve]
    markers: Sequence[Marker] = ()
    hints: Sequence[tuple[float, float, str]] = ()


def svg(plot: Plot) -> Markup:
    """Return the plot."""
    return element(
        "svg",
        *_grid(plot),
        *_legend(plot),
        *(part for curve in plot.curves for part in _curve(plot, curve)),
        *(part for marker in plot.markers for part in _marker(plot, marker)),
        *_hints(plot),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        class_="plot",
        role="img",
        aria_label=plot.label,
    )


def _grid(plot: Plot) -> Iterator[Markup]:
    for tick in plot.y.ticks:
        y = plot.y.place(tick)
        yield _line(LEFT, y, RIGHT, y, "grid")
        yield _text(LEFT - 7, y + 4, plot.y_number(tick), anchor="end")
    for tick in plot.x.ticks:
        x = plot.x.place(tick)
        yield _line(x, BOTTOM, x, BOTTOM + 4, "axis")
        yield _text(x, BOTTOM + 17, plot.x_number(tick), anchor="middle")
    yield _line(LEFT, BOTTOM, RIGHT, BOTTOM, "axis")
    yield _text(RIGHT, HEIGHT - 6, plot.x_title, anchor="end", style="title")
    yield _text(4, 14, plot.y_title, style="title")


def _legend(plot: Plot) -> Iterator[Markup]:
    """Yield the names of the curves, from the right, each behind a piece of its curve."""
    x = RIGHT
    for curve in reversed(plot.curves):
        x -= len(curve.name) * _CHARACTER
        yield _text(x, 14, curve.name)
        yield _line(x - _LEGEND_STEP, 10, x - 6, 10, f"curve {curve.style}")
        x -= _LEGEND_STEP + 16


def _marker(plot: Plot, marker: Marker) -> Iterator[Markup]:
    x = plot.x.place(marker.x)
    yield _line(x, TOP - 8, x, BOTTOM, "marker")
    is_right = x > WIDTH / 2
    anchor = "end" if is_right else "start"
    yield _text(x + (-5 if is_right else 5), TOP, marker.name, anchor=anchor, style="halo")


def _curve(plot: Plot, curve: Curve) -> Iterator[Markup]:
    for places in _pieces(plot, curve.points):
        style = f"curve {curve.style}"
        if len(places) == 1:
            x, y = places[0]
            yield _line(x - 1.5, y, x + 1.5, y, style)
            continue
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield element("polyline", points=path, class_=style)


def _pieces(plot: Plot, points: Sequence[Point]) -> Iterator[list[tuple[float, float]]]:
    """Yield the runs of points that have a value, without those too close to be told apart."""
    piece: list[tuple[float, float]] = []
    for number, (x, y) in enumerate(points):
        if y is None:
            if piece:
                yield piece
            piece = []
            continue
        place = (plot.x.place(x), plot.y.place(y))
        is_last = number + 1 == len(points) or points[number + 1][1] is None
        if is_last or not piece or _distance(piece[-1], place) >= _CLOSEST:
            piece.append(place)
    if piece:
        yield piece


def _distance(one: tuple[float, float], other: tuple[float, float]) -> float:
    return max(abs(one[0] - other[0]), abs(one[1] - other[1]))


def _hints(plot: Plot) -> Iterator[Markup]:
    for from_x, to_x, said in plot.hints:
        x = plot.x.place(from_x)
        yield element(
            "rect",
            element("title", said),
            class_="hint",
            x=f"{x:.1f}",
            y=TOP,
            width=f"{max(plot.x.place(to_x) - x, 1):.1f}",
            height=BOTTOM - TOP,
        )


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    return element(
        "line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", class_=style
    )


def _text(
    x: float, y: float, said: str, *, anchor: str | None = None, style: str | None = None
) -> Markup:
    return element("text", said, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, class_=style)


def figure(plot: Plot, caption: str, *below: Markup) -> Markup:
    """Return the plot with what has to be known to read it."""
    return element("figure", element("figcaption", caption), svg(plot), joined(below))
