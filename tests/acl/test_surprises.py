"""Which ACLs and principals are reported as probably not meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import Acl, Operation, PatternType, ResourceType
from authorizerd.acl.surprises import (
    find_asked_name_surprises,
    find_principal_surprises,
    find_surprises,
)
from tests.support.acls import acl, snapshot_of

PREFIXED = PatternType.PREFIXED
READ, TOPIC = int(Operation.READ), int(ResourceType.TOPIC)
ONE_ADDRESS_EACH = (
    "never matches: Kafka compares it, as a text, with the client's IP address, and knows neither"
    " host names nor ranges; use one ACL for each address, or *"
)


@pytest.mark.parametrize(
    "usual",
    [
        acl("User:alice", "READ", topic="orders"),
        acl("User:*", "READ", topic="*", host="10.0.0.1"),
        acl("User:*", "DESCRIBE", cluster=True),
        acl("User:CN=a,OU=b c", "READ", topic="orders-", pattern=PREFIXED),
        acl("Group:ops", "READ", group="g", host="0:0:0:0:0:0:0:1", deny=True),
        acl("User:a:b", "READ", topic="t"),
        acl("User:a", "ALL", group="g"),
        acl("User:a", 99, group="g"),
        Acl(99, "t", 3, "User:a", "*", 3, 3),
    ],
)
def test_usual_acls_are_not_reported(usual: Acl) -> None:
    assert list(find_surprises(usual)) == []


@pytest.mark.parametrize(
    ("surprising", "said"),
    [
        (
            acl("est", "READ", topic="t"),
            "principal 'est' has no colon: Kafka fails on this ACL, and so allows nobody but super"
            " users anything on what its pattern matches: remove it",
        ),
        (
            acl("User:a", "READ", topic="t", host="db.example.com"),
            f"host 'db.example.com' {ONE_ADDRESS_EACH}",
        ),
        (
            acl("User:a", "READ", topic="t", host="10.0.0.0/8", deny=True),
            f"host '10.0.0.0/8' {ONE_ADDRESS_EACH}",
        ),
        (acl("User:a", "READ", topic="t", host="10.*"), f"host '10.*' {ONE_ADDRESS_EACH}"),
        (
            acl("User:a", "READ", topic="t", host="::1"),
            "host '::1' never matches: Kafka writes this address as 0:0:0:0:0:0:0:1",
        ),
        (
            acl("User:a", "READ", topic="orders-*"),
            "name 'orders-*': * is an ordinary character here; for all names with a beginning, use"
            " the pattern type PREFIXED",
        ),
        (
            acl("User:a", "READ", topic="orders-*", pattern=PREFIXED),
            "prefix 'orders-*': * is an ordinary character here: leave it out",
        ),
        (
            acl("User:a", "READ", topic="*", pattern=PREFIXED),
            "prefix '*': * is an ordinary character here: the literal name * matches all",
        ),
        (
            acl("User:a", "READ", topic=" t"),
            "name ' t': the blanks around it are a part of it",
        ),
        (
            acl("user:alice", "READ", topic="t"),
            "principal 'user:alice': Kafka's clients have the type User, in this letter case",
        ),
        (
            acl("User: alice", "READ", topic="t"),
            "principal 'User: alice': blanks around the name are a part of it",
        ),
        (
            acl("User:user:alice", "READ", topic="t"),
            "principal 'User:user:alice': the name repeats the type",
        ),
        (
            acl("User:team-*", "READ", topic="t"),
            "principal 'User:team-*': * is an ordinary character here; only User:* in an ACL means"
            " everyone",
        ),
        (
            acl("Group:*", "READ", topic="t"),
            "principal 'Group:*': * is an ordinary character here; only User:* in an ACL means"
            " everyone",
        ),
        (
            acl("User:a", "WRITE", group="g"),
            "operation WRITE: Kafka never asks for it on a resource of type GROUP, which has the"
            " operations ALL, READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS",
        ),
        (
            acl("User:*", "READ", topic="t", deny=True),
            "a DENY rule for User:* overrides every ALLOW rule for what it denies: only super users"
            " pass",
        ),
    ],
)
def test_surprising_acls_are_reported(surprising: Acl, said: str) -> None:
    assert list(find_surprises(surprising)) == [said]


@pytest.mark.parametrize(("name", "count"), [("orders", 0), ("orders-*", 1), ("*", 1)])
def test_pattern_in_a_question_is_reported(name: str, count: int) -> None:
    assert len(list(find_asked_name_surprises(name))) == count


def test_super_user_named_star_is_reported() -> None:
    """In ``super.users``, User:* is one user."""
    assert len(list(find_principal_surprises("User:*"))) == 1


HOSTS = st.one_of(st.text("0a.:/*%", max_size=6), st.sampled_from(["10.0.0.1", "::1", "0::1"]))


@given(HOSTS, HOSTS)
def test_host_that_is_said_to_match_nothing_matches_no_client(host: str, client: str) -> None:
    """Clients have addresses as Java writes them. Any other host matches itself."""
    snapshot = snapshot_of(acl("User:a", "READ", topic="t", host=host))

    def is_allowed(address: str) -> bool:
        return authorize(snapshot, AuthorizerSettings(), "User:a", address, READ, TOPIC, "t")

    if any("never matches" in each for each in find_surprises(acl(host=host))):
        address = host_address(client)
        assert address is None or not is_allowed(address)
    else:
        assert is_allowed(host)
