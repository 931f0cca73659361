"""Expanded ACLs: one for each member, within a bound. Decisions are tested in ``test_changes``."""

import pytest

from authorizerd.acl.model import Acl
from authorizerd.management.groups import expansion
from authorizerd.management.groups.errors import GroupsError
from authorizerd.management.groups.expansion import expand, find_groups
from authorizerd.management.groups.membership import Membership
from tests.support.acls import acl

MEMBERS = Membership({
    "g": frozenset(("User:a", "User:b")), "h": frozenset(("User:b",)), "none": frozenset(),
    "large": frozenset(f"User:{number}" for number in range(1_000)),
})  # fmt: skip


def test_acl_of_a_group_becomes_one_for_each_member() -> None:
    def deny(principal: str) -> Acl:
        return acl(principal, deny=True, host="10.0.0.7")

    found = expand(
        [acl("Group:g"), acl("Group:h"), deny("Group:g"), acl("Group:none"), acl("User:x")],
        MEMBERS,
    )
    assert found.given == {
        acl("User:a"): ("g",), acl("User:b"): ("g", "h"),
        deny("User:a"): ("g",), deny("User:b"): ("g",),
    }  # fmt: skip
    assert found.members == 2
    assert found.find_reason(acl("User:gone")) == ("g", "h", "none")
    assert found.find_reason(acl("User:gone", "WRITE")) == ()


def test_groups_of_acls_are_found() -> None:
    assert find_groups([acl("Group:g"), acl("User:g"), acl("Group:a"), acl("Group:g")]) == [
        "a",
        "g",
    ]


def test_product_is_bounded_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "ACLS_MAX", 5_000)
    many = [acl("Group:large", topic=f"t{number}") for number in range(5)]
    assert len(expand(many, MEMBERS).given) == 5_000
    with pytest.raises(GroupsError) as caught:
        expand([*many, acl("Group:h")], MEMBERS)
    assert str(caught.value).startswith(
        "group large: 5 ACLs for 1,000 members make 5,000 ACLs, and all groups make 5,001: "
        "expected at most 5,000. Give the group fewer ACLs: one prefix in place of many names"
    )


@pytest.mark.parametrize("principal", ["group:g", "GROUP:g", " Group:g", "Group :g"])
def test_group_that_is_spelled_in_another_way_is_an_error(principal: str) -> None:
    """Nobody has such a principal, so its DENY would apply to nobody."""
    with pytest.raises(GroupsError, match=r"desired ACLs: expected Group:g, found"):
        expand([acl("Group:g"), acl(principal, deny=True)], MEMBERS)


def test_acl_that_kafka_refuses_is_named() -> None:
    with pytest.raises(GroupsError, match="group g: Kafka would refuse to create"):
        expand([acl("Group:g", topic="")], MEMBERS)
