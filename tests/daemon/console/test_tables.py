from __future__ import annotations

import pytest

from authorizerd.daemon.console.tables import Table, make_table, read_view
from authorizerd.daemon.queries.tables import ROWS_PER_PAGE, TablePage, make_page
from authorizerd.protocol.decisions.acl_filters import QueryError

COLUMNS = {"name": "Name", "other": "Other"}
ROWS = [(f"{number:05}", str(number % 7)) for number in range(ROWS_PER_PAGE * 2 + 1)]


def table_of(**fields: str) -> Table:
    rows, total = make_page(ROWS, read_view(fields, COLUMNS))
    return make_table("/path", fields, COLUMNS, TablePage(rows=rows, total=total, offset=1))


def test_pages_link_to_each_other() -> None:
    first = table_of(x="ä")
    assert ([*first.rows], first.first, first.total) == (ROWS[:ROWS_PER_PAGE], 1, len(ROWS))
    assert (first.previous, first.next) == (None, "/path?x=%C3%A4&page=2")
    last = table_of(page="3")
    assert ([*last.rows], last.next) == (ROWS[-1:], None)
    assert last.previous == "/path?page=2"


def test_head_sorts_by_its_column_and_then_reverses_the_order() -> None:
    table = table_of(sort="other", page="2")
    assert [each.sorted for each in table.heads] == ["none", "ascending"]
    assert [each.link for each in table.heads] == [
        "/path?sort=name&order=ascending",
        "/path?sort=other&order=descending",
    ]
    assert [row[1] for row in table.rows] == sorted(row[1] for row in ROWS)[100:200]
    reverse = table_of(sort="other", order="descending")
    assert reverse.rows[0] == ("00195", "6")
    assert reverse.heads[1].link == "/path?sort=other&order=ascending"


@pytest.mark.parametrize(
    "fields",
    [
        {"sort": "x"},
        {"order": "up"},
        {"page": "0"},
        {"page": "-1"},
        {"page": "x"},
        {"page": "\u0661"},
        {"page": "9" * 5000},
    ],
)
def test_invalid_place_in_a_table_is_rejected(fields: dict[str, str]) -> None:
    with pytest.raises(QueryError):
        table_of(**fields)


def test_page_after_the_last_is_empty() -> None:
    table = table_of(page="9")
    assert ([*table.rows], table.next) == ([], None)
