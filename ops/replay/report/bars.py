"""Bars: counts side by side, and a whole divided into its parts.

**Invariant:** every bar has its number beside it; lengths are in proportion, from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from authorizerd.replay.report.markup import Markup, element
from authorizerd.replay.report.tables import Column, plain_table
from authorizerd.replay.report.wording import count, share

BARS_MAX: Final = 10
_LENGTH: Final = 160
_THICKNESS: Final = 12
_WHOLE: Final = 760


@dataclass(frozen=True, slots=True)
class Bar:
    """``first`` is drawn full, ``second`` behind it in a lighter tone; ``numbers`` stand beside."""

    name: str
    first: int
    second: int = 0
    numbers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """``style`` is a class of the page's, ``part-1`` and so on."""

    name: str
    count: int
    style: str


def bars(title: str, name_title: str, number_titles: Sequence[str], shown: Sequence[Bar]) -> Markup:
    """Return a table of bars, as many as were given."""
    longest = max((bar.first + bar.second for bar in shown), default=0)
    columns = [
        Column(name_title),
        Column(""),
        *(Column(number_title, "number") for number_title in number_titles),
    ]
    rows = ([bar.name, _bar(bar, longest), *bar.numbers] for bar in shown)
    return element("div", element("h4", title), plain_table(title, columns, rows), class_="bars")


def _bar(bar: Bar, longest: int) -> Markup:
    first, second = (_LENGTH * part / max(longest, 1) for part in (bar.first, bar.second))
    return element(
        "svg",
        _rectangle(0, first, _THICKNESS, "part-1"),
        _rectangle(first, second, _THICKNESS, "part-2"),
        class_="bar",
        viewBox=f"0 0 {_LENGTH} {_THICKNESS}",
        width=_LENGTH,
        height=_THICKNESS,
        aria_hidden="true",
    )


def parts(title: str, divided: Sequence[Part]) -> Markup:
    """Return a whole as one bar, and what its parts are."""
    whole = sum(part.count for part in divided)
    drawn, x = [], 0.0
    for part in divided:
        width = _WHOLE * part.count / max(whole, 1)
        drawn.append(_rectangle(x, width, _THICKNESS, part.style))
        x += width
    legend = (
        element(
            "li",
            _swatch(part.style),
            f" {part.name}: {count(part.count)} ({share(part.count, whole)})",
        )
        for part in divided
    )
    return element(
        "figure",
        element("figcaption", title),
        element(
            "svg",
            *drawn,
            class_="whole",
            viewBox=f"0 0 {_WHOLE} {_THICKNESS}",
            preserveAspectRatio="none",
            aria_hidden="true",
        ),
        element("ul", *legend, class_="legend"),
        class_="parts",
    )


def _swatch(style: str) -> Markup:
    square = _rectangle(0, 10, 10, style)
    return element("svg", square, viewBox="0 0 10 10", width=10, height=10, aria_hidden="true")


def _rectangle(x: float, width: float, height: float, style: str) -> Markup:
    return element("rect", x=f"{x:.1f}", y=0, width=f"{width:.1f}", height=height, class_=style)
