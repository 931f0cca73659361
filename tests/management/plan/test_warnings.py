"""Warnings: what a reviewer of a plan is told."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.acl.decision import is_allowed
from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.model import Acl, Operation, Question, ResourceType
from authorizerd.acl.notes import Note, make_note
from authorizerd.acl.search.joined_rules import HOSTS_MAX
from authorizerd.management.plan.changes import AclChanges, make_changes
from authorizerd.management.plan.selector import Selector
from authorizerd.management.plan.warnings import LISTED_MAX, Proposal, find_warnings
from tests.support.acls import acl, snapshot_of
from tests.support.sizes import size
from tests.support.strategies import acls

OPEN = KnownSettings(frozenset(), True)
CLOSED = KnownSettings(frozenset(), False)
ROOT = KnownSettings(frozenset(("User:root",)), False)
UNKNOWN = KnownSettings(None, None)
ADMIN = acl("User:admin", "ALTER", cluster=True)
OTHER_ADMIN = acl("User:other", "ALL", cluster=True)
LOCAL_ADMIN = acl("User:admin", "ALTER", cluster=True, host="10.0.0.1")
ORDERS = acl("User:a", topic="orders")
GROUP = acl("User:a", group="billing")
NOTE = make_note(Note("other", {"a": "1"}))
KEPT = acl("User:kept", group="kept")
"""It is in every state, because a plan that leaves no ACL has one more warning."""


def warnings(
    present: list[Acl], desired: list[Acl], rules: KnownSettings, caller: str | None = None
) -> list[str]:
    present, desired = [*present, KEPT], [*desired, KEPT]
    changes = make_changes(present, desired, Selector(None))
    kept = [each for each in present if each not in changes.deleted]
    proposal = Proposal(snapshot_of(*present), snapshot_of(*kept, *changes.created), changes, rules)
    return list(find_warnings(proposal, caller))


FIRST = "this plan adds the first ACL, so allow.everyone.if.no.acl.found no longer lets"
LAST = "this plan removes the last ACL, so allow.everyone.if.no.acl.found lets everyone do"
LOSES = "User:admin loses ALTER on the cluster, which it needs to change ACLs"
NOBODY = "after this plan, nobody may change ACLs: no ACL allows ALTER"


@pytest.mark.parametrize(("present", "desired", "rules", "expected"), [
    ([], [ORDERS], OPEN, [f"topic literal `orders`: {FIRST}"]),
    ([], [ORDERS], CLOSED, []),
    ([ORDERS], [ORDERS, acl("User:b", topic="orders")], OPEN, []),
    ([ORDERS], [], OPEN, [f"topic literal `orders`: {LAST}"]),
    # Notes decide nothing.
    ([], [NOTE], OPEN, []),
    ([NOTE], [], OPEN, []),
    ([ORDERS], [acl("User:b", topic="orders")], OPEN, []),
    ([acl("User:a", topic="o", pattern="PREFIXED")],
     [acl("User:a", topic="o", pattern="PREFIXED"), ORDERS], OPEN, []),
    ([ORDERS], [ORDERS, acl("User:a", topic="orders", pattern="PREFIXED")], OPEN,
     [f"topic prefix `orders`: {FIRST}"]),
    ([acl("User:a", topic="*")], [acl("User:a", topic="*"), ORDERS], OPEN, []),
    ([acl("User:a", topic="*")], [acl("User:a", topic="*"), acl("User:a", topic="*x")], OPEN,
     [f"topic literal `*x`: {FIRST}", "name '*x': * is an ordinary character"]),
    ([ORDERS], [ORDERS, acl("User:a", topic="*")], OPEN, [f"topic literal `*`: {FIRST}"]),
    ([ORDERS], [ORDERS, acl("user:a")], CLOSED, ["principal 'user:a': Kafka's clients have"]),
    ([acl("user:a")], [acl("user:a")], CLOSED, []),
    ([ADMIN], [], CLOSED, [NOBODY, LOSES]),
    ([ADMIN], [], ROOT, [LOSES]),
    ([ADMIN, OTHER_ADMIN], [OTHER_ADMIN], CLOSED, [LOSES]),
    ([ADMIN], [ADMIN, acl("User:admin", "ALTER", cluster=True, deny=True)], CLOSED,
     [NOBODY, LOSES]),
    ([ADMIN], [acl("User:admin", "ALL", cluster=True)], CLOSED, []),
    ([ADMIN], [LOCAL_ADMIN], CLOSED,
     ["User:admin loses ALTER on the cluster from some hosts, which it needs"]),
    ([acl("User:*", "ALTER", cluster=True)], [ADMIN], CLOSED,
     ["principals without ACLs of their own lose ALTER on the cluster"]),
    ([], [], CLOSED, []),
    ([acl("User:a", 99)], [], CLOSED,
     ["1 ACL with codes of a later Kafka version: the plan leaves them as they are"]),
])  # fmt: skip
def test_plan_warns(
    present: list[Acl], desired: list[Acl], rules: KnownSettings, expected: list[str]
) -> None:
    found = warnings(present, desired, rules)
    assert len(found) == len(expected), found
    for text, beginning in zip(found, expected, strict=True):
        assert text.startswith(beginning), found


@pytest.mark.parametrize(("present", "expected"), [
    ([ORDERS], "the last ACL of topic literal `orders`: if allow.everyone"),
    ([ORDERS, GROUP], "the last ACL of topic literal `orders` and 1 other pattern: if allow"),
    ([], ""),
])  # fmt: skip
def test_unknown_default_is_named_where_it_matters(present: list[Acl], expected: str) -> None:
    changes = make_changes(present, [], Selector(None))
    proposal = Proposal(snapshot_of(*present, KEPT), snapshot_of(KEPT), changes, UNKNOWN)
    assert expected in "".join(find_warnings(proposal))
    assert len(list(find_warnings(proposal))) == bool(present)


def test_loss_of_a_principal_that_may_be_a_super_user_is_conditional() -> None:
    kept = [OTHER_ADMIN, acl("User:b", cluster=True)]
    (warning,) = warnings([ADMIN, *kept], kept, UNKNOWN)
    assert warning == f"{LOSES}, unless it is a super user, which is unknown"


def test_plan_that_leaves_no_acl_says_so_first() -> None:
    """A desired file may be empty by mistake."""
    changes = make_changes([ADMIN], [], Selector(None))
    first, second, *_ = find_warnings(Proposal(snapshot_of(ADMIN), snapshot_of(), changes, CLOSED))
    assert first == "this plan deletes every ACL, and creates none"
    assert second.startswith(NOBODY)
    assert not list(find_warnings(Proposal(snapshot_of(), snapshot_of(), AclChanges(), CLOSED)))


DENY = acl("User:a", topic="orders", deny=True)
DENY_RANGE = acl("User:a", topic="orders", host="10.9.0.0/16", deny=True)
DENY_NOTHING = acl("User:a", topic="orders", host="evil.example.com", deny=True)
DENY_ALL = acl("User:*", "ALL", topic="orders", host="10.0.0.1", deny=True)


@pytest.mark.parametrize(("present", "desired", "rules", "expected"), [
    ([DENY, ORDERS], [ORDERS], CLOSED, "1 DENY ACL, so more is allowed, such as User:a READ "
     "topic `orders`"),
    ([DENY_ALL, ORDERS], [ORDERS], CLOSED, "1 DENY ACL, so more is allowed, such as User:a "
     "READ topic `orders` from 10.0.0.1, User:a DESCRIBE topic `orders` from 10.0.0.1"),
    ([DENY, DENY_ALL], [], CLOSED, "2 DENY ACLs, so more may be allowed"),
    ([DENY, ORDERS], [ORDERS, acl("User:*", "ALL", topic="orders", deny=True)], CLOSED,
     "1 DENY ACL, so more may be allowed"),
    ([DENY, ORDERS], [DENY], CLOSED, ""),
    ([DENY_RANGE, ORDERS], [ORDERS], CLOSED, "1 DENY ACL, so more is allowed, such as User:a "
     "READ topic `orders` from 10.9.0.0, User:a READ topic `orders` from 10.9.255.255"),
    ([DENY_NOTHING, ORDERS], [ORDERS], CLOSED, ""),
    ([NOTE, ORDERS], [ORDERS], CLOSED, ""),
])  # fmt: skip
def test_deleted_denials_are_announced(
    present: list[Acl], desired: list[Acl], rules: KnownSettings, expected: str
) -> None:
    found = [each for each in warnings(present, desired, rules) if "DENY ACL" in each]
    assert found == [f"this plan deletes {expected}"] * bool(expected)


def test_surprises_of_many_acls_name_the_first_one() -> None:
    odd = [acl("User:a", topic=name, host="localhost") for name in ("s", "t", "u")]
    (warning,) = warnings([], odd, CLOSED)
    assert warning.endswith(f"use addresses, or *: {odd[0]}, and 2 more ACLs")


def test_caller_who_loses_its_right_comes_first() -> None:
    found = warnings([OTHER_ADMIN, ADMIN], [], ROOT, caller="User:other")
    assert [each.partition(" loses")[0] for each in found] == ["User:other (you)", "User:admin"]


def test_too_many_hosts_do_not_prevent_a_plan() -> None:
    many = [
        acl("User:admin", "ALTER", cluster=True, host=f"10.{number >> 8}.0.{number & 255}")
        for number in range(HOSTS_MAX + 1)
    ]
    (warning,) = warnings(many, many, CLOSED)
    assert warning.startswith("it is not known who loses ALTER on the cluster: rules for more than")


def test_warnings_of_one_kind_are_limited() -> None:
    odd = [acl(f"user:{number}") for number in range(LISTED_MAX + 3)]
    found = warnings([], odd, CLOSED)
    assert len(found) == LISTED_MAX + 1
    assert found[-1] == "and 3 more warnings like the one before"


named_acls = st.lists(
    acls().filter(lambda each: each.resource_name != "" and each.principal != "User:*"),
    max_size=4,
    unique=True,
)


@settings(max_examples=size(10, 200))
@given(named_acls, named_acls, st.sampled_from((ResourceType.TOPIC, ResourceType.GROUP)))
def test_flip_of_the_default_is_always_announced(
    present: list[Acl], desired: list[Acl], kind: ResourceType
) -> None:
    """A stranger is allowed exactly where no ACL matches, because no ACL is for everyone."""
    names = {each.resource_name for each in (*present, *desired)}
    texts = " ".join(warnings(present, desired, OPEN))
    for name in (*names, *(f"{each}z" for each in names)):
        stranger = Question("User:stranger", "10.8.8.8", Operation.READ, kind, name)
        was_open, is_open = (
            is_allowed(snapshot_of(*state, KEPT), OPEN.least, stranger)
            for state in (present, desired)
        )
        if was_open and not is_open:
            assert "adds the first ACL" in texts
        if is_open and not was_open:
            assert "removes the last ACL" in texts
