from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.acl.steps import finish
from authorizerd.daemon.console import tables
from authorizerd.daemon.console.tables import (
    CHARACTERS_MAX,
    ROWS_MAX,
    ROWS_PER_PAGE,
    Cells,
    FullError,
    Rows,
    SortedRows,
    Table,
    make_table,
    sort_page,
)
from authorizerd.protocol.decisions.acl_filters import QueryError

COLUMNS = {"name": "Name", "other": "Other"}
ROWS = [(f"{number:05}", str(number % 7)) for number in range(ROWS_PER_PAGE * 2 + 1)]


async def table_of(rows: Sequence[tuple[str, ...]], **fields: str) -> Table:
    collected = Rows(fields.get("search", ""))
    await collected.add(rows)
    return await make_table("/path", fields, COLUMNS, collected)


@given(
    st.lists(st.integers(0, 20), max_size=1500),
    st.integers(0, 1500),
    st.integers(1, 200),
    st.booleans(),
)
def test_page_is_a_part_of_the_sorted_rows(
    numbers: list[int], start: int, size: int, is_descending: bool
) -> None:
    """The oracle sorts everything at once."""
    expected = sorted(numbers, reverse=is_descending)[start : start + size]
    rows = list(numbers)
    assert finish(sort_page(rows, int, start, size, is_descending=is_descending)) == expected
    assert rows == []


async def test_pages_link_to_each_other() -> None:
    first = await table_of(ROWS, x="ä")
    assert (first.rows, first.first, first.total) == (ROWS[:ROWS_PER_PAGE], 1, len(ROWS))
    assert (first.previous, first.next) == (None, "/path?x=%C3%A4&page=2")
    last = await table_of(ROWS, page="3")
    assert (last.rows, last.next) == (ROWS[-1:], None)
    assert last.previous == "/path?page=2"


async def test_head_sorts_by_its_column_and_then_reverses_the_order() -> None:
    table = await table_of(ROWS, sort="other", page="2")
    assert [each.sorted for each in table.heads] == ["none", "ascending"]
    assert [each.link for each in table.heads] == [
        "/path?sort=name&order=ascending",
        "/path?sort=other&order=descending",
    ]
    assert [row[1] for row in table.rows] == sorted(row[1] for row in ROWS)[100:200]
    reverse = await table_of(ROWS, sort="other", order="descending")
    assert reverse.rows[0] == ("00195", "6")
    assert reverse.heads[1].link == "/path?sort=other&order=ascending"


async def test_contained_text_is_found_in_any_column_and_case() -> None:
    rows = [("Straße", "a"), ("b", "STRASSE"), ("c", "d")]
    assert {row[0] for row in (await table_of(rows, search="strasse")).rows} == {"Straße", "b"}


async def test_table_says_that_it_is_cut() -> None:
    rows = Rows("")
    await rows.add([("a", "b")] * (ROWS_MAX - 1))
    assert rows.is_whole
    with pytest.raises(FullError):
        await rows.add([("a", "b")] * 2)
    table = await make_table("/path", {}, COLUMNS, rows)
    assert (table.total, table.is_whole, table.is_cut) == (ROWS_MAX, False, True)
    whole = await table_of([("a", "b")] * ROWS_MAX)
    assert (whole.is_whole, whole.is_cut) == (True, False)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 99).map(str), st.integers(0, 3).map(str)), unique=True),
    st.sampled_from(list(COLUMNS)),
    st.booleans(),
    st.integers(1, 30),
)
def test_tables_together_have_all_rows_in_order(
    rows: list[tuple[str, str]], sort: str, is_descending: bool, rows_max: int
) -> None:
    """Each table links to the next one by its last row. The oracle sorts everything at once."""
    fields = {"sort": sort, "order": "descending" if is_descending else "ascending"}
    key = itemgetter(list(COLUMNS).index(sort))
    expected = sorted(rows, key=lambda row: (key(row), row), reverse=is_descending)

    async def show() -> list[Cells]:
        shown: list[Cells] = []
        after = ""
        while True:
            collected = SortedRows({**fields, "after": after}, COLUMNS)
            for row in rows:
                await collected.add([row])
            await collected.cut()
            assert (collected.total, collected.passed) == (len(rows), len(shown))
            shown += sorted(collected.kept, key=lambda row: (key(row), row), reverse=is_descending)
            if not collected.is_cut:
                return shown
            after = json.dumps(shown[-1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ROWS_MAX", rows_max)
        assert trio.run(show) == expected


@pytest.mark.parametrize("after", ["x", "[]", '["a"]', '["a",1]', '{"a":1}', '["a","b","c"]'])
async def test_table_begins_behind_a_row_only(after: str) -> None:
    with pytest.raises(QueryError, match="after: expected a row"):
        SortedRows({"after": after}, COLUMNS)


async def test_memory_of_unsorted_rows_with_long_names_is_bounded() -> None:
    rows = SortedRows({}, COLUMNS)
    names = [f"{number % 101:03}{'n' * 30_000}" for number in range(300)]
    for name in names:
        await rows.add([(name, str(len(rows.kept)))])
        assert sum(len(cell) for row in rows.kept for cell in row) <= 2 * CHARACTERS_MAX
    await rows.cut()
    assert [row[0] for row in sorted(rows.kept)] == sorted(names)[: len(rows.kept)]
    assert len(rows.kept) == CHARACTERS_MAX // 30_005
    table = await make_table("/path", {}, COLUMNS, rows)
    assert (table.total, table.is_whole, table.next) == (300, True, None)


async def test_memory_of_long_names_is_bounded() -> None:
    """The rows that fit are shown, and the table says that there are more."""
    long = "n" * 32_767
    rows = Rows("", ROWS_PER_PAGE * 10)
    with pytest.raises(FullError):
        await rows.add([(long, "b")] * 100)
    assert sum(len(cell) for row in rows.kept for cell in row) <= CHARACTERS_MAX
    assert len(rows.kept) == CHARACTERS_MAX // (len(long) + 1)
    table = await make_table("/path", {}, COLUMNS, rows)
    assert (table.total, table.is_whole, table.is_cut) == (64, False, True)


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
async def test_invalid_place_in_a_table_is_rejected(fields: dict[str, str]) -> None:
    with pytest.raises(QueryError):
        await table_of(ROWS, **fields)


async def test_page_after_the_last_is_empty() -> None:
    table = await table_of(ROWS, page="9")
    assert (table.rows, table.next) == ([], None)
