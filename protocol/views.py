"""The forms in which the console wants rows: a page of a table, or a file.

Only the console can ask for them, never a client's request.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class TableView(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="table"):
    """A page of a table, as the console shows it: rows with the text ``search``, sorted.

    Attributes:
        column: the number of the column to sort by first; the other columns break ties.
        page: its number, from 1.
    """

    search: str
    column: int
    is_descending: bool
    page: int


class FileView(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="file"):
    """All rows with the text ``search``, as CSV or as lines of JSON."""

    search: str
    is_csv: bool


View: TypeAlias = TableView | FileView
