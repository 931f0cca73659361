"""Curves over logarithmic axes, as an SVG that any browser shows: no network, no library.

**Invariant:** an axis covers whole powers of ten, each with a line and its number, so that curves
in different files can be compared by eye.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 380
HEIGHT: Final = 250
COLUMNS: Final = 2
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 92, 30, 36
_THOUSANDS: Final = ("", "k", "M", "G", "T")
_COLOURS: Final = ("#0b6e99", "#c2571a", "#5b7f2b")
_STYLE: Final = (
    "text{font:11px system-ui,sans-serif;fill:#333}.title{font-size:13px;font-weight:600}"
    ".grid{stroke:#ddd}.axis{stroke:#888}.curve{fill:none;stroke-width:2}"
)


@dataclass(frozen=True, slots=True)
class Series:
    """A curve: points of x and y, both above 0, in rising x. It may be empty."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    x_title: str
    series: Sequence[Series]


@dataclass(frozen=True, slots=True)
class _Axis:
    """Whole powers of ten, ``first`` to ``last``, laid over pixels ``start`` to ``end``."""

    first: int
    last: int
    start: float
    end: float

    def place(self, value: float) -> float:
        share = (math.log10(value) - self.first) / (self.last - self.first)
        return self.start + share * (self.end - self.start)

    @property
    def powers(self) -> range:
        return range(self.first, self.last + 1)


def svg(panels: Sequence[Panel]) -> str:
    """Return the panels, two beside each other, as one SVG document."""
    rows = -(-len(panels) // COLUMNS)
    width, height = WIDTH * COLUMNS, HEIGHT * rows
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for number, panel in enumerate(panels):
        row, column = divmod(number, COLUMNS)
        parts.append(f'<g transform="translate({column * WIDTH},{row * HEIGHT})">')
        parts += _panel(panel)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>\n"])


def _panel(panel: Panel) -> list[str]:
    parts = [f'<text class="title" x="{_LEFT}" y="18">{escape(panel.title)}</text>']
    points = [point for series in panel.series for point in series.points]
    if not points:
        return [*parts, f'<text x="{_LEFT}" y="{HEIGHT / 2}">nothing was measured</text>']
    across = _axis([x for x, _ in points], _LEFT, WIDTH - _RIGHT)
    upward = _axis([y for _, y in points], HEIGHT - _BOTTOM, _TOP)
    parts += _grid(across, upward)
    parts.append(
        f'<text x="{across.end + 20}" y="{upward.start + 16}">{escape(panel.x_title)}</text>'
    )
    for series, colour in zip(panel.series, _COLOURS, strict=False):
        parts += _curve(series, colour, across, upward)
    return parts


def _axis(values: Sequence[float], start: float, end: float) -> _Axis:
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return _Axis(first, max(last, first + 1), start, end)


def _grid(across: _Axis, upward: _Axis) -> list[str]:
    parts = []
    for power in across.powers:
        x = across.place(10.0**power)
        parts += [
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{upward.start}" y2="{upward.end}"/>',
            f'<text x="{x:.1f}" y="{upward.start + 16}" text-anchor="middle">{_number(power)}'
            "</text>",
        ]
    for power in upward.powers:
        y = upward.place(10.0**power)
        parts += [
            f'<line class="grid" x1="{across.start}" x2="{across.end}" y1="{y:.1f}" y2="{y:.1f}"/>',
            f'<text x="{across.start - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(power)}'
            "</text>",
        ]
    return parts


def _number(power: int) -> str:
    if power < 3:
        return f"{10.0**power:g}"
    thousands, rest = divmod(power, 3)
    return f"{10**rest}{_THOUSANDS[thousands]}"


def _curve(series: Series, colour: str, across: _Axis, upward: _Axis) -> list[str]:
    places = [(across.place(x), upward.place(y)) for x, y in series.points]
    if not places:
        return []
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
    end_x, end_y = places[-1]
    return [
        f'<polyline class="curve" stroke="{colour}" points="{path}"/>',
        *dots,
        f'<text x="{end_x + 8:.1f}" y="{end_y + 4:.1f}" style="fill:{colour}">'
        f"{escape(series.name)}</text>",
    ]
