"""Sorting in steps, and pages of names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.search import sorting
from authorizerd.acl.search.sorting import SmallestNames, merge_in_steps, sort_in_steps
from authorizerd.acl.steps import finish

names = st.lists(st.text("abc", max_size=3), max_size=60)


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "ITEMS_PER_STEP", 3)
    monkeypatch.setattr(sorting, "ITEMS_PER_CHUNK", 4)
    monkeypatch.setattr(sorting, "CHUNKS_PER_STEP", 3)


@given(names)
def test_sorting_in_steps_sorts(some: list[str]) -> None:
    assert finish(sort_in_steps(set(some))) == tuple(sorted(set(some)))


@given(st.lists(names, max_size=40))
def test_chunks_are_merged_in_order(chunks: list[list[str]]) -> None:
    merged = finish(merge_in_steps([sorted(chunk) for chunk in chunks]))
    assert list(merged) == sorted(name for chunk in chunks for name in chunk)


def test_a_step_reads_few_chunks() -> None:
    """The number of chunks grows with the rules of a principal, a step's work does not."""
    read = 0

    def chunk(number: int) -> Iterator[int]:
        nonlocal read
        for item in (number, number + 1000):
            read += 1
            yield item

    steps = merge_in_steps([chunk(number) for number in range(1000)])
    most = before = 0
    merged: Iterator[int] = iter(())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            merged = end.value
            break
        most, before = max(most, read - before), read
    assert most <= 2 * sorting.CHUNKS_PER_STEP
    assert list(islice(merged, 5)) == [0, 1, 2, 3, 4]
    assert read - before <= 5 * sorting.CHUNKS_PER_STEP


@given(names, st.none() | st.sampled_from(["", "a", "bb"]), st.none() | st.integers(1, 9))
def test_a_page_has_the_first_names_after_a_name(
    some: list[str], after: str | None, count: int | None
) -> None:
    chosen = SmallestNames(after, count)
    for name in some:
        if chosen.wants(name):
            chosen.add(name)
        finish(chosen.compact())
    expected = sorted({name for name in some if after is None or name > after})
    assert finish(chosen.finish()) == expected[:count]


def test_a_page_does_not_hold_all_names() -> None:
    chosen = SmallestNames(None, 5)
    wanted = 0
    for number in range(1000):
        name = f"{number * 7919 % 1000:03}"
        if chosen.wants(name):
            wanted += 1
            chosen.add(name)
        finish(chosen.compact())
    assert wanted < 100
    assert finish(chosen.finish()) == ["000", "001", "002", "003", "004"]
