"""Members of groups: everything is resolved, or an error names the group."""

import pytest

from authorizerd.management.groups.errors import GroupsError
from authorizerd.management.groups.membership import find_member_fault, resolve_groups

DIRECT = {
    "a": ["User:1", "Group:b", "Group:c"], "b": ["User:2", "Group:d"], "c": ["Group:d"],
    "d": ["User:2", "Team:x"], "empty": [], "has-empty": ["User:1", "Group:empty"],
    "x": ["Group:y"], "y": ["User:1", "Group:z"], "z": ["Group:x"], "self": ["Group:self"],
    "unknown": ["Group:none"], "near": ["Group:emtpy"], "everyone": ["User:*"],
    **{f"deep{level}": [f"Group:deep{level + 1}"] for level in range(33)},
}  # fmt: skip


def test_nested_groups_are_resolved() -> None:
    found = resolve_groups(DIRECT, ["a", "c"]).groups
    assert found == {"a": {"User:1", "User:2", "Team:x"}, "c": {"User:2", "Team:x"}}


@pytest.mark.parametrize(("name", "kind", "reason"), [
    ("x", "invalid", "group x: the groups contain each other: x > y > z > x"),
    ("self", "invalid", "group self: the groups contain each other: self > self"),
    ("unknown", "invalid", "group unknown: no group has the name 'none'"),
    ("near", "invalid", "no group has the name 'emtpy' (did you mean empty?)"),
    ("none", "invalid", "desired ACLs: no group has the name 'none'"),
    ("empty", "empty", "group empty: it has no members: if this is intended, add its name to may"),
    ("has-empty", "empty", "group empty: it has no members"),
    ("everyone", "invalid", "group everyone: expected one principal, found User:*"),
    ("deep0", "invalid", "group deep0: nested more than 32 levels deep"),
])  # fmt: skip
def test_faulty_group_is_named(name: str, kind: str, reason: str) -> None:
    with pytest.raises(GroupsError) as caught:
        resolve_groups(DIRECT, [name])
    assert (caught.value.kind, reason in str(caught.value)) == (kind, True), str(caught.value)


def test_empty_groups_can_be_permitted() -> None:
    assert resolve_groups(DIRECT, ["empty"], ["empty"]).groups == {"empty": frozenset()}
    assert resolve_groups(DIRECT, ["has-empty"], ["empty"]).groups == {"has-empty": {"User:1"}}


@pytest.mark.parametrize(("member", "fault"), [
    ("User:alice", None), ("Group:a b", None), ("Team:x", None), ("User:CN=A B,O=x:y", None),
    ("alice", "expected Type:name, for example User:alice"), (":a", "Type:name"),
    ("User:", "Type:name"), ("", "Type:name"), ("user:a", "expected User:a"),
    ("GROUP:a", "expected Group:a"), ("User:*", "cannot contain everyone"),
    ("Group:*", "cannot contain everyone"), ("Authorizerd:note", "only notes"),
    (" User:a", "without blanks"), ("User: a", "without blanks"), ("User:a ", "without blanks"),
    ("User:a\n", "without blanks"), ("User:a\u202e", "without blanks"),
])  # fmt: skip
def test_member_is_exactly_one_principal(member: str, fault: str | None) -> None:
    found = find_member_fault(member)
    assert found is None if fault is None else found is not None and fault in found
