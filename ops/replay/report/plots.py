"""Plots of curves: axes, and where each point is drawn. ``templates/svg.jinja`` writes the SVG.

**Invariant:** every value is drawn within its axis, and a gap in the figures is a gap in the curve.
Curves differ in dashes and names as well as in colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

_LINEAR_TICKS_MAX: Final = 10
_LOG_TICKS_MAX: Final = 10
_STEPS: Final = (1.0, 2.0, 5.0)
_TOLERANCE: Final = 1e-9
"""Allows for rounding: the computed logarithm of a power of ten may not be exact."""

Point = tuple[float, float | None]
Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from ``first`` to ``last``, and the values that get a tick."""

    first: float
    last: float
    ticks: tuple[float, ...]
    is_log: bool = False

    def locate(self, value: float) -> float:
        """Return the position of ``value`` on the axis, from 0 to 1; values outside are clamped."""
        value = min(max(value, self.first), self.last)
        if self.is_log:
            return math.log(value / self.first) / math.log(self.last / self.first)
        return (value - self.first) / (self.last - self.first)


def linear_axis(first: float, last: float) -> Axis:
    """Return an axis with exactly these ends, and ticks at round numbers."""
    least = (last - first) / _LINEAR_TICKS_MAX
    power = 10.0 ** math.floor(math.log10(least))
    step = next((step * power for step in _STEPS if step * power >= least), 10 * power)
    numbers = range(math.ceil(first / step), math.floor(last / step + _TOLERANCE) + 1)
    return Axis(first, last, tuple(number * step for number in numbers))


def log_axis(values: Iterable[float], steps: Sequence[float] = _STEPS) -> Axis:
    """Return a logarithmic axis for the values above 0.

    It begins and ends at one of ``steps`` times a power of ten. All of these get ticks, or if there
    are many, only the powers of ten.
    """
    above_0 = [value for value in values if value > 0] or [1.0]
    least, most = min(above_0) * (1 + _TOLERANCE), max(above_0) / (1 + _TOLERANCE)
    powers = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 2)
    marks = [step * 10.0**power for power in powers for step in steps]
    first = max(mark for mark in marks if mark <= least)
    last = min(mark for mark in marks if mark >= most and mark > first)
    ticks = [mark for mark in marks if first <= mark <= last]
    if len(ticks) > _LOG_TICKS_MAX:
        ticks = [10.0**power for power in powers if first <= 10.0**power <= last]
    return Axis(first, last, tuple(ticks), is_log=True)


def format_tick(value: float) -> str:
    """Return a tick's label."""
    return f"{value:,.0f}" if value >= 1 and value == int(value) else f"{value:g}"


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


class Curve(NamedTuple):
    """Points by increasing x."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot with its axes and curves; ``markers`` are names of vertical lines, each at an x.

    The style sheet has ``curve-1`` for the first curve, and so on.
    """

    label: str
    caption: str = ""
    x: Axis
    y: Axis
    x_title: str
    y_title: str
    x_number: Callable[[float], str] = format_tick
    y_number: Callable[[float], str] = format_tick
    curves: Sequence[Curve]
    markers: Sequence[tuple[str, float]] = ()
    frame: Frame = PAGE_FRAME

    def place_x(self, value: float) -> float:
        """Return the pixel of a value on the x axis."""
        return self.frame.left + self.x.locate(value) * (self.frame.right - self.frame.left)

    def place_y(self, value: float) -> float:
        """Return the pixel of a value on the y axis."""
        return self.frame.bottom + self.y.locate(value) * (self.frame.top - self.frame.bottom)

    def pieces(self, curve: Curve) -> Iterator[list[Place]]:
        """Yield each part of the curve between gaps; points within 0.1 pixel are merged."""
        for is_gap, points in groupby(curve.points, lambda point: point[1] is None):
            if not is_gap:
                places = (
                    (round(self.place_x(x), 1), round(self.place_y(y), 1))
                    for x, y in points
                    if y is not None
                )
                yield list(dict.fromkeys(places))
