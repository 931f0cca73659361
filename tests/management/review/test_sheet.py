"""The sheets of access reviews, as spreadsheets change them."""

import csv
import io
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.review.sheet import (
    ACL_COLUMNS,
    name_cells,
    name_id,
    read_sheet,
    write_sheet,
)
from tests.support.acls import acl
from tests.support.strategies import acls, texts

STATE = "ab" * 24
NAMES = (
    "=1+1", "+1", "-x", "@a", "'q", "''qq", "007", "1e5", "1.5", "2024-01-01", "12/11", "00:10",
    "TRUE", "false", "mar1", "May 3rd", "SEPT2", "apr 2020", "a;b", 'a"b', "a,b", "a\tb", "a\nb",
    "a\\nb", "ünï", "  b ", "*", "#REF!", "€", "٣", "INF", "orders-1",
)  # fmt: skip
"""Names of groups that a spreadsheet takes for formulas, numbers or dates."""
ACLS = [acl("User:a", "READ", group=name) for name in NAMES]
ACLS += [acl("-User:a", "READ", topic="t"), acl("=x:y", "READ", topic="t", host="-")]
Rows = list[list[str]]


def sheet_of(*acls: Acl, owner: str = "orders", others: str = "", state: str = STATE) -> str:
    rows: list[dict[str, str | int]] = [
        {
            **dict(zip(ACL_COLUMNS, name_cells(each), strict=True)),
            "owner": owner, "also_owned_by": others, "id": name_id(each, None), "requests": 7,
        }
        for each in acls
    ]  # fmt: skip
    return write_sheet(state, rows)


def split(text: str) -> Rows:
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def join(rows: Rows, *, delimiter: str = ",", end: str = "\r\n", is_quoted: bool = False) -> bytes:
    file = io.StringIO(newline="")
    csv.writer(
        file,
        delimiter=delimiter,
        lineterminator=end,
        quoting=csv.QUOTE_ALL if is_quoted else csv.QUOTE_MINIMAL,
    ).writerows(rows)
    return file.getvalue().encode()


def change(text: str, line: int, **cells: str) -> bytes:
    rows = split(text)
    for column, value in cells.items():
        rows[line - 1][rows[0].index(column)] = value
    return join(rows)


SPREADSHEETS: dict[str, Callable[[str], bytes]] = {
    "unchanged": lambda text: text.encode(),
    "without a byte order mark": lambda text: text.removeprefix("\ufeff").encode(),
    "semicolons": lambda text: join(split(text), delimiter=";"),
    "LibreOffice, all quoted": lambda text: join(split(text), is_quoted=True, end="\n"),
    "Excel's Unicode text": lambda text: (
        join(split(text), delimiter="\t").decode().encode("utf-16")
    ),
    "old Macintosh": lambda text: join(split(text), end="\r"),
    "apostrophes are removed": lambda text: join(
        [[cell.removeprefix("'") for cell in row] for row in split(text)]
    ),
    "sorted, with the columns moved": lambda text: join(
        [row[::-1] for row in [split(text)[0], *split(text)[:0:-1]]]
    ),
    "blank rows and columns": lambda text: join(
        [*([*row, "", ""] for row in split(text)), [], ["", ""]]
    ),
}


@pytest.mark.parametrize("save", SPREADSHEETS.values(), ids=SPREADSHEETS)
def test_sheet_is_read_as_spreadsheets_save_it(save: Callable[[str], bytes]) -> None:
    sheet = read_sheet(save(sheet_of(*ACLS)))
    assert sheet.state == STATE
    assert sorted(row.acl for row in sheet.rows) == sorted(map(name_cells, ACLS))
    assert {(row.owner, row.decision) for row in sheet.rows} == {("orders", "")}


@given(st.lists(acls(unknown_codes=True) | st.builds(acl, texts, st.just("READ"), group=texts),
                unique=True), st.sampled_from(list(SPREADSHEETS)))  # fmt: skip
def test_every_acl_survives_every_spreadsheet(found: list[Acl], name: str) -> None:
    sheet = read_sheet(SPREADSHEETS[name](sheet_of(*found)))
    assert sorted(row.acl for row in sheet.rows) == sorted(map(name_cells, found))


def test_no_cell_is_a_formula_and_only_figures_are_numbers() -> None:
    heading, *rows = split(sheet_of(*ACLS))
    for row in rows:
        for column, cell in zip(heading, row, strict=True):
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")), cell
            assert (column == "requests") is cell.isdecimal(), cell


def test_spreadsheet_that_expects_semicolons_sees_no_formula() -> None:
    hostile = acl("User:a;=1+1", "READ", group='b;"=1";@x;-1;+1;c')
    text = sheet_of(hostile, *ACLS)
    cells = [cell for line in text.splitlines() for cell in line.split(";")]
    assert not [cell for cell in cells if cell.lstrip('"')[:1] in tuple("=+@-")]
    assert read_sheet(text.encode()).rows[0].acl == name_cells(hostile)


def test_plain_names_have_no_apostrophe() -> None:
    assert "'" not in sheet_of(acl("User:CN=a,OU=b", "READ", topic="orders-1"), acl(topic="*"))


def test_cells_left_out_at_the_end_are_empty() -> None:
    rows = split(sheet_of(*ACLS))
    order = [*range(2, len(rows[0])), 0, 1]
    moved = [[row[number] for number in order] for row in rows]
    sheet = read_sheet(join([moved[0], *(row[:-2] for row in moved[1:])]))
    assert len(sheet.rows) == len(ACLS)


def test_decision_and_comment_are_read() -> None:
    text = sheet_of(*ACLS[:2])
    sheet = read_sheet(change(text, 2, decision=" Remove", comment="'=not \r\n ours "))
    assert [(row.decision, row.comment) for row in sheet.rows] == [
        ("remove", "=not ours"), ("", ""),
    ]  # fmt: skip


TEXT = sheet_of(acl("User:a", "READ", topic="t"), acl("User:b", "READ", topic="t"))
LINES = split(TEXT)
OTHER = split(sheet_of(acl("User:c", "READ", topic="t")))


@pytest.mark.parametrize(("data", "error"), [
    (change(TEXT, 2, principal="User:x"), "line 2: the ACL, its owners or its digest were edited"),
    (change(TEXT, 3, operation="WRITE"), "line 3: the ACL, its owners"),
    (change(TEXT, 3, owner="payments"), "line 3: the ACL, its owners"),
    (change(TEXT, 3, also_owned_by="x"), "line 3: the ACL, its owners"),
    (change(TEXT, 3, id="acl-0"), "line 3: the ACL, its owners"),
    (change(TEXT, 2, row="row-0"), "line 2: the ACL, its owners"),
    (change(TEXT, 2, decision="maybe"), "line 2: decision: expected keep, remove or nothing"),
    (change(TEXT, 2, review="review-0"), "line 3: the row is of another review"),
    (join(LINES[:2]), "review: the 1 rows are not those of the review: some are"),
    (join([*LINES, *OTHER[1:]]), "line 4: the row is of another review"),
    (join([*LINES, LINES[1]]), "line 4: repeats line 2: leave one of them"),
    (join([[*LINES[0][:-1], "x"], *LINES[1:]]), "line 1: expected each of the columns review once"),
    (join([[*LINES[0], "id"], *LINES[1:]]), "line 1: expected each of the columns id once"),
    (join([LINES[0], [*LINES[1], "x"]]), "line 2: expected 15 cells, found 16"),
    (b"a" * 131_073, "line 1: not CSV: field larger than field limit (131072)"),
    (b"", "line 1: expected each of the columns decision, comment, "),
    (TEXT.encode("cp1252", "ignore") + b"\xe4", "not valid UTF-8: save it as CSV in UTF-8"),
    (b"\xff\xfex", "byte 2: not valid UTF-16: save it as UTF-8"),
])  # fmt: skip
def test_changed_sheet_is_rejected_with_its_line(data: bytes, error: str) -> None:
    with pytest.raises(AclTextError) as raised:
        read_sheet(data)
    assert error in str(raised.value)


def test_sheet_of_another_state_is_another_review() -> None:
    other = split(sheet_of(acl("User:b", "READ", topic="t"), state="cd" * 24))
    mixed = join([*LINES[:2], other[1]])
    with pytest.raises(AclTextError, match="line 3: the row is of another review"):
        read_sheet(mixed)


def test_sheet_without_acls_has_no_rows() -> None:
    assert read_sheet(sheet_of().encode()).rows == ()
