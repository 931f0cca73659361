"""Tables that are whole without JavaScript, and can be sorted and searched with it.

**Invariant:** a table says how many rows there are, how many of them it shows, and where the others
are; it never grows past ``ROWS_MAX`` rows or much past ``CHARACTERS_MAX`` characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from authorizerd.replay.report.markup import NOTHING, Markup, element
from authorizerd.replay.report.wording import count

ROWS_MAX: Final = 1_000
CHARACTERS_MAX: Final = 600_000

Kind = Literal["text", "short", "long", "number"]
Row = Sequence[str]


@dataclass(frozen=True, slots=True)
class Column:
    """``kind`` says how its cells are compared: numbers by value, all else as text.

    A "short" cell, such as a time or a word of Kafka's, and a "long" one, such as a rule, are not
    broken into lines, but on paper.
    """

    title: str
    kind: Kind = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """``rows`` of ``total`` that there are; ``elsewhere`` is where to find what is left out."""

    title: str
    columns: Sequence[Column]
    rows: Iterable[Row]
    total: int
    elsewhere: str


def listing(table: Listing) -> Markup:
    """Return a table that can be searched and sorted; nothing at all where it has no rows."""
    if not table.total:
        return NOTHING
    rows = _bounded(_row(table.columns, row) for row in table.rows)
    left_out = table.total - len(rows)
    return element(
        "section",
        element("h4", table.title),
        element(
            "p",
            element("span", count(len(rows)), class_="shown", role="status"),
            f" of {count(table.total)} shown",
            f"; {count(left_out)} left out of this page, see {table.elsewhere}" if left_out else "",
            class_="tally",
        ),
        _scrolled(table.title, _table(table.columns, rows, "listing")),
        class_="searchable",
    )


def plain_table(title: str, columns: Sequence[Column], rows: Iterable[Row]) -> Markup:
    """Return a small table, in its order."""
    body = [_row(columns, row) for row in rows]
    return _scrolled(title, _table(columns, body, "small"))


def facts(title: str, named: Iterable[tuple[str, str | None]]) -> Markup:
    """Return values by their names; one that is None is left out."""
    parts = (
        element("div", element("dt", name), element("dd", value))
        for name, value in named
        if value is not None
    )
    return element("dl", *parts, class_="facts", aria_label=title)


def _table(columns: Sequence[Column], rows: Sequence[Markup], style: str) -> Markup:
    heads = (
        element("th", column.title, scope="col", data_kind=column.kind, class_=_style(column))
        for column in columns
    )
    return element(
        "table",
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        class_=style,
    )


def _scrolled(title: str, table: Markup) -> Markup:
    """Return a table in a box of its own: wide ones scroll there, by the keyboard too."""
    return element("div", table, class_="scrolled", tabindex=0, role="region", aria_label=title)


def _row(columns: Sequence[Column], row: Row) -> Markup:
    cells = (
        element("td", cell, class_=_style(column))
        for column, cell in zip(columns, row, strict=True)
    )
    return element("tr", *cells)


def _style(column: Column) -> str | None:
    return None if column.kind == "text" else column.kind


def _bounded(rows: Iterable[Markup]) -> list[Markup]:
    taken: list[Markup] = []
    characters = 0
    for row in rows:
        characters += len(row)
        if len(taken) == ROWS_MAX or characters > CHARACTERS_MAX:
            break
        taken.append(row)
    return taken
