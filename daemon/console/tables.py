"""Split tables into pages: the query fields that choose a page, and the links to the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from authorizerd.daemon.queries.tables import ROWS_PER_PAGE, Cells, TablePage
from authorizerd.protocol.decisions.acl_filters import QueryError
from authorizerd.protocol.views import TableView

TABLE_FIELDS: Final = ("search", "sort", "order", "page")
"""The fields of a query that choose rows of a table, their order, and the page."""
PAGE_DIGITS_MAX: Final = 6
_ASCENDING: Final = "ascending"
_DESCENDING: Final = "descending"


def read_view(fields: Mapping[str, str], columns: Mapping[str, str]) -> TableView:
    """Return the requested page: by default, the first one, sorted by the first column.

    Args:
        columns: the titles by name, in the order of the cells.

    Raises:
        QueryError: the column, the order or the page is invalid.
    """
    names = list(columns)
    sort, order = fields.get("sort", "") or names[0], fields.get("order", "") or _ASCENDING
    if sort not in columns:
        raise QueryError(f"sort: expected one of {', '.join(names)}")
    if order not in (_ASCENDING, _DESCENDING):
        raise QueryError(f"order: expected {_ASCENDING} or {_DESCENDING}")
    page = fields.get("page", "") or "1"
    if not (page.isascii() and page.isdigit() and len(page) <= PAGE_DIGITS_MAX and int(page)):
        raise QueryError("page: expected a number from 1")
    return TableView(fields.get("search", ""), names.index(sort), order == _DESCENDING, int(page))


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A column's header. ``link`` sorts by the column; ``sorted`` is the value of aria-sort."""

    title: str
    link: str
    sorted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One page of the sorted rows, with the links to others.

    ``first`` is the number of its first row, from 1.
    """

    rows: Sequence[Cells]
    heads: Sequence[Head]
    total: int
    first: int
    previous: str | None
    next: str | None


def make_table(
    path: str, fields: Mapping[str, str], columns: Mapping[str, str], page: TablePage
) -> Table:
    """Return the page of a table that a query asks for.

    Args:
        path: the path of the page, for links.
        columns: as in ``read_view``, which has read the fields.
    """
    view = read_view(fields, columns)
    start = (view.page - 1) * ROWS_PER_PAGE
    present = _DESCENDING if view.is_descending else _ASCENDING

    def link(**changed: str) -> str:
        return f"{path}?{urlencode({k: v for k, v in {**fields, **changed}.items() if v})}"

    def head(position: int, name: str, title: str) -> Head:
        is_sorted = position == view.column
        next_order = _DESCENDING if is_sorted and not view.is_descending else _ASCENDING
        href = link(sort=name, order=next_order, page="")
        return Head(title=title, link=href, sorted=present if is_sorted else "none")

    return Table(
        rows=page.rows,
        heads=[head(position, *column) for position, column in enumerate(columns.items())],
        total=page.total,
        first=start + 1,
        previous=link(page=str(view.page - 1)) if view.page > 1 else None,
        next=link(page=str(view.page + 1)) if start + ROWS_PER_PAGE < page.total else None,
    )
