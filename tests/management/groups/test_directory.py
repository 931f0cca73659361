"""Entries of a directory: what cannot come from the server of tests/cli/groups."""

import pytest

from authorizerd.management.groups.directory import Entry, read_direct_members
from authorizerd.management.groups.errors import GroupsError
from authorizerd.management.groups.file import LdapSettings, Place

SETTINGS = LdapSettings(
    url="ldaps://x", groups=Place("g", "x"), people=Place("p", "x"), principal="User:{uid}"
)


def entry(name: str, **attributes: list[bytes]) -> Entry:
    return Entry(name, {key.replace("__", ";"): values for key, values in attributes.items()})


def read(*entries: Entry, people: tuple[Entry, ...] = ()) -> dict[str, tuple[str, ...]]:
    return read_direct_members(SETTINGS, entries, people, ["g"], str.lower)


ALICE = entry("p1", UID=[b"alice"])


def test_letter_case_of_attributes_and_names_does_not_matter() -> None:
    assert read(entry("g1", CN=[b"g"], Member=[b"P1"]), people=(ALICE,)) == {"g": ("User:alice",)}


@pytest.mark.parametrize(("group", "people", "kind", "reason"), [
    ({"member": [], "member__range=0-1499": [b"p1"]}, (), "partial",
     "g1: the directory returned only a part of the values, member;range=0-1499"),
    ({"member__lang-de": [b"p1"]}, (), "partial", "only a part of the values"),
    ({"member": [b"\xff"]}, (), "invalid", "g1: a value of member is not UTF-8"),
    ({"cn": [b"g", b"h"], "member": []}, (), "invalid", "g1: expected one value of cn"),
    ({"member": [b"p1"]}, (entry("P1", uid=[b"x"]),), "invalid", "P1: equal to p1, but for case"),
    ({"member": [b"p1"]}, (entry("p2", uid=[b"Alice"]),), "invalid", "have the same uid, alice"),
    ({"member": [b"p2"]}, (entry("p2", uid=[b"ANONYMOUS"]),), "invalid",
     "p2: User:ANONYMOUS is every client that does not log in"),
    ({"member": [b"p2"]}, (entry("p2"),), "invalid", "p2: expected one value of uid, found 0"),
])  # fmt: skip
def test_doubtful_entry_is_named(
    group: dict[str, list[bytes]], people: tuple[Entry, ...], kind: str, reason: str
) -> None:
    with pytest.raises(GroupsError) as caught:
        read(entry("g1", **{"cn": [b"g"], **group}), people=(ALICE, *people))
    assert (caught.value.kind, reason in str(caught.value)) == (kind, True), str(caught.value)


def test_groups_of_one_name_are_refused() -> None:
    same = (entry("g1", cn=[b"g"]), entry("g2", cn=[b"g"]))
    with pytest.raises(GroupsError, match="g1: g2 has the same name, g"):
        read(*same)
    with pytest.raises(GroupsError, match="G1: equal to g1, but for case"):
        read(same[0], entry("G1", cn=[b"h"]))


@pytest.mark.parametrize(
    "uid", ["", ".", "a.", "a b", "a\n", "a,b", "a=b", "a{b", "é", "a\\b", "*"]
)
def test_value_that_is_more_than_a_name_is_refused(uid: str) -> None:
    with pytest.raises(GroupsError, match="expected ASCII letters and digits"):
        read(entry("g1", cn=[b"g"], member=[b"p"]), people=(entry("p", uid=[uid.encode()]),))
