"""Pages of sorted rows, and files."""

import csv
import re
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.model import PermissionType
from authorizerd.acl.text.named_acl import name_acl
from authorizerd.config.bounds import SEND_BYTES
from authorizerd.daemon.queries import tables
from authorizerd.daemon.queries.tables import (
    CUT_CHARACTERS,
    ROWS_PER_PAGE,
    encode_csv,
    join_lines,
    make_page,
    read_cells,
    show_cells,
)
from authorizerd.protocol.views import TableView
from tests.support.acls import acl

NUMBERS = st.integers(0, 9).map(str)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), max_size=20),
    st.integers(0, 1),
    st.booleans(),
    st.integers(1, 5),
)
def test_page_is_a_part_of_the_sorted_rows(
    rows: list[tuple[str, str]], column: int, is_descending: bool, number: int
) -> None:
    """The oracle sorts everything at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ROWS_PER_PAGE", 4)
        page, total = make_page(iter(rows), TableView("", column, is_descending, number))
    expected = sorted(rows, key=lambda row: (row[column], row), reverse=is_descending)
    assert page == tuple(expected[4 * number - 4 : 4 * number])
    assert total == len(rows)


def test_contained_text_is_found_in_any_column_and_case() -> None:
    rows = [("Straße", "a"), ("b", "STRASSE"), ("c", "d")]
    page, total = make_page(rows, TableView("strasse", 0, False, 1))
    assert (page, total) == ((rows[0], rows[1]), 2)


def test_long_cells_are_cut() -> None:
    rows = [("n" * 32_767, "b")] * ROWS_PER_PAGE
    page, _ = make_page(rows, TableView("", 0, False, 1))
    assert {len(row[0]) for row in page} == {len("n" * CUT_CHARACTERS + "… (32,767 characters)")}


@given(st.lists(st.binary(max_size=SEND_BYTES), max_size=6))
def test_lines_are_joined_in_order(lines: list[bytes]) -> None:
    parts = [*join_lines(lines)]
    assert b"".join(parts) == b"".join(lines)
    assert all(0 < len(part) < 2 * SEND_BYTES for part in parts)
    assert len(parts) <= 1 + sum(map(len, lines)) // SEND_BYTES


@pytest.mark.parametrize(
    "cell",
    ["", "a", 'a,"b"', "line\nfeed", "a=b", "a\u202e", "*", "User:é", "CN=a;OU=b", "a;b-c", "\\"],
)
def test_other_cells_are_read_back_as_they_are(cell: str) -> None:
    data = encode_csv([("x", cell), (cell, "y")]).decode()
    assert [*csv.reader(StringIO(data, newline=""))] == [["x", cell], [cell, "y"]]


FORMULAS = (
    "=1+1", "+1", "-1", "@a", "\tx", "\rx", "\nx", " =1", "\u00a0=1", "\ufeff=1", "\uff1d1+1",
    "\uff0b1", "\uff0d1", "\uff201",
)  # fmt: skip


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        *((cell, f"'{cell}") for cell in FORMULAS),
        ("x;=1+1", "x;'=1+1"),
        ("x; =1", "x;' =1"),
        ('x;"=1', """x;'"=1"""),
        ("a\n=1", "a\n'=1"),
        ("a\t+1;@b", "a\t'+1;'@b"),
        ("a;\uff1d1", "a;'\uff1d1"),
        (";;=1", ";;'=1"),
    ],
)
def test_no_part_of_a_cell_is_a_formula(cell: str, written: str) -> None:
    """Spreadsheets with other separators do not know where a cell ends."""
    (row,) = csv.reader(StringIO(encode_csv([("a", cell)]).decode(), newline=""))
    assert row == ["a", written]


@given(st.text(st.sampled_from("a;=\t\n \"'-b"), max_size=12))
def test_spreadsheet_with_any_separator_finds_no_formula(cell: str) -> None:
    for line in encode_csv([("x", cell)]).decode().splitlines():
        for part in re.split("[;\t]", line):
            assert part.strip(' "')[:1] not in ("=", "-", "+", "@") or part.startswith("'")


def test_tables_name_notes_and_ends() -> None:
    granted = acl("User:a", "READ", topic="t")
    grant = Grant(
        id="1", acl=granted, begin_ms=10**12, end_ms=2 * 10**12, author="User:ops", reason="INC-1"
    )
    note, end = make_grant_note(grant), "until 2033-05-18 03:33:20 UTC, by User:ops: INC-1"
    assert show_cells(granted, {granted: grant}) == (
        "User:a", f"ALLOW {end}", "READ", "TOPIC", "t", "LITERAL", "*",
    )  # fmt: skip
    assert show_cells(note, {}) == (
        "Authorizerd:note", "note", "DESCRIBE", "DELEGATION_TOKEN",
        f"note: grant of READ on topic literal `t` to User:a {end}", "LITERAL", "*",
    )  # fmt: skip
    # Nothing is hidden of an ACL that is no note, or not one that can be read.
    for each in (granted, replace(note, permission_type=int(PermissionType.ALLOW))):
        assert show_cells(each, {}) == read_cells(name_acl(each))
