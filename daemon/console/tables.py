"""Tables: rows are collected, filtered, sorted and cut into pages, all in turns.

**Invariant:** a table has at most ``ROWS_MAX`` rows with ``CHARACTERS_MAX`` characters. If there
are more, these are the first ones in its order, and it says so or links to the next ones. No step
is long, however many rows there are: they are also freed in steps.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec

from authorizerd.acl.steps import Steps, free
from authorizerd.actors.steps import finish_in_turns
from authorizerd.protocol.decisions.acl_filters import QueryError

T = TypeVar("T")

ROWS_MAX: Final = 10_000
ROWS_PER_PAGE: Final = 100
CHARACTERS_MAX: Final = 2 * 1024 * 1024
"""The maximum length of the texts of all rows of a table. Names may have 32,767 characters."""
TABLE_FIELDS: Final = ("search", "sort", "order", "page", "after")
"""The fields of a query that choose rows of a table, their order, and the page.

``after`` is a row: the table begins behind it.
"""
AFTER_CHARACTERS_MAX: Final = 2_000
"""Longer rows cannot be part of a link."""

_ROWS_PER_RUN: Final = 256
_ROWS_PER_STEP: Final = 64
_ASCENDING: Final = "ascending"
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


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a table: by one of its columns, then by all."""

    column: int
    is_descending: bool

    def key(self, row: Cells) -> tuple[str, Cells]:
        return row[self.column], row

    def is_behind(self, row: Cells, other: Cells) -> bool:
        """Return True if ``row`` comes after ``other``."""
        keys = self.key(row), self.key(other)
        return keys[0] < keys[1] if self.is_descending else keys[0] > keys[1]


def read_order(fields: Mapping[str, str], columns: Mapping[str, str]) -> Order:
    """Return the order that a query asks for: by default, the first column ascending.

    Raises:
        QueryError: the column or the order is invalid.
    """
    names = list(columns)
    sort, order = fields.get("sort", "") or names[0], fields.get("order", "") or _ASCENDING
    if sort not in columns:
        raise QueryError(f"sort: expected one of {', '.join(names)}")
    if order not in (_ASCENDING, _DESCENDING):
        raise QueryError(f"order: expected {_ASCENDING} or {_DESCENDING}")
    return Order(names.index(sort), order == _DESCENDING)


class Rows:
    """The rows of a table while they are collected in its order: those with the text ``search``.

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
        self.passed = 0
        """How many rows come before those of the table."""

    @property
    def total(self) -> int:
        return len(self.kept)

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


class SortedRows:
    """The first rows of a table in its order, of all that are added in any order.

    Args:
        fields: those of the query.
        columns: the titles by name, in the order of the cells.

    Raises:
        QueryError: the order or ``after`` is invalid.
    """

    def __init__(self, fields: Mapping[str, str], columns: Mapping[str, str]) -> None:
        self._select: Final = RowSelection(fields.get("search", ""))
        self._order: Final = read_order(fields, columns)
        self._after: Final = _read_after(fields, len(columns))
        self._last: Cells | None = None  # no row behind it is kept
        self._characters = 0
        self.kept: list[Cells] = []
        self.total = 0
        self.passed = 0
        self.is_whole = True
        self.is_cut = False

    async def add(self, rows: Sequence[Cells]) -> None:
        """Add some rows; few at a time, since they are filtered in one step."""
        is_behind = self._order.is_behind
        for row in filter(self._select, rows):
            self.total += 1
            if self._after is not None and not is_behind(row, self._after):
                self.passed += 1
            elif self._last is not None and is_behind(row, self._last):
                self.is_cut = True
            else:
                self.kept.append(row)
                self._characters += sum(map(len, row))
        if len(self.kept) >= 2 * ROWS_MAX or self._characters >= CHARACTERS_MAX * 5 // 4:
            await self.cut()

    async def cut(self) -> None:
        """Keep only as many rows as a table may have. Call it after the last row, too."""
        self.kept = await finish_in_turns(self._cut(self.kept))

    def _cut(self, rows: list[Cells]) -> Steps[list[Cells]]:
        count = len(rows)
        if count <= ROWS_MAX and self._characters <= CHARACTERS_MAX:
            return rows
        order = self._order
        page = yield from sort_page(rows, order.key, 0, ROWS_MAX, is_descending=order.is_descending)
        self._characters = fitting = 0
        for row in page:
            size = sum(map(len, row))
            if fitting and self._characters + size > CHARACTERS_MAX:
                break
            self._characters += size
            fitting += 1
            if fitting % _ROWS_PER_STEP == 0:
                yield
        del page[fitting:]
        self.is_cut |= len(page) < count
        self._last = page[-1]
        return page


def _read_after(fields: Mapping[str, str], columns: int) -> Cells | None:
    """Return the row behind which a table begins, or None.

    Raises:
        QueryError: it is not a row.
    """
    text = fields.get("after", "")
    if not text:
        return None
    try:
        row = msgspec.json.decode(text, type=tuple[str, ...])
    except (msgspec.DecodeError, RecursionError):
        row = ()
    if len(row) != columns:
        raise QueryError("after: expected a row of the table, as its links have it")
    return row


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
    rows: Rows | SortedRows,
) -> Table:
    """Return the page of a table that a query asks for; the collected rows are freed.

    Args:
        path: that of the page, for links.
        columns: their titles by name, in the order of the cells.

    Raises:
        QueryError: the column, the order or the page is invalid.
    """
    order = read_order(fields, columns)
    number = read_page_number(fields)
    kept, total = len(rows.kept), rows.total
    start = (number - 1) * ROWS_PER_PAGE
    shown = await finish_in_turns(
        sort_page(rows.kept, order.key, start, ROWS_PER_PAGE, is_descending=order.is_descending)
    )

    def link(**changed: str) -> str:
        return f"{path}?{urlencode({k: v for k, v in {**fields, **changed}.items() if v})}"

    def head(place: int, name: str, title: str) -> Head:
        is_sorted = place == order.column
        next_order = _DESCENDING if is_sorted and not order.is_descending else _ASCENDING
        href = link(sort=name, order=next_order, page="", after="")
        present = _DESCENDING if order.is_descending else _ASCENDING
        return Head(title=title, link=href, sorted=present if is_sorted else "none")

    following = link(page=str(number + 1)) if start + ROWS_PER_PAGE < kept else None
    if following is None and rows.is_cut and rows.is_whole and shown:
        last = msgspec.json.encode(shown[-1]).decode()
        following = link(page="", after=last) if len(last) <= AFTER_CHARACTERS_MAX else None
    return Table(
        rows=shown,
        heads=[head(place, *column) for place, column in enumerate(columns.items())],
        total=total,
        first=rows.passed + start + 1,
        previous=link(page=str(number - 1)) if number > 1 else None,
        next=following,
        is_whole=rows.is_whole,
        is_cut=rows.is_cut and not rows.is_whole,
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
    page: list[T] = []
    while some := list(islice(merged, min(_ROWS_PER_STEP, size - len(page)))):
        page += some
        yield
    del merged
    yield from free(runs, 1)
    return page
