"""The sheet of an access review: a CSV with a row for each ACL, in which its owner decides.

A spreadsheet may change the separator, the order of rows and columns, line ends and quotes. It may
also take a name for a formula, a number or a date. An apostrophe before such a cell prevents that;
it may be removed again.

**Invariant:** a sheet that is read has exactly the rows of the review, with their ACLs: each row
has a digest of its ACL, and one of the whole review. They detect mistakes. They are no signature: a
person who can write the file can also compute them.

Source: OWASP, CSV injection; RFC 4180.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import product
from typing import Final, NamedTuple

from msgspec.structs import asdict

from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl
from authorizerd.acl.text.named_acl import name_acl
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.formats.unread import decode_text

_OTHER_SEPARATOR: Final = re.compile(r';(?=["=+@-])')
"""Where a spreadsheet that expects semicolons would begin a cell with a formula."""
ACL_COLUMNS: Final = (
    "principal", "host", "operation", "permission_type", "resource_type", "resource_name",
    "pattern_type",
)  # fmt: skip
KEEP: Final = "keep"
REMOVE: Final = "remove"
UUID: Final = "uuid-"
_CHECKED: Final = (*ACL_COLUMNS, "owner", "also_owned_by", "id")
"""The columns that the digest of a row covers."""
_DECIDED: Final = ("decision", "comment")
_DIGESTS: Final = ("row", "review")
_DIGITS: Final = 32
_AGAIN: Final = "write the decisions into the CSV that authorizerd review made"
_SAFE: Final = re.compile(
    r"\*|\d{4}-\d\d-\d\dT[\d:.]{8,15}Z|(?!(?:true|false)$"
    r"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[-./, ]*\d)[a-z].*",
    re.IGNORECASE | re.DOTALL,
)
"""Cells that need no apostrophe: times, and those with a letter first, but no boolean or month."""


class Row(NamedTuple):
    """A row that was read: the cells of ``ACL_COLUMNS``, and what the owner decided.

    ``id`` is what ``name_id`` returned for the ACL. ``decision`` may be empty.
    """

    line: int
    acl: tuple[str, ...]
    owner: str
    also_owned_by: tuple[str, ...]
    id: str
    decision: str
    comment: str


class Sheet(NamedTuple):
    """A sheet that was read. ``state`` is the digest of the reviewed ACLs, those of all owners."""

    state: str
    rows: tuple[Row, ...]


def name_cells(acl: Acl) -> tuple[str, ...]:
    """Return the cells of ``ACL_COLUMNS``, each on one line."""
    named = asdict(name_acl(acl))
    cells = (escape_unprintable(named[column]) for column in ACL_COLUMNS)
    return tuple(map(_escape_separators, cells))


def name_id(acl: Acl, acl_id: bytes | None) -> str:
    """Return the cell that tells ACLs apart: the uuid, or a hash if the source has no uuids.

    The letters keep a spreadsheet from taking it for a number.
    """
    return f"acl-{derive_id(acl).hex()}" if acl_id is None else f"{UUID}{acl_id.hex()}"


def write_sheet(state: str, rows: Sequence[Mapping[str, str | int]]) -> str:
    """Return the text of a sheet, which begins with a byte order mark, as Excel expects it.

    Args:
        state: the digest of the reviewed ACLs.
        rows: the cells by column, the same columns in each; those of ``_CHECKED`` are among them.
    """
    digests = [f"row-{_digest(str(row[column]) for column in _CHECKED)}" for row in rows]
    columns = [*_DECIDED, *(rows[0] if rows else _CHECKED), *_DIGESTS]
    review = _name_review(state, digests)
    file = io.StringIO(newline="")
    file.write("\ufeff")
    writer = csv.DictWriter(file, columns, restval="")
    writer.writeheader()
    for row, digest in zip(rows, digests, strict=True):
        cells = {column: _guard(cell) for column, cell in row.items()}
        writer.writerow({**cells, "row": digest, "review": review})
    return file.getvalue()


def _escape_separators(cell: str) -> str:
    return _OTHER_SEPARATOR.sub(r"\\x3b", cell)


def _guard(cell: str | int) -> str | int:
    if not cell or isinstance(cell, int):
        return cell
    cell = _escape_separators(cell)
    return cell if _SAFE.fullmatch(cell) else f"'{cell}"


def _digest(cells: Iterable[str]) -> str:
    return sha256(json.dumps(list(cells)).encode()).hexdigest()[:_DIGITS]


def _name_review(state: str, digests: Iterable[str]) -> str:
    return f"review-{state}-{_digest(sorted(digests))}"


def read_sheet(data: bytes) -> Sheet:
    """Return the rows of a sheet, as a spreadsheet may have saved it.

    Raises:
        AclTextError: the text is not a sheet, or its rows are not those of one review.
    """
    found: dict[str, Row] = {}
    review = ""
    for line, cells in _read_table(_decode(data)):
        place, digest = f"line {line}", cells["row"]
        row = _read_row(line, cells)
        if digest in found:
            reason = f"repeats line {found[digest].line}: leave one of them"
            raise AclTextError(place, reason)
        found[digest] = row
        review = review or cells["review"]
        if review != cells["review"]:
            raise AclTextError(place, f"the row is of another review: {_AGAIN}")
    _, _, state = review.rpartition("-")[0].partition("-")
    if found and review != _name_review(state, found):
        reason = f"the {len(found):,} rows are not those of the review: some are missing, or new"
        raise AclTextError("review", f"{reason}: {_AGAIN}")
    return Sheet(state, tuple(found.values()))


def _decode(data: bytes) -> str:
    try:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return data.decode("utf-16")
        return decode_text(data)
    except UnicodeDecodeError as error:
        raise AclTextError(f"byte {error.start}", "not valid UTF-16: save it as UTF-8") from error
    except AclTextError as error:
        raise AclTextError(error.place, f"{error.reason}: save it as CSV in UTF-8") from error


def _read_table(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows that are not blank, each with its line."""
    separator = max(",;\t", key="".join(text.splitlines()[:1]).count)
    # Excel leaves out empty cells at the end of a row.
    rows = csv.DictReader(
        io.StringIO(text, newline=""), delimiter=separator, restkey="", restval=""
    )
    line = 0
    try:
        columns = list(rows.fieldnames or ())
        missing = [each for each in (*_DECIDED, *_CHECKED, *_DIGESTS) if columns.count(each) != 1]
        if missing:
            reason = f"expected each of the columns {', '.join(missing)} once: {_AGAIN}"
            raise AclTextError("line 1", reason)
        line = rows.line_num
        for row in rows:
            extra = row.pop("", ())
            if any(extra):
                reason = f"expected {len(columns)} cells, found {len(columns) + len(extra)}"
                raise AclTextError(f"line {rows.line_num}", reason)
            if any(row.values()):
                yield line + 1, row
            line = rows.line_num
    except csv.Error as error:
        raise AclTextError(f"line {line + 1}", f"not CSV: {error}") from error


def _read_row(line: int, cells: Mapping[str, str]) -> Row:
    checked = _restore(line, cells)
    decision = cells["decision"].strip().lower()
    if decision not in ("", KEEP, REMOVE):
        reason = f"expected {KEEP}, {REMOVE} or nothing, found {decision[:80]!r}"
        raise AclTextError(f"line {line}: decision", reason)
    return Row(
        line,
        tuple(checked[column] for column in ACL_COLUMNS),
        checked["owner"],
        tuple(checked["also_owned_by"].split()),
        checked["id"],
        decision,
        " ".join(cells["comment"].removeprefix("'").split()),
    )


def _restore(line: int, cells: Mapping[str, str]) -> dict[str, str]:
    """Return the checked cells without the apostrophes of ``_guard``.

    Only the digest shows whether an apostrophe belongs to a name.
    """
    readings = ({cells[column], cells[column].removeprefix("'")} for column in _CHECKED)
    for reading in product(*readings):
        if f"row-{_digest(reading)}" == cells["row"]:
            return dict(zip(_CHECKED, reading, strict=True))
    raise AclTextError(
        f"line {line}",
        "the ACL, its owners or its digest were edited, or the spreadsheet took a name for a "
        f"number or a date: {_AGAIN}, with all columns as text",
    )
