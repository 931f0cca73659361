"""Ranges of addresses in the hosts of ACLs, as Kafka 4.4.0 reads them.

The expected values are answers of CidrUtils of Kafka 4.4.0 on Java 17.
"""

import sys
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl import model
from authorizerd.acl.by_resource_type import authorize_by_resource_type
from authorizerd.acl.decision import (
    AuthorizerSettings,
    DefaultRule,
    MatchingAcl,
    UnjudgeableAcl,
    authorize,
    explain,
)
from authorizerd.acl.host_ranges import InvalidRangeError, find_range, mark_address, read_range
from authorizerd.acl.hosts import HostKind, get_kind, host_address, matches_host, never_matches
from authorizerd.acl.index import bits
from authorizerd.acl.index.builder import build
from authorizerd.acl.index.range_index import NO_RANGES
from authorizerd.acl.matching import matching_acls
from authorizerd.acl.model import (
    Acl,
    AclAdded,
    AclRemoved,
    Operation,
    PatternType,
    PermissionType,
    Question,
)
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, apply_changes, at_offset, with_rules
from authorizerd.acl.steps import finish
from tests.oracles import scan
from tests.support.acls import acl, question, snapshot_of

T = TypeVar("T")

NOBODY = AuthorizerSettings()
DENY = PermissionType.DENY


@pytest.mark.parametrize(
    ("host", "client", "matches"),
    [
        ("10.0.0.0/8", "10.255.255.255", True),
        ("10.0.0.0/8", "11.0.0.0", False),
        ("10.1.2.3/8", "10.200.0.1", True),  # bits after the prefix do not count
        ("10.0.0.1/32", "10.0.0.1", True),
        ("10.0.0.0/31", "10.0.0.1", True),
        ("10.0.0.0/31", "10.0.0.2", False),
        ("010.0.0.0/08", "10.1.2.3", True),
        ("0.0.0.0/0", "255.255.255.255", True),
        ("0.0.0.0/0", "0.0.0.0", False),  # no range contains this address
        ("0.0.0.0/32", "0.0.0.0", False),
        ("0.0.0.0/0", "2001:db8::1", False),
        ("::/0", "::", True),
        ("::/0", "10.1.2.3", False),
        ("::/0", "::ffff:10.1.2.3", False),  # Java writes this client as IPv4
        ("::1/128", "::1", True),
        ("2001:DB8::/32", "2001:db8:ffff::1", True),
        ("2001:db8::1/64", "2001:db8::2", True),
        ("[2001:db8::]/+32", "2001:db8::1", True),
        ("2001:db8::/\u0663\u0662", "2001:db8::1", True),  # Arabic digits
        ("2001:db8::/-0", "::1", True),
        ("::10.0.0.0/104", "::10.1.2.3", True),
        ("00002001:00000db8::/32", "2001:db8::1", True),
        ("fe80::/64", "fe80::1%eth0", True),
        ("fe80::%1/64", "fe80::1", True),
        ("fe80::%eth0/64", "fe80::1", True),
    ],
)
def test_range_matches_as_in_kafka(host: str, client: str, matches: bool) -> None:
    address = host_address(client)
    assert address is not None
    assert matches_host(host, address) == matches


@pytest.mark.parametrize(
    ("host", "error"),
    [
        ("10.0.0.0/", "Could not parse [10.0.0.0/]"),
        ("/8", "Could not parse [/8]"),
        ("10.0.0/8", "Could not parse [10.0.0/8]"),
        ("10.0.0.0/8/8", "Could not parse [10.0.0.0/8/8]"),
        (" 10.0.0.0/8", "Could not parse [ 10.0.0.0/8]"),
        ("10.0.0.0/8\n", "Could not parse [10.0.0.0/8\n]"),
        ("10.0.0.0/-1", "Could not parse [10.0.0.0/-1]"),
        ("10.0.0.\u0661/8", "Could not parse [10.0.0.\u0661/8]"),
        ("a/b", "Could not parse [a/b]"),
        ("10.0.0.256/8", "Value [256] not in range [0,255]"),
        ("10.0.0.0/33", "Value [33] not in range [0,32]"),
        ("2001:db8::/", "Could not parse [2001:db8::/] - invalid prefix length"),
        ("2001:db8::/8/8", "Could not parse [2001:db8::/8/8] - invalid prefix length"),
        ("::/2147483648", "Could not parse [::/2147483648] - invalid prefix length"),
        ("::/\U0001d7d6", "Could not parse [::/\U0001d7d6] - invalid prefix length"),
        ("::/129", "Could not parse [::/129] - prefix length must be between 0 and 128"),
        ("::/-1", "Could not parse [::/-1] - prefix length must be between 0 and 128"),
        ("1:2:3/8", "Could not parse [1:2:3]"),
        ("1::2::3/8", "Could not parse [1::2::3]"),
        (":::/8", "Could not parse [:::]"),
        ("1::2:/8", "Could not parse [1::2:]"),
        ("10000::/8", "Could not parse [10000::]"),
        ("1.2.3.4::/8", "Could not parse [1.2.3.4::]"),
        ("::1.2.3.256/8", "Could not parse [::1.2.3.256]"),
        ("::000001.2.3.400/8", "Could not parse [::000001.2.3.400]"),
        ("\u0661::/8", "Could not parse [\u0661::]"),
        ("[::/8", "Could not parse [[::]"),
        ("fe80::%/64", "Could not parse [fe80::%]"),
        ("::ffff:10.0.0.0/104", "Could not parse [::ffff:10.0.0.0] - not an IPv6 address"),
        ("::ffff:a00:0%1/104", "Could not parse [::ffff:a00:0%1]"),
    ],
)
def test_text_that_kafka_cannot_read_matches_nothing(host: str, error: str) -> None:
    with pytest.raises(InvalidRangeError) as raised:
        read_range(host)
    assert str(raised.value) == error
    assert find_range(host) is None
    assert get_kind(host) is HostKind.NOTHING


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("*", HostKind.EVERY),
        ("10.0.0.1", HostKind.ADDRESS),
        ("0:0:0:0:0:0:0:1", HostKind.ADDRESS),
        ("fe80:0:0:0:0:0:0:1%eth0", HostKind.ADDRESS),
        ("10.0.0.0/8", HostKind.RANGE),
        ("::1", HostKind.NOTHING),
        ("fe80::1", HostKind.NOTHING),
        ("010.0.0.1", HostKind.NOTHING),
        ("::ffff:10.0.0.1", HostKind.NOTHING),
        ("evil.example.com", HostKind.NOTHING),
        ("0.0.0.0/32", HostKind.NOTHING),
        ("", HostKind.NOTHING),
        ("*.*", HostKind.NOTHING),
    ],
)
def test_kind_says_what_a_host_can_match(host: str, kind: HostKind) -> None:
    assert get_kind(host) is kind
    for rules in (RULES_4_3, RULES_4_4, ANY_RELEASE):
        is_ignored_range = kind is HostKind.RANGE and rules is RULES_4_3
        assert never_matches(host, rules) == (kind is HostKind.NOTHING or is_ignored_range)


HOSTS = (
    *("*", "10.0.0.1", "10.0.0.7", "0:0:0:0:0:0:0:1", "::1", "evil.example.com"),
    *("10.0.0.0/29", "10.0.0.5/29", "10.0.0.0/8", "10.0.0.1/32", "0.0.0.0/0", "::/0", "/8"),
    "::%eth0/100",
)
CLIENTS = ("10.0.0.1", "10.0.0.9", "11.0.0.1", "0.0.0.0", "0:0:0:0:0:0:0:1", None)
OPERATIONS = (Operation.ALL, Operation.READ, Operation.DESCRIBE)


def range_acls() -> st.SearchStrategy[set[Acl]]:
    """Return ACLs with ranges and hosts that never match. Some principals have no colon."""
    one = st.builds(
        Acl,
        st.just(int(model.ResourceType.TOPIC)),
        st.sampled_from(("*", "!", "a", "ab", "abc")),
        st.sampled_from((int(PatternType.LITERAL), int(PatternType.PREFIXED), 77)),
        st.sampled_from(("User:a",) * 4 + ("User:*",) * 2 + ("a",)),
        st.sampled_from(HOSTS),
        st.sampled_from((*map(int, OPERATIONS), 99)),
        st.sampled_from((2, 3, 3, 3, 77)),
    )
    return st.sets(one, max_size=6)


def questions() -> st.SearchStrategy[Question]:
    return st.builds(
        Question,
        st.sampled_from(("User:a", "User:b")),
        st.sampled_from(CLIENTS),
        st.sampled_from((int(Operation.READ), int(Operation.DESCRIBE))),
        st.just(int(model.ResourceType.TOPIC)),
        st.sampled_from(("a", "ab", "abcd", "x", "!", "*")),
    )


RELEASES = (RULES_4_3, RULES_4_4, ANY_RELEASE)


def a(host: str, principal: str = "User:a", *, deny: bool = False) -> Acl:
    return acl(principal, "READ", topic="t", host=host, deny=deny)


@pytest.mark.parametrize(
    ("held", "host", "answers"),
    [
        ([a("*"), a("10.0.0.0/8", deny=True)], "10.0.0.1", (True, False, False)),
        ([a("*"), a("10.0.0.0/8", "User:*", deny=True)], "10.0.0.1", (True, False, False)),
        ([a("*"), a("10.0.0.0/8", deny=True)], "11.0.0.1", (True, True, True)),
        ([a("*"), a("10.0.0.0/8", deny=True)], None, (True, False, False)),
        ([a("10.0.0.0/8")], "10.0.0.1", (False, True, False)),
        ([a("10.0.0.0/8", "User:*")], "10.0.0.1", (False, True, False)),
        ([a("10.0.0.0/8")], None, (False, False, False)),
        ([a("10.0.0.1"), a("10.0.0.0/8")], "10.0.0.1", (True, True, True)),
        ([a("*"), a("0.0.0.0/0", deny=True)], "0.0.0.0", (True, True, True)),
        ([a("*"), a("::/0", deny=True)], "10.0.0.1", (True, True, True)),
        ([a("*"), a("::/0", deny=True)], "2001:db8:0:0:0:0:0:1", (True, False, False)),
        ([a("0.0.0.0/0"), a("::/0", deny=True)], "10.0.0.1", (False, True, False)),
        ([a("*"), a("10.0.0.0/33", deny=True)], None, (True, True, True)),
        ([a("*"), a("::1", deny=True)], None, (True, True, True)),
        ([a("*"), a("10.0.0.9", deny=True)], None, (False, False, False)),
        ([a("*"), a("*", "a")], "10.0.0.1", (False, False, False)),
        ([a("*"), a("evil.example.com", "a", deny=True)], None, (False, False, False)),
    ],
)
def test_decision_follows_the_release(
    held: list[Acl], host: str | None, answers: tuple[bool, bool, bool]
) -> None:
    """The answers are those by Kafka 4.3, by Kafka 4.4, and while the release is unknown."""
    asked = Question("User:a", host, Operation.READ, model.ResourceType.TOPIC, "t")
    for rules, answer in zip(RELEASES, answers, strict=True):
        snapshot = with_rules(snapshot_of(*held), rules)
        assert authorize(snapshot, NOBODY, "User:a", host, *asked_fields(asked)) == answer
        decision = explain(snapshot, NOBODY, asked)
        assert decision.allowed == answer
        if not answer and held[0].host == "*" and held[-1].permission_type == DENY:
            is_judged = ":" in held[-1].principal
            assert decision.rule == (MatchingAcl if is_judged else UnjudgeableAcl)(held[-1])


def asked_fields(asked: Question) -> tuple[int, int, str]:
    return asked.operation, asked.resource_type, asked.resource_name


@given(range_acls(), questions(), st.booleans(), st.sampled_from(RELEASES))
def test_decisions_about_ranges_agree_with_a_scan(
    held: set[Acl], asked: Question, allow_everyone: bool, rules: ReleaseRules
) -> None:
    """So do the rule that is named, and the ACLs that match."""
    snapshot = with_rules(snapshot_of(*held), rules)
    settings = AuthorizerSettings(allow_everyone_if_no_acl_found=allow_everyone)
    allowed, named = scan.decide(held, allow_everyone, asked, rules)
    fields = (asked.principal, asked.host, asked.operation, asked.resource_type)
    assert authorize(snapshot, settings, *fields, asked.resource_name) == allowed
    decision = explain(snapshot, settings, asked)
    assert decision.allowed == allowed
    if any(":" not in each.principal and scan.meets(each, asked) for each in held):
        assert isinstance(decision.rule, UnjudgeableAcl)
    elif named is None:
        assert isinstance(decision.rule, DefaultRule)
    elif asked.host is not None:
        assert decision.rule == MatchingAcl(named)
    found = matching_acls(snapshot, asked)
    assert set(found) == {each for each in held if scan.concerns(each, asked, rules)}


@given(range_acls(), questions())
def test_what_is_allowed_while_releases_are_unknown_is_allowed_by_each(
    held: set[Acl], asked: Question
) -> None:
    each = [
        explain(with_rules(snapshot_of(*held), rules), NOBODY, asked).allowed
        for rules in (RULES_4_3, RULES_4_4)
    ]
    assert explain(with_rules(snapshot_of(*held), ANY_RELEASE), NOBODY, asked).allowed == all(each)


@given(st.lists(range_acls(), max_size=3))
def test_change_by_change_leads_to_the_same_state_as_a_bulk_load(parts: list[set[Acl]]) -> None:
    """Removing everything again leads to the empty state."""
    held = list(dict.fromkeys(each for part in parts for each in part))
    added = [AclAdded(number.to_bytes(16), each) for number, each in enumerate(held)]
    snapshot = apply_changes(EMPTY_SNAPSHOT, added)
    assert at_offset(snapshot, 0) == build(added)
    assert apply_changes(snapshot, [AclRemoved(each.id) for each in added]) == EMPTY_SNAPSHOT


@pytest.mark.parametrize(
    ("host", "is_certain"),
    [
        ("2001:db8::%eth0/32", False),
        ("[2001:db8::%lo]/+32", False),
        ("febf::%eth0/0", True),
        ("fec0::%eth0/0", False),
        ("2001:db8::%1/32", True),
        ("[2001:db8::%25]/32", True),
    ],
)
def test_range_with_an_interface_denies_and_does_not_allow(host: str, is_certain: bool) -> None:
    """Kafka reads it on brokers with the interface; names of link-local clients' are trusted."""
    held = (
        acl("User:a", "READ", topic="t", host=host),
        acl("User:a", "READ", topic="u", host=host, deny=True),
        acl("User:a", "READ", topic="u"),
    )
    added = [AclAdded(number.to_bytes(16), each) for number, each in enumerate(held)]
    for loaded in (build(added), apply_changes(EMPTY_SNAPSHOT, added)):
        snapshot = with_rules(loaded, RULES_4_4)
        for topic, allowed in (("t", is_certain), ("u", False)):
            asked = question("User:a", "READ", topic=topic, host="2001:db8::1")
            fields = (asked.principal, asked.host, asked.operation, asked.resource_type)
            assert authorize(snapshot, NOBODY, *fields, topic) == allowed
            assert explain(snapshot, NOBODY, asked).allowed == allowed
        assert finish(authorize_by_resource_type(snapshot, NOBODY, *fields)) == is_certain


@pytest.mark.parametrize(
    ("host", "is_range"),
    [
        (f"1::/{'0' * 30_000}64", True),
        (f"1::/{chr(0x660) * 10_000}8", True),
        (f"{'0' * 30_000}1::/8", True),
        (f"{'1:' * 15_000}/8", False),
    ],
)
def test_long_text_is_read_in_few_calls(host: str, is_range: bool) -> None:
    """Loops over its characters would block the event loop."""
    found, calls = count_calls(lambda: find_range(host))
    assert (found is not None) == is_range
    assert calls < 200


def count_calls(run: Callable[[], T]) -> tuple[T, int]:
    """Return a function's result, and the number of calls and returns in it."""
    calls = 0

    def note(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(note)
    try:
        result = run()
    finally:
        sys.setprofile(None)
    return result, calls


class _Text(str):
    """A text whose comparisons ``count_calls`` counts."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str(self) < str(other)

    def __gt__(self, other: str) -> bool:
        return str(self) > str(other)


@pytest.mark.parametrize("deny", [False, True])
@pytest.mark.parametrize("topic", ["t", "!"])
@pytest.mark.parametrize(
    ("hosts", "host", "calls_max"),
    [
        ([f"10.{n // 256}.{n % 256}.0/8" for n in range(2000)], "10.0.0.1", 1000),
        (
            [f"2001:db8::{n:x}/{length}" for length in range(112) for n in range(40)],
            "2001:db8:0:0:0:0:0:1",
            20_000,
        ),
    ],
    ids=["many spellings of one network", "many networks of one address"],
)
def test_many_ranges_do_not_slow_decisions(
    hosts: list[str], host: str, calls_max: int, topic: str, deny: bool
) -> None:
    """Otherwise, a user who may create ACLs could keep the event loop busy by each decision."""
    held = {acl("User:a", "READ", topic=topic, host=_Text(each), deny=deny) for each in hosts}
    snapshot = with_rules(snapshot_of(*held), RULES_4_4)
    asked = question("User:a", "READ", topic=topic, host=host)
    decision, calls = count_calls(lambda: explain(snapshot, NOBODY, asked))
    assert decision.allowed == (not deny)
    assert isinstance(decision.rule, MatchingAcl)
    assert decision.rule.acl in held
    assert calls < calls_max
    fields = (asked.principal, asked.host, asked.operation, asked.resource_type)
    allowed, calls = count_calls(
        lambda: finish(authorize_by_resource_type(snapshot, NOBODY, *fields))
    )
    assert allowed == (not deny)
    assert calls < calls_max
    assert set(matching_acls(snapshot, asked)) == held


@pytest.mark.parametrize("deny", [False, True])
def test_rule_of_a_network_is_the_one_that_kafka_names(deny: bool) -> None:
    """The first DENY of its scan, or else the last ALLOW, even if another pattern comes first."""
    literal = acl("User:a", "READ", topic="topic", host="10.0.0.0/8")
    prefix = acl("User:a", topic="t", pattern="PREFIXED", host="10.0.0.0/8", deny=deny)
    snapshot = with_rules(snapshot_of(literal, prefix), RULES_4_4)
    asked = question("User:a", "READ", topic="topic", host="10.0.0.1")
    assert explain(snapshot, NOBODY, asked).rule == MatchingAcl(prefix)


def test_look_ups_do_not_grow_with_the_number_of_ranges() -> None:
    """A question looks up one network for each distinct prefix length."""
    held = [
        acl("User:a", "READ", topic="t", host=f"10.{n // 256}.{n % 256}.{n % 7}/{length}")
        for n in range(1000)
        for length in (24, 28)
    ]
    rules = snapshot_of(*held).types[model.ResourceType.TOPIC].principals["User:a"]
    assert rules.ranges.ipv4_shifts == (4, 8)
    assert [len(network.rules) for network in rules.ranges.find_networks("10.0.9.1")] == [1, 1]
    assert snapshot_of(acl("User:a")).types[model.ResourceType.TOPIC].everyone.ranges is NO_RANGES


def test_widths_follow_from_the_tables_of_codes() -> None:
    assert range(max(Operation) + 1) == bits.OPERATION_CODES
    tables = (bits.ALLOWS, bits.DENIES, bits.HOST_DENIES, bits.RANGE_DENIES, bits.RANGE_ALLOWS)
    assert {len(table) for table in tables} == {len(bits.OPERATION_CODES)}
    assert bits.PLAIN_BITS.bit_length() == 2 * len(bits.OPERATION_CODES)


def test_marked_address_is_none_for_other_texts() -> None:
    assert mark_address("10.0.0.0/8") is None
    assert mark_address("evil.example.com") is None
