"""What changes when a cluster goes from one release of Kafka to another."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import authorizerd.management.release_changes
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.host_ranges import read_range
from authorizerd.acl.model import CLUSTER_NAME, Acl, Question, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.releases import RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.snapshot import is_grant
from authorizerd.management.release_changes import AclEffect, Meaning, find_effects, list_addresses
from tests.oracles import scan
from tests.support.acls import acl, snapshot_of
from tests.support.sizes import size
from tests.support.strategies import acls

CLOSED = AuthorizerSettings()
UP, DOWN = (RULES_4_3, RULES_4_4), (RULES_4_4, RULES_4_3)
HOSTS = (
    *("*", "10.0.0.1", "10.0.0.9", "10.0.0.0/8", "10.0.0.0/30", "10.0.0.1/32", "0.0.0.0/0"),
    *("::/0", "2001:db8::/32", "2001:db8:0:0:0:0:0:1", "10.0.0.0/33", "a/b", "evil.example.com"),
)
ADDRESSES = (
    *("10.0.0.1", "10.0.0.2", "10.0.0.9", "11.0.0.1", "0.0.0.0"),
    *("2001:db8:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:2", "0:0:0:0:0:0:0:1"),
)
PRINCIPALS = ("User:a", "User:b", "User:*", "est")


def effects_of(
    held: set[Acl], rules: tuple[ReleaseRules, ReleaseRules], settings: AuthorizerSettings = CLOSED
) -> list[AclEffect]:
    return find_effects(snapshot_of(*held), settings, *rules)


def ranged_acls() -> st.SearchStrategy[set[Acl]]:
    """Return ACLs of few names, hosts and principals, most of them for ranges."""
    one = st.builds(
        replace, acls(unknown_codes=True), resource_type=st.sampled_from([2, 2, 4]),
        principal=st.sampled_from(PRINCIPALS[:3]) | st.sampled_from(PRINCIPALS),
        host=st.sampled_from(HOSTS), operation=st.sampled_from([2, 3, 8]),
    )  # fmt: skip
    return st.sets(one, max_size=6)


@settings(max_examples=size(10, 300))
@given(ranged_acls(), st.sampled_from([UP, DOWN]), st.booleans())
def test_every_flip_is_real_and_every_real_flip_is_covered(
    held: set[Acl], rules: tuple[ReleaseRules, ReleaseRules], is_open: bool
) -> None:
    """Compare with a plain scan of every question about the names, hosts and principals."""
    before, after = rules
    settings = AuthorizerSettings(frozenset({"User:b"}), is_open)

    def decide(question: Question, judged_by: ReleaseRules) -> bool:
        if question.principal in settings.super_users:
            return True
        return scan.decide(held, is_open, question, judged_by)[0]

    effects = effects_of(held, rules, settings)
    for effect in effects:
        assert effect.is_complete
        for flip in effect.flips:
            assert decide(flip, after) is effect.allows is not decide(flip, before)
            assert scan.speaks(effect.acl, flip, RULES_4_4)
    names = {each.resource_name for each in held}
    names |= {name + "z" for name in names} - {""}
    for kind, name, principal, host in product(
        (2, 4), names, ("User:a", "User:b", "User:c"), ADDRESSES
    ):
        about = CLUSTER_NAME if kind == ResourceType.CLUSTER else name
        for operation in SUPPORTED[ResourceType(kind)] if about else ():
            asked = Question(principal, host, int(operation), kind, about)
            allows = decide(asked, after)
            if allows is decide(asked, before):
                continue
            assert any(
                each.flips and each.allows is allows and scan.speaks(each.acl, asked, RULES_4_4)
                for each in effects
            )


ORDERS = acl("User:a", topic="orders")


@pytest.mark.parametrize(("held", "rules", "found"), [
    ([ORDERS, replace(ORDERS, host="127.0.0.0/8", permission_type=2)], UP,
     [(Meaning.WAKES_UP, False, ["127.0.0.0"])]),
    ([ORDERS, replace(ORDERS, host="127.0.0.0/8", permission_type=2)], DOWN,
     [(Meaning.FALLS_ASLEEP, True, ["127.0.0.0"])]),
    ([replace(ORDERS, host="10.0.0.0/8")], UP, [(Meaning.WAKES_UP, True, ["10.0.0.0"])]),
    # The wildcard misses names such as *z.
    ([acl("User:a", topic="*"), acl("User:a", topic="", pattern="PREFIXED", host="::/0")], UP,
     [(Meaning.WAKES_UP, True, ["0:0:0:0:0:0:0:0"])]),
    # An ALLOW with a pattern type of a later version never allows.
    ([replace(ORDERS, host="10.0.0.0/8", pattern_type=77)], UP, []),
    # Another ACL gives the same answer.
    ([ORDERS, replace(ORDERS, host="10.0.0.0/8")], UP, [(Meaning.WAKES_UP, True, [])]),
    ([replace(ORDERS, host="10.0.0.0/8"), replace(ORDERS, host="10.0.0.0/33")], UP,
     [(Meaning.WAKES_UP, True, ["10.0.0.0"]), (Meaning.NEVER_MATCHES, False, [])]),
    ([replace(ORDERS, host="0.0.0.0/32")], UP, [(Meaning.NEVER_MATCHES, False, [])]),
    ([ORDERS, replace(ORDERS, host="evil.example.com")], UP, []),
    # Kafka fails there by the rules of every release.
    ([replace(ORDERS, host="10.0.0.0/8"), replace(ORDERS, principal="est")], UP,
     [(Meaning.WAKES_UP, True, [])]),
])  # fmt: skip
def test_meanings_and_examples(
    held: list[Acl],
    rules: tuple[ReleaseRules, ReleaseRules],
    found: list[tuple[Meaning, bool, list[str]]],
) -> None:
    """An ACL for READ decides about DESCRIBE, too, if it allows."""
    effects = effects_of({*held}, rules)
    assert [
        (each.meaning, each.allows, list(dict.fromkeys(flip.host for flip in each.flips)))
        for each in effects
    ] == found
    for each in effects:
        assert {flip.operation for flip in each.flips} <= ({3, 8} if is_grant(each.acl) else {3})


def test_range_with_a_network_interface_is_not_judged_for_certain() -> None:
    """Only a broker knows whether it has the interface. Here such an ALLOW never allows."""
    (effect,) = effects_of({replace(ORDERS, host="2001:db8::%eth0/64")}, UP)
    assert (effect.meaning, effect.flips) == (Meaning.WAKES_UP, ())
    assert not effect.is_complete


def test_unasked_questions_are_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizerd.management.release_changes, "QUESTIONS_PER_ACL_MAX", 1)
    (effect,) = effects_of({replace(ORDERS, host="10.0.0.0/8")}, UP)
    assert not effect.is_complete
    assert effect.flip_count == 1


@pytest.mark.parametrize(("text", "hosts", "parts"), [
    ("10.0.0.0/30", [], ["10.0.0.0"]),
    ("10.0.0.0/30", ["10.0.0.0"], ["10.0.0.1", "10.0.0.0"]),
    ("10.0.0.0/31", ["10.0.0.0", "10.0.0.1"], ["10.0.0.0", "10.0.0.1"]),
    ("10.0.0.0/8", ["10.0.0.0/9", "10.0.0.0/16"], ["10.128.0.0", "10.1.0.0", "10.0.0.0"]),
    ("0.0.0.0/31", [], ["0.0.0.1"]),
    ("::/0", ["::ffff:10.0.0.0/104", "10.0.0.0/8"], ["0:0:0:0:0:0:0:0"]),
    ("fe80::/64", ["fe80:0:0:0:0:0:0:0%eth0"],
     ["fe80:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:0%eth0", "fe80:0:0:0:0:0:0:0"]),
])  # fmt: skip
def test_addresses_represent_the_parts_of_a_range(
    text: str, hosts: list[str], parts: list[str]
) -> None:
    assert list_addresses(read_range(text), hosts) == parts
