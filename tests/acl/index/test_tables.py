"""Tables: small ones are dicts, large ones are maps, and no table changes in place."""

from hypothesis import given
from hypothesis import strategies as st
from immutables import Map

from authorizerd.acl.index import tables

keys = st.integers(0, 2 * tables.SMALL_MAX)


def expected(entries: dict[int, int]) -> tables.Table[int, int]:
    return dict(entries) if len(entries) <= tables.SMALL_MAX else Map(entries)


@given(st.lists(keys, min_size=tables.SMALL_MAX - 2), st.lists(keys))
def test_the_kind_of_a_table_depends_only_on_its_size(put: list[int], cut: list[int]) -> None:
    """A change leaves the table before it as it was."""
    entries: dict[int, int] = {}
    table: tables.Table[int, int] = tables.EMPTY
    for number, (key, is_put) in enumerate(
        [(key, True) for key in put] + [(k, False) for k in cut]
    ):
        before, copy = table, expected(entries)
        if is_put:
            entries[key] = number
            table = tables.set_entry(table, key, number)
        elif key in entries:
            del entries[key]
            table = tables.delete_entry(table, key)
        assert type(table) is type(expected(entries))
        assert table == expected(entries)
        assert before == copy
    assert not tables.EMPTY


@given(st.lists(keys), st.sets(keys))
def test_a_grown_table_is_frozen_to_the_same_kind(put: list[int], cut: set[int]) -> None:
    table: tables.Growing[int, int] = {}
    for key in put:
        table[key] = key
        table = tables.grow(table)
    for key in cut.intersection(put):
        del table[key]
    frozen = tables.freeze(table)
    entries = {key: key for key in put if key not in cut}
    assert type(frozen) is type(expected(entries))
    assert frozen == expected(entries)
