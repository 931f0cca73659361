"""Draw numbers as SVG: bars, lines, shares, and a matrix of cells.

Bars, lines and shares are as wide as their place, and their texts keep their size: texts have
percentages as positions, and the marks are in an inner drawing that is stretched. A matrix has a
fixed size.

**Invariant:** every text is escaped, and a picture has no link, style or code. A position, a shape
or a text says what a colour says. None, which means that a number is not known, is never drawn as
0. Programs that read pages aloud get only the title and the description, so each page also has the
numbers in a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, groupby
from typing import Final, TypeAlias

import msgspec
from markupsafe import Markup, escape

from authorizerd.acl.text.printable import escape_unprintable

Values: TypeAlias = Sequence[float | None]
"""Numbers from 0; None where nothing is known."""

PLOT_HEIGHT: Final = 140
"""The height of bars and lines, in pixels."""
LEVEL_MAX: Final = 4
"""The highest level of a matrix's cell. The style sheet has a colour for each level from 0."""
_TOP: Final = 20
_BOTTOM: Final = 24
_SHARE_HEIGHT: Final = 36
_CELL_WIDTH: Final = 48
_CELL_HEIGHT: Final = 26
_CHARACTER_WIDTH: Final = 8
_LINE_HEIGHT: Final = 16
_GAPS_MAX: Final = 100
"""More bars than this have no gaps between them."""
_PLACES: Final = (("0", "start"), ("50%", "middle wide"), ("100%", "end"))
_NAME_CHARACTERS: Final = 24
"""Longer names of a matrix are cut; its table has them in full."""


class Picture(msgspec.Struct, frozen=True):
    """What is said about a picture.

    Attributes:
        name: unique in the page.
        title: what it shows.
        description: what its marks mean.
    """

    name: str
    title: str
    description: str


class Cell(msgspec.Struct, frozen=True):
    """A cell of a matrix: a short text, and a level from 0 to ``LEVEL_MAX``."""

    text: str
    level: int


def draw_bars(
    picture: Picture,
    above: Values,
    below: Values,
    labels: Sequence[str],
    text: Callable[[float], str] = "{:,}".format,
) -> Markup:
    """Draw a bar upwards and a bar downwards at each position, with one scale.

    Args:
        below: as long as ``above``.
        labels: the texts below the first, the middle and the last position.
        text: returns a number as a text, with its unit.
    """
    highest, deepest = _find_most(above), _find_most(below)
    scale = PLOT_HEIGHT / ((highest + deepest) or 1)
    zero = highest * scale if highest or deepest else PLOT_HEIGHT
    marks = (
        _draw_absent(above),
        _element("path", class_="mark-1", d="".join(_draw_columns(above, zero, -scale))),
        _element("path", class_="mark-2", d="".join(_draw_columns(below, zero, scale))),
    )
    is_apart = _LINE_HEIGHT < zero < PLOT_HEIGHT - _LINE_HEIGHT
    lines = [
        (0, text(highest) if highest else ""),
        (zero, "0" if is_apart or not (highest or deepest) else ""),
        (PLOT_HEIGHT, text(deepest) if deepest else ""),
    ]
    return _frame(picture, len(above), marks, lines, labels)


def draw_lines(
    picture: Picture,
    series: Sequence[Values],
    labels: Sequence[str],
    text: Callable[[float], str] = "{:,}".format,
    known: Values | None = None,
) -> Markup:
    """Draw at most three lines: the first is solid, the second dashed, the third dotted.

    Args:
        series: at least one, all equally long. A line has a gap where its number is None.
        labels, text: as in ``draw_bars``.
        known: has None where nothing is known; by default, the first line.
    """
    most = max(map(_find_most, series))
    scale = PLOT_HEIGHT / (most or 1)
    marks = [_draw_absent(series[0] if known is None else known)]
    for number, values in enumerate(series, 1):
        marks.append(
            _element("path", class_=f"line-{number}", d="".join(_draw_line(values, scale)))
        )
    return _frame(picture, len(series[0]), marks, [(0, text(most)), (PLOT_HEIGHT, "")], labels)


def draw_shares(picture: Picture, shares: Sequence[tuple[str, float, str]]) -> Markup:
    """Draw a horizontal bar for each name; the longest one is as wide as the picture.

    Args:
        shares: the name, the number, and the text of the number.
    """
    most = max((number for _, number, _ in shares), default=0) or 1
    parts: list[str] = []
    for y, (name, number, text) in zip(count(14, _SHARE_HEIGHT), shares, strict=False):
        parts += (
            _text(0, y, _cut(name)),
            _text("100%", y, text, "end"),
            _element("rect", class_="faint", y=y + 5, width="100%", height=10),
            _element(
                "rect", class_="mark-1", y=y + 5, width=f"{100 * number / most:.2f}%", height=10
            ),
        )
    return _svg(picture, "100%", len(shares) * _SHARE_HEIGHT, parts)


def draw_cells(
    picture: Picture,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[Cell | None]],
) -> Markup:
    """Draw a matrix, which needs a place that scrolls. 100 cells take about a millisecond.

    Args:
        cells: by row and column; None for an empty cell.
    """
    left = max((len(_cut(each)) for each in rows), default=0) * _CHARACTER_WIDTH + 12
    longest = max((len(_cut(each)) for each in columns), default=0) * _CHARACTER_WIDTH
    top = int(longest * math.sqrt(0.5)) + 16  # heads are turned by 45 degrees
    parts: list[str] = []
    for x, name in zip(count(left + _CELL_WIDTH // 2, _CELL_WIDTH), columns, strict=False):
        place = f"translate({x} {top - 6}) rotate(-45)"
        parts.append(_element("g", _text(0, 0, _cut(name)), transform=place))
    for y, name, row in zip(count(top, _CELL_HEIGHT), rows, cells, strict=False):
        parts.append(_text(left - 8, y + 18, _cut(name), "end"))
        for x, cell in zip(count(left, _CELL_WIDTH), row, strict=False):
            kind = "faint" if cell is None else f"level-{cell.level}"
            width, height = _CELL_WIDTH - 2, _CELL_HEIGHT - 2
            parts.append(_element("rect", class_=kind, x=x, y=y, width=width, height=height))
            if cell is not None:
                middle = x + width // 2
                parts.append(_text(middle, y + 17, cell.text, f"middle on-level-{cell.level}"))
    width = left + len(columns) * _CELL_WIDTH + top  # the last head reaches beyond its column
    return _svg(picture, str(width), top + len(rows) * _CELL_HEIGHT, parts)


def _frame(
    picture: Picture,
    positions: int,
    marks: Iterable[str],
    lines: Sequence[tuple[float, str]],
    labels: Sequence[str],
) -> Markup:
    """Return marks with their scale.

    Args:
        lines: the horizontal lines, by height, and their texts.
    """
    box = f"0 0 {max(positions, 1)} {PLOT_HEIGHT}"
    heights = [round(_TOP + height, 2) for height, _ in lines]
    parts = [_element("line", x2="100%", y1=y, y2=y) for y in heights]
    plot = {"y": _TOP, "width": "100%", "height": PLOT_HEIGHT}
    parts.append(_element("svg", "".join(marks), **plot, viewBox=box, preserveAspectRatio="none"))
    parts += (_text(0, y - 4, text) for y, (_, text) in zip(heights, lines, strict=True) if text)
    for (x, kind), text in zip(_PLACES, labels, strict=True):
        parts.append(_text(x, _TOP + PLOT_HEIGHT + 17, text, kind))
    return _svg(picture, "100%", _TOP + PLOT_HEIGHT + _BOTTOM, parts)


def _svg(picture: Picture, width: str, height: int, parts: Iterable[str]) -> Markup:
    name = f"picture-{picture.name}"
    said = _element("title", _escape(picture.title), id=name)
    said += _element("desc", _escape(picture.description), id=f"{name}-text")
    svg = _element(
        "svg",
        said + "".join(parts),
        class_="picture",
        role="img",
        width=width,
        height=height,
        aria_labelledby=name,
        aria_describedby=f"{name}-text",
    )
    return Markup(svg)  # noqa: S704 - all texts are escaped


def _element(tag: str, body: str = "", **attributes: object) -> str:
    """Return an element. The body is SVG; the attributes are numbers or words of this module."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{value}"' for name, value in attributes.items()
    )
    return f"<{tag}{named}>{body}</{tag}>"


def _text(x: object, y: float, text: str, kind: str = "start") -> str:
    return _element("text", _escape(text), x=x, y=y, class_=kind)


def _draw_columns(values: Values, zero: float, scale: float) -> Iterator[str]:
    """Yield the bars. Each number above 0 is visible."""
    gap = 0.1 if len(values) <= _GAPS_MAX else 0.0
    for x, value in enumerate(values):
        if value:
            height = math.copysign(max(abs(scale * value), 1), scale)
            yield f"M{x + gap},{zero:.2f}v{height:.2f}h{1 - 2 * gap}V{zero:.2f}z"


def _draw_line(values: Values, scale: float) -> Iterator[str]:
    """Yield a line for each run of known numbers; a single number is a dot."""
    is_open = False
    for x, value in enumerate(values):
        if value is not None:
            y = PLOT_HEIGHT - scale * value
            yield f"L{x}.5,{y:.2f}" if is_open else f"M{x}.5,{y:.2f}h0"
        is_open = value is not None


def _draw_absent(values: Values) -> str:
    """Return a band for each run of positions where nothing is known."""
    bands, x = "", 0
    for is_absent, run in groupby(values, lambda value: value is None):
        width = len(list(run))
        if is_absent:
            bands += _element("rect", class_="absent", x=x, width=width, height=PLOT_HEIGHT)
        x += width
    return bands


def _find_most(values: Values) -> float:
    return max((value for value in values if value is not None), default=0)


def _cut(name: str) -> str:
    shown = escape_unprintable(name)
    return shown if len(shown) <= _NAME_CHARACTERS else f"{shown[: _NAME_CHARACTERS - 1]}…"


def _escape(text: str) -> str:
    return str(escape(escape_unprintable(text)))
