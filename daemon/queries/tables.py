"""Rows as the console shows and sends them: pages of sorted tables, CSV, and JSON lines.

**Invariant:** a page is part of all matching rows, in order. No cell of
a CSV file is a formula for a spreadsheet.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest, nsmallest
from io import StringIO
from itertools import chain
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

import msgspec

from authorizerd.acl.grants.model import Grant
from authorizerd.acl.grants.reading import describe_end, describe_note
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.acl.text.named_acl import NamedAcl, name_acl
from authorizerd.config.bounds import SEND_BYTES
from authorizerd.protocol.decisions.past_answers import AsOfAnswer
from authorizerd.protocol.decisions.searches import Query, SearchContext
from authorizerd.protocol.views import FileView, TableView

T = TypeVar("T")

ROWS_PER_PAGE: Final = 100
NOTE: Final = "note"
"""What a table shows as the permission of a note, which allows and denies nothing."""
CUT_CHARACTERS: Final = 300
"""Longer cells of a table are cut. Names may have 32,767 characters."""
ACL_COLUMNS: Final = MappingProxyType(
    {
        "principal": "Principal",
        "permission_type": "Permission",
        "operation": "Operation",
        "resource_type": "Resource",
        "resource_name": "Name",
        "pattern_type": "Pattern",
        "host": "Host",
    }
)
PRINCIPAL_COLUMNS: Final = MappingProxyType({"principal": "Principal", "hosts": "Hosts"})
OPERATION_COLUMNS: Final = MappingProxyType({"operation": "Operation", "hosts": "Hosts"})
RESOURCE_COLUMNS: Final = MappingProxyType(
    {"name": "Name", "pattern": "Meaning", "except": "Except", "hosts": "Hosts"}
)
_FORMULA: Final = "=+@-\uff1d\uff0b\uff0d\uff20"
"""The characters that begin formulas, including full-width forms."""
_SIGNS: Final = re.escape(_FORMULA)
_AFTER_SEPARATOR: Final = re.compile(rf"([;\t\r\n])(?=[^\w';\t\r\n{_SIGNS}]*[{_SIGNS}])")

Cells: TypeAlias = tuple[str, ...]
"""The texts of a row, one for each column."""
_encode: Final = msgspec.json.Encoder().encode


class TablePage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the sorted rows.

    Attributes:
        total: the number of rows on all pages.
        offset: the log offset of the ACLs.
        as_of: the earlier moment that was asked about.
        facts: of a search: facts about all of its results.
    """

    rows: tuple[Cells, ...]
    total: int
    offset: int
    as_of: AsOfAnswer | None = None
    facts: SearchContext | None = None


def columns_of(query: Query) -> Mapping[str, str]:
    """Return the titles of a search's columns, by name."""
    if query.principal is None:
        return PRINCIPAL_COLUMNS
    return RESOURCE_COLUMNS if query.resource_name is None else OPERATION_COLUMNS


def read_cells(acl: NamedAcl) -> Cells:
    """Return the texts of an ACL's columns."""
    return tuple(getattr(acl, name) for name in ACL_COLUMNS)


def show_cells(acl: Acl, grants: Mapping[Acl, Grant]) -> Cells:
    """Return the texts of an ACL's columns for people: with its end, or with what a note says."""
    cells = read_cells(name_acl(acl))
    if is_note(acl):
        said = describe_note(acl)
        is_readable = not said.endswith(str(acl))
        return (cells[0], NOTE, *cells[2:4], said, *cells[5:]) if is_readable else cells
    grant = grants.get(acl) if grants else None
    return cells if grant is None else (cells[0], f"{cells[1]} {describe_end(grant)}", *cells[2:])


def cut(text: str) -> str:
    """Return the beginning of a long text, followed by its length."""
    if len(text) <= CUT_CHARACTERS:
        return text
    return f"{text[:CUT_CHARACTERS]}… ({len(text):,} characters)"


def make_page(rows: Iterable[Cells], view: TableView) -> tuple[tuple[Cells, ...], int]:
    """Return the rows of a page, and the number of rows on all pages."""
    total = 0

    def select() -> Iterator[Cells]:
        nonlocal total
        has_text = _new_selection(view.search)
        for row in rows:
            if has_text(row):
                total += 1
                yield row

    def key(row: Cells) -> tuple[str, Cells]:
        return row[view.column], row

    end = view.page * ROWS_PER_PAGE
    first = (nlargest if view.is_descending else nsmallest)(end, select(), key)
    page = first[end - ROWS_PER_PAGE :]
    return tuple(tuple(map(cut, row)) for row in page), total


def _new_selection(search: str) -> Callable[[Cells], bool]:
    wanted = search.casefold()
    return lambda row: not wanted or any(wanted in cell.casefold() for cell in row)


def write_file(
    rows: Iterable[T], cells: Callable[[T], Cells], columns: Mapping[str, str], view: FileView
) -> Iterator[bytes]:
    """Yield a file, some lines at a time. CSV begins with a line of column names."""
    has_text = _new_selection(view.search)
    if view.is_csv:
        found = (texts for row in rows if has_text(texts := cells(row)))
        lines = (encode_csv([texts]) for texts in chain([tuple(columns)], found))
        yield from join_lines(lines)
    else:
        chosen = (row for row in rows if has_text(cells(row)))
        yield from join_lines(_encode(row) + b"\n" for row in chosen)


def join_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines in parts of about ``SEND_BYTES``."""
    part = bytearray()
    for line in lines:
        part += line
        if len(part) >= SEND_BYTES:
            yield bytes(part)
            part.clear()
    if part:
        yield bytes(part)


def encode_csv(rows: Iterable[Sequence[str]]) -> bytes:
    """Return lines of CSV.

    A spreadsheet would evaluate a cell that begins like a formula, so such a cell gets a leading
    apostrophe. The same applies to a part of a cell after a character that some spreadsheets treat
    as a separator, and to a cell whose first character a spreadsheet may drop.

    Source: OWASP, CSV Injection.
    """
    text = StringIO()
    writer = csv.writer(text)
    for row in rows:
        writer.writerow([*map(_defuse, row)])
    return text.getvalue().encode()


def _defuse(cell: str) -> str:
    """Return a cell without formulas."""
    if cell.isalnum():
        return cell
    cell = _AFTER_SEPARATOR.sub(r"\1'", cell)
    first = cell[:1]
    is_odd = first.isspace() or not first.isprintable()
    return f"'{cell}" if is_odd or (first and first in _FORMULA) else cell
