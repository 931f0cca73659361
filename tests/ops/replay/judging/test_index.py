from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.model import Acl
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging import index
from authorizerd.replay.judging.index import (
    INDEXES_KEPT,
    WorkerCache,
    build_index,
    index_of,
    key_of,
    pack,
)
from tests.ops.replay.acl_sets import acl_set_of
from tests.support.strategies import acls


def set_of(*some: Acl, super_users: tuple[str, ...] = ()) -> AclSet:
    return acl_set_of(some, super_users=super_users)


def topic(number: int) -> Acl:
    return Acl(2, f"t-{number}", 3, "User:a", "*", 3, 3)


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_indexes", WorkerCache())


@given(st.lists(acls(unknown_codes=True), max_size=8))
def test_index_contains_each_acl_once(some: list[Acl]) -> None:
    built = build_index(set_of(*some))
    assert sorted(map(str, built.snapshot.acls.values())) == sorted(map(str, set(some)))
    assert set(built.snapshot.acls.values()) == set(some)


def test_equal_sets_are_indexed_once() -> None:
    asked: list[str] = []

    def packed(acl_set: AclSet) -> bytes:
        asked.append(acl_set.digest)
        return pack(acl_set)

    first, copy = set_of(topic(1), topic(2)), set_of(topic(2), topic(1))
    kept = index_of(key_of(first), lambda: packed(first))
    assert index_of(key_of(copy), lambda: packed(copy)) is kept
    assert len(asked) == 1


def test_other_settings_are_another_index() -> None:
    plain = set_of(topic(1))
    others = [
        replace(plain, super_users=("User:a",)),
        replace(plain, allow_everyone_if_no_acl_found=True),
        set_of(topic(2)),
    ]
    keys = {key_of(each) for each in (plain, *others)}
    assert len(keys) == 4
    for each in (plain, *others):
        assert index_of(key_of(each), lambda each=each: pack(each)).settings == each.settings  # type: ignore[misc]


def test_order_of_super_users_does_not_matter() -> None:
    both = set_of(super_users=("User:a", "User:b")), set_of(super_users=("User:b", "User:a"))
    assert key_of(both[0]) == key_of(both[1])


def test_number_of_kept_indexes_is_bounded() -> None:
    for number in range(5):
        acl_set = set_of(topic(number))
        index_of(key_of(acl_set), lambda acl_set=acl_set: pack(acl_set))  # type: ignore[misc]
        assert len(index._indexes) <= INDEXES_KEPT
    assert key_of(acl_set) in index._indexes
