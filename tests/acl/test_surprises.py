"""Which ACLs and principals are reported as probably not meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import Acl, Operation, PatternType, ResourceType
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.snapshot import with_rules
from authorizerd.acl.surprises import (
    find_asked_name_surprises,
    find_principal_surprises,
    find_surprises,
)
from tests.support.acls import acl, snapshot_of

PREFIXED = PatternType.PREFIXED
READ, TOPIC = int(Operation.READ), int(ResourceType.TOPIC)
NO_NAMES = (
    "never matches: Kafka compares it, as a text, with the client's IP address, and does not look"
    " up host names; use addresses, or *"
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
        acl("User:team=a, role=b", "READ", topic="t"),
        acl("User:1.2.840.113549.1.9.1=#1603784079,2.5.4.5=#130131,CN=a", "READ", topic="t"),
        acl("User:a", "ALL", group="g"),
        acl("User:a", "ALL", group="g, h"),
        acl("User:a", 99, group="g"),
        Acl(99, "t", 3, "User:a", "*", 3, 3),
    ],
)
def test_usual_acls_are_not_reported(usual: Acl) -> None:
    assert list(find_surprises(usual)) == []


@pytest.mark.parametrize(
    ("surprising", "said"),
    [
        (acl("est", "READ", topic="t"),
         "principal 'est' has no colon: Kafka fails on this ACL, and so allows nobody but super"
         " users anything on what its pattern matches: remove it"),
        (acl("User:a", "READ", topic="t", host="db.example.com"),
         f"host 'db.example.com' {NO_NAMES}"),
        (acl("User:a", "READ", topic="t", host="10.*"), f"host '10.*' {NO_NAMES}"),
        (acl("User:a", "READ", topic="t", host="::1"),
         "host '::1' never matches: Kafka writes this address as 0:0:0:0:0:0:0:1"),
        (acl("User:a", "READ", topic="orders-*"),
         "name 'orders-*': * is an ordinary character here; for all names with a beginning, use"
         " the pattern type PREFIXED"),
        (acl("User:a", "READ", topic="orders-*", pattern=PREFIXED),
         "prefix 'orders-*': * is an ordinary character here: leave it out"),
        (acl("User:a", "READ", topic="*", pattern=PREFIXED),
         "prefix '*': * is an ordinary character here: the literal name * matches all"),
        (acl("User:a", "READ", topic=" t"), "name ' t': the blanks around it are a part of it"),
        (acl("User:a", "READ", topic="a,b"),
         "name 'a,b': no topic has this name: use letters a to z, digits, '.', '_' and '-', and"
         " name each topic by itself"),
        (acl("User:a", "READ", topic="team ", pattern=PREFIXED),
         "name 'team ': the blanks around it are a part of it"),
        (acl("user:alice", "READ", topic="t"),
         "principal 'user:alice': Kafka's clients have the type User, in this letter case"),
        (acl("User: alice", "READ", topic="t"),
         "principal 'User: alice': blanks around the name are a part of it"),
        (acl("User:user:alice", "READ", topic="t"),
         "principal 'User:user:alice': the name repeats the type"),
        (acl("User:CN=a, OU=b", "READ", topic="t"),
         "principal 'User:CN=a, OU=b': Java writes a certificate's name as 'CN=a,OU=b', unless"
         " ssl.principal.mapping.rules changes it"),
        (acl("User:serialNumber=1,CN=a", "READ", topic="t"),
         "principal 'User:serialNumber=1,CN=a': Java writes a certificate's name with OIDs and"
         " hexadecimal digits, unless ssl.principal.mapping.rules changes it"),
        (acl("User:team-*", "READ", topic="t"),
         "principal 'User:team-*': * is an ordinary character here; only User:* in an ACL means"
         " everyone"),
        (acl("Group:*", "READ", topic="t"),
         "principal 'Group:*': * is an ordinary character here; only User:* in an ACL means"
         " everyone"),
        (acl("User:a", "WRITE", group="g"),
         "operation WRITE: Kafka never asks for it on a resource of type GROUP, which has the"
         " operations ALL, READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS"),
        (acl("User:*", "READ", topic="t", deny=True),
         "a DENY rule for User:* overrides every ALLOW rule for what it denies: only super users"
         " pass"),
    ],
)  # fmt: skip
def test_surprising_acls_are_reported(surprising: Acl, said: str) -> None:
    assert list(find_surprises(surprising)) == [said]


@pytest.mark.parametrize(
    ("host", "rules", "said"),
    [
        ("10.0.0.0/8", RULES_4_4, []),
        ("2001:db8::/32", RULES_4_4, []),
        ("10.0.0.0/8", RULES_4_3,
         ["never matches: Kafka 4.3 compares addresses, and knows no ranges"]),
        ("10.0.0.0/8", ANY_RELEASE, [": Kafka 4.3 knows no ranges, and never matches it"]),
        ("10.1.2.3/8", RULES_4_4, ["is the range 10.0.0.0/8"]),
        ("2001:db8::%eth0/32", RULES_4_4,
         [
             ": only brokers that have this network interface can read it, so it denies here,"
             " and never allows"
         ]),
        ("[2001:db8::1]/+32", RULES_4_4, ["is the range 2001:db8::/32"]),
        ("10.0.0.0/33", RULES_4_4,
         ["never matches: Kafka cannot read this range: Value [33] not in range [0,32]"]),
        ("db/1", RULES_4_4,
         ["never matches: Kafka cannot read this range: Could not parse [db/1]"]),
        ("::ffff:10.0.0.0/104", RULES_4_4,
         [
             "never matches: Kafka cannot read this range: Could not parse [::ffff:10.0.0.0] -"
             " not an IPv6 address"
         ]),
        ("0.0.0.0/32", RULES_4_4,
         ["never matches: this address is in no range; write it without /"]),
        ("0.0.0.0/0", RULES_4_4,
         ["matches only IPv4: the other addresses are ::/0, and all are *"]),
        ("::/0", RULES_4_4,
         ["matches only IPv6: the other addresses are 0.0.0.0/0, and all are *"]),
    ],
)  # fmt: skip
def test_surprising_ranges_are_reported(host: str, rules: ReleaseRules, said: list[str]) -> None:
    texts = [
        each.removeprefix(f"host '{host}'").strip()
        for each in find_surprises(acl(host=host), rules)
    ]
    assert texts == said


@pytest.mark.parametrize(
    ("name", "of_topic", "of_group"),
    [
        ("orders", 0, 0),
        ("a.b_c-0", 0, 0),
        ("orders-*", 1, 1),
        ("*", 1, 1),
        (" orders", 1, 1),
        ("orders\u00a0", 1, 1),
        ("a,b", 1, 0),
        ("a b", 1, 0),
        ("größe", 1, 0),
        ("a, b* ", 3, 2),
    ],
)
def test_unusual_name_in_a_question_is_reported(name: str, of_topic: int, of_group: int) -> None:
    """Only topics must have the characters of topics."""
    found = {
        kind: len(list(find_asked_name_surprises(kind, name)))
        for kind in (ResourceType.TOPIC, ResourceType.GROUP)
    }
    assert found == {ResourceType.TOPIC: of_topic, ResourceType.GROUP: of_group}


def test_super_user_named_star_is_reported() -> None:
    """In ``super.users``, User:* is one user."""
    assert len(list(find_principal_surprises("User:*"))) == 1


HOSTS = st.one_of(st.text("0a.:/*%", max_size=6), st.sampled_from(["10.0.0.1", "::1", "0::1"]))


@given(HOSTS, HOSTS, st.sampled_from((RULES_4_3, RULES_4_4, ANY_RELEASE)))
def test_host_that_is_said_to_match_nothing_matches_no_client(
    host: str, client: str, rules: ReleaseRules
) -> None:
    """Clients have addresses as Java writes them. Any other host matches itself."""
    snapshot = with_rules(snapshot_of(acl("User:a", "READ", topic="t", host=host)), rules)
    said = list(find_surprises(acl(host=host), rules))

    def is_allowed(address: str) -> bool:
        return authorize(snapshot, AuthorizerSettings(), "User:a", address, READ, TOPIC, "t")

    if any("never matches:" in each for each in said):
        address = host_address(client)
        assert address is None or not is_allowed(address)
    elif "/" not in host:
        assert is_allowed(host)
