"""How the console wants rows: as a page of a table, or as a file.

Only the console asks for them: no request of a client can.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class TableView(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="table"):
    """A page of a table, as the console shows it: rows with the text ``search``, sorted.

    Attributes:
        column: the number of the column by which they are sorted, and then by all.
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
