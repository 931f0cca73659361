"""Sorting in steps, and pages of names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.search import sorting
from authorizerd.acl.search.sorting import SmallestNames, sort_in_steps
from authorizerd.acl.steps import finish

names = st.lists(st.text("abc", max_size=3), max_size=60)


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "ITEMS_PER_STEP", 3)
    monkeypatch.setattr(sorting, "ITEMS_PER_CHUNK", 4)


@given(names)
def test_sorting_in_steps_sorts(some: list[str]) -> None:
    assert finish(sort_in_steps(set(some))) == tuple(sorted(set(some)))


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
