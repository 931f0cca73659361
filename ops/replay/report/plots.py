"""Plots of curves: where each part of a plot is drawn. ``templates/svg.jinja`` writes the SVG.

**Invariant:** curves differ in dashes and names as well as in colour. A gap in the figures is a gap
in the curve. Colours are those of the page's style sheet, which has a light and a dark set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from authorizerd.replay.report.axes import Axis

_LEGEND_LINE: Final = 26
_LEGEND_GAP: Final = 16
_CHARACTER_WIDTH: Final = 6.4
"""SVG has no layout, so the width of a name is estimated."""
_DISTANCE_MIN: Final = 0.6
"""A point closer than this to the previous one, in pixels, is not drawn."""

Point = tuple[float, float | None]
Place = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The size of a plot, and the edges of the area in which its curves are drawn, in pixels."""

    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float


PAGE_FRAME: Final = Frame(width=760, height=270, left=62.0, right=742.0, top=36.0, bottom=230.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points by increasing x; ``style`` is a class of the style sheet: ``curve-1`` and so on."""

    name: str
    style: str
    points: Sequence[Point]
    has_dots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A vertical line across the plot."""

    name: str
    x: float


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """Where the sample line of a curve begins, and where its name begins."""

    curve: Curve
    line_x: float
    text_x: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot with its axes and curves.

    ``hints`` are (from x, to x, text): the text appears while the pointer is between the two.
    """

    label: str
    x: Axis
    y: Axis
    x_title: str
    y_title: str
    x_number: Callable[[float], str]
    y_number: Callable[[float], str]
    curves: Sequence[Curve]
    caption: str = ""
    markers: Sequence[Marker] = ()
    hints: Sequence[tuple[float, float, str]] = ()
    frame: Frame = PAGE_FRAME

    def legend(self) -> Iterator[LegendEntry]:
        """Yield the names of the curves from right to left, each right of its sample line."""
        x = self.frame.right
        for curve in reversed(self.curves):
            x -= len(curve.name) * _CHARACTER_WIDTH
            yield LegendEntry(curve, x - _LEGEND_LINE, x)
            x -= _LEGEND_LINE + _LEGEND_GAP

    def pieces(self, curve: Curve) -> Iterator[list[Place]]:
        """Yield each part of the curve between gaps, without points too close to distinguish."""
        piece: list[Place] = []
        points = curve.points
        for number, (x, y) in enumerate(points):
            if y is None:
                if piece:
                    yield piece
                piece = []
                continue
            place = (self.x.place(x), self.y.place(y))
            # The last point before a gap is always drawn, so the curve ends where the figures do.
            is_last = number + 1 == len(points) or points[number + 1][1] is None
            if is_last or not piece or _distance(piece[-1], place) >= _DISTANCE_MIN:
                piece.append(place)
        if piece:
            yield piece


def _distance(one: Place, other: Place) -> float:
    return max(abs(one[0] - other[0]), abs(one[1] - other[1]))
