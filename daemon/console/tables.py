"""Tables: rows are collected, filtered, sorted and cut into pages, all in turns.

**Invariant:** a table has at most ``ROWS_MAX`` rows with ``CHARACTERS_MAX`` characters, and says so
if there are more. No step is long, however many rows there are: they are also freed in steps.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import urlencode

from authorizerd.acl.steps import Steps, free
from authorizerd.actors.steps import finish_in_turns
from authorizerd.protocol.decisions.acl_filters import QueryError

T = TypeVar("T")

ROWS_MAX: Final = 10_000
ROWS_PER_PAGE: Final = 100
CHARACTERS_MAX: Final = 2 * 1024 * 1024
"""The maximum length of the texts of all rows of a table. Names may have 32,767 characters."""
TABLE_FIELDS: Final = ("search", "sort", "order", "page")
"""The fields of a query that choose rows of a table, their order, and the page."""

_ROWS_PER_RUN: Final = 256
_ROWS_PER_STEP: Final = 64
_DESCENDING: Final = "descending"

Cells: TypeAlias = tuple[str, ...]
"""The texts of a row, one for each column."""


class FullError(Exception):
    """A table has as many rows as it may have, and there are more."""


class RowSelection:
    """Select the rows that have the text ``search`` in one of their cells, in any case."""

    def __init__(self, search: str) -> None:
        self._wanted: Final = search.casefold()

    def __call__(self, row: Cells) -> bool:
        """Return True if the row is selected."""
        wanted = self._wanted
        return not wanted or any(wanted in each.casefold() for each in row)


class Rows:
    """The rows of a table while they are collected: those with the text ``search``.

    Args:
        limit: the maximum number of rows, at most ``ROWS_MAX``, which is the default.
    """

    def __init__(self, search: str, limit: int | None = None) -> None:
        self._limit: Final = ROWS_MAX if limit is None else limit
        self._select: Final = RowSelection(search)
        self._characters = 0
        self.kept: list[Cells] = []
        self.is_whole = True
        self.is_cut = False
        """Whether there are more rows than any page of the table shows."""

    async def add(self, rows: Sequence[Cells]) -> None:
        """Add the next rows; few at a time, since they are filtered in one step.

        Raises:
            FullError: there are more than ``limit``, or their texts are too long.
        """
        for row in filter(self._select, rows):
            self._characters += sum(map(len, row))
            is_too_long = self._characters > CHARACTERS_MAX
            if is_too_long or len(self.kept) == self._limit:
                self.is_whole = False
                self.is_cut = is_too_long or self._limit == ROWS_MAX
                raise FullError
            self.kept.append(row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of a column. ``link`` sorts by it; ``sorted`` is the value of aria-sort."""

    title: str
    link: str
    sorted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One page of the sorted rows, with the links to others.

    ``first`` is the place of its first row, from 1. ``is_whole`` is False if there are more than
    ``total`` rows, and ``is_cut`` is True if no page shows them.
    """

    rows: Sequence[Cells]
    heads: Sequence[Head]
    total: int
    first: int
    previous: str | None
    next: str | None
    is_whole: bool
    is_cut: bool


def read_page_number(fields: Mapping[str, str]) -> int:
    """Return the number of the page that a query asks for, from 1.

    Raises:
        QueryError: it is not such a number.
    """
    page = fields.get("page", "") or "1"
    if not (page.isascii() and page.isdigit() and 0 < int(page[:9]) <= ROWS_MAX):
        raise QueryError("page: expected a number from 1")
    return int(page[:9])


async def make_table(
    path: str,
    fields: Mapping[str, str],
    columns: Mapping[str, str],
    rows: Rows,
) -> Table:
    """Return the page of a table that a query asks for; the collected rows are freed.

    Args:
        path: that of the page, for links.
        columns: their titles by name, in the order of the cells.

    Raises:
        QueryError: the column, the order or the page is invalid.
    """
    names = list(columns)
    sort = fields.get("sort", "") or names[0]
    order = fields.get("order", "") or "ascending"
    number = read_page_number(fields)
    if sort not in columns:
        raise QueryError(f"sort: expected one of {', '.join(names)}")
    if order not in ("ascending", _DESCENDING):
        raise QueryError(f"order: expected ascending or {_DESCENDING}")
    column, total = names.index(sort), len(rows.kept)

    def key(row: Cells) -> tuple[str, Cells]:
        return row[column], row

    start = (number - 1) * ROWS_PER_PAGE
    shown = await finish_in_turns(
        sort_page(rows.kept, key, start, ROWS_PER_PAGE, is_descending=order == _DESCENDING)
    )

    def link(**changed: str) -> str:
        return f"{path}?{urlencode({k: v for k, v in {**fields, **changed}.items() if v})}"

    def head(name: str, title: str) -> Head:
        is_sorted = name == sort
        next_order = _DESCENDING if is_sorted and order != _DESCENDING else "ascending"
        href = link(sort=name, order=next_order, page="")
        return Head(title=title, link=href, sorted=order if is_sorted else "none")

    has_next = start + ROWS_PER_PAGE < total
    return Table(
        rows=shown,
        heads=[head(name, title) for name, title in columns.items()],
        total=total,
        first=start + 1,
        previous=link(page=str(number - 1)) if number > 1 else None,
        next=link(page=str(number + 1)) if has_next else None,
        is_whole=rows.is_whole,
        is_cut=rows.is_cut,
    )


def sort_page(
    rows: list[T], key: Callable[[T], Any], start: int, size: int, *, is_descending: bool
) -> Steps[list[T]]:
    """Return, in steps, ``size`` of the sorted rows, from ``start``. Empty ``rows``."""
    runs: list[list[T]] = []
    while rows:
        run = rows[-_ROWS_PER_RUN:]
        del rows[-_ROWS_PER_RUN:]
        run.sort(key=key, reverse=is_descending)
        runs.append(run)
        yield
    merged = heapq.merge(*runs, key=key, reverse=is_descending)
    for skipped in range(0, start, _ROWS_PER_STEP):
        for _ in islice(merged, min(_ROWS_PER_STEP, start - skipped)):
            pass
        yield
    page = list(islice(merged, size))
    del merged
    yield from free(runs, 1)
    return page
