"""What assertions mean, compared with brute force, and the changes after which they hold."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.model import Acl, Operation, ResourceType
from authorizerd.acl.notes import Note, make_note
from authorizerd.acl.releases import ANY_RELEASE, RULES, ReleaseRules
from authorizerd.acl.search.subjects import find_subjects
from authorizerd.acl.snapshot import with_rules
from authorizerd.management.policy.judging import FINDINGS_MAX, Verdict, judge, judged_by
from authorizerd.management.policy.remedy import CHANGES_MAX, find_remedy
from authorizerd.management.policy.sentence import read_sentence
from authorizerd.management.policy.wording import write_finding
from authorizerd.management.policy.words import Assertion, AtMost, read_principal
from tests.management.policy.assertions import (
    SUPER_USER,
    acls,
    assertion,
    assertions,
    holds,
    releases,
)
from tests.support.acls import acl, snapshot_of


@given(st.lists(acls, max_size=7, unique=True), assertions, st.booleans(), st.booleans(), releases)
def test_assertion_holds_exactly_if_it_holds_by_brute_force(
    present: list[Acl], asserted: Assertion, has_super_user: bool, allow_everyone: bool,
    rules: ReleaseRules,
) -> None:  # fmt: skip
    super_users = frozenset([SUPER_USER] if has_super_user else [])
    settings = AuthorizerSettings(super_users, allow_everyone)
    verdict = judge(with_rules(snapshot_of(*present), rules), settings, asserted)
    assert verdict.passed == holds(present, super_users, allow_everyone, asserted, rules)
    assert verdict.passed == (not verdict.findings)


@given(st.lists(acls, max_size=7, unique=True), assertions, st.booleans(), releases)
def test_question_of_a_finding_has_its_answer(
    present: list[Acl], asserted: Assertion, allow_everyone: bool, rules: ReleaseRules
) -> None:
    settings = AuthorizerSettings(frozenset([SUPER_USER]), allow_everyone)
    snapshot = with_rules(snapshot_of(*present), rules)
    for finding in judge(snapshot, settings, asserted).findings:
        asked = finding.question
        answer = authorize(
            judged_by(snapshot, finding), settings, asked.principal, asked.host, asked.operation,
            asked.resource_type, asked.resource_name,
        )  # fmt: skip
        assert answer == finding.is_allowed == finding.access.allows(asked.host)
        assert asked.resource_name.startswith(finding.names.text)


@given(
    st.lists(acls, max_size=7, unique=True),
    st.sampled_from(["a", "ab", "b*"]),
    st.booleans(),
    releases,
)
def test_nobody_but_those_that_can_may(
    present: list[Acl], name: str, allow_everyone: bool, rules: ReleaseRules
) -> None:
    """The search for who can is another implementation, with an index."""
    settings = AuthorizerSettings(frozenset([SUPER_USER]), allow_everyone)
    snapshot = with_rules(snapshot_of(*present), rules)
    subjects = find_subjects(snapshot, settings, Operation.READ, ResourceType.TOPIC, name)
    can = tuple(each.principal for each in subjects.named)
    for besides in (can, can[1:]):
        asserted = assertion(AtMost(0, besides), "READ", name)
        passed = judge(snapshot, settings, asserted).passed
        assert passed == (subjects.everyone.is_nowhere and besides == can)


def judged(sentence: str, *present: Acl, settings: AuthorizerSettings | None = None) -> Verdict:
    asserted = read_sentence(sentence, {})
    return judge(snapshot_of(*present), settings or AuthorizerSettings(), asserted)


def found(verdict: Verdict) -> list[str]:
    return list(map(write_finding, verdict.findings))


ALICE = acl("User:alice", "WRITE", topic="payments.a")
PREFIX = acl("User:bob", "WRITE", topic="payments.", pattern="PREFIXED")
WIDER = acl("User:carol", "ALL", topic="pay", pattern="PREFIXED", host="10.0.0.7")
ANYONE = acl("User:*", "WRITE", topic="payments.open")
CLUSTER = acl("User:admin", "ALTER", cluster=True)
SILENT = acl("User:app", topic="t", host="::1", deny=True)
SUPER = AuthorizerSettings(frozenset(["User:root"]))
OPEN = AuthorizerSettings(allow_everyone_if_no_acl_found=True)


@pytest.mark.parametrize(("sentence", "present", "settings", "expected"), [
    ("at most 3 principals can WRITE payments.*", (ALICE, PREFIX, WIDER), None, []),
    ("at most 2 principals can WRITE payments.*", (ALICE, PREFIX, WIDER), None,
     ["User:alice may WRITE topic payments.a from any host",
      "User:bob may WRITE topics payments.*, such as payments.a, from any host",
      "User:carol may WRITE topics payments.*, such as payments.a, from 10.0.0.7"]),
    ("at most 2 principals but carol can WRITE payments.*", (ALICE, PREFIX, WIDER), None, []),
    ("at most 9 principals can WRITE payments.*", (ANYONE,), None,
     ["a principal that no ACL names may WRITE topic payments.open from any host"]),
    ("nobody may WRITE payments.*", (), OPEN,
     ["a principal that no ACL names may WRITE topics payments.*, such as payments.a, "
      "from any host"]),
    ("nobody may READ any group", (acl("User:*", "READ", group="*", deny=True),), OPEN,
     ['a principal that no ACL names may READ groups "*"*, such as "*a", from any host']),
    ("everyone may READ t-*", (acl("User:bob", "READ", topic="t-1"),), OPEN,
     ["a principal that no ACL names may not READ topic t-1"]),
    ("nobody but admin may ALTER the cluster", (CLUSTER,), None, []),
    ("nobody but admin may ALTER the cluster", (CLUSTER,), SUPER,
     ["User:root may ALTER the cluster from any host"]),
    ("nobody but admin and $super_users may ALTER the cluster", (CLUSTER,), SUPER, []),
    ("alice may WRITE payments.*", (ALICE,), None,
     ["User:alice may not WRITE topics payments.*, such as payments.b"]),
    ("bob may WRITE payments.*", (PREFIX,), None, []),
    ("bob may WRITE payments.*",
     (PREFIX, acl("User:*", "WRITE", topic="payments.x", deny=True, host="10.0.0.9")), None,
     ["User:bob may not WRITE topic payments.x from 10.0.0.9"]),
    ("carol may WRITE topic payments.a", (WIDER,), None,
     ["User:carol may WRITE topic payments.a only from 10.0.0.7"]),
    ("carol may WRITE topic payments.a from 10.0.0.7", (WIDER,), None, []),
    ("carol may not WRITE topic payments.a from 10.0.0.8", (WIDER,), None, []),
    ("carol may not WRITE topic payments.a", (WIDER,), None,
     ["User:carol may WRITE topic payments.a from 10.0.0.7"]),
    ("carol may READ any topic", (acl("User:carol", "READ", topic="*"),), None, []),
    ("everyone may WRITE topic payments.open", (ANYONE,), None, []),
    ("everyone may WRITE topic payments.open",
     (ANYONE, acl("User:bob", "WRITE", topic="pay", pattern="PREFIXED", deny=True)), None,
     ["User:bob may not WRITE topic payments.open"]),
])  # fmt: skip
def test_verdict_names_what_contradicts_the_assertion(
    sentence: str, present: Collection[Acl], settings: AuthorizerSettings | None,
    expected: list[str],
) -> None:  # fmt: skip
    verdict = judged(sentence, *present, settings=settings)
    assert (found(verdict), verdict.passed) == (expected, not expected)


def test_no_client_has_the_principal_of_notes() -> None:
    everyone = replace(acl("User:*", "DESCRIBE", topic="*"), resource_type=6)
    note = make_note(Note("other", {"a": "1"}))
    assert judged("everyone may DESCRIBE any delegation-token", everyone, note).passed


def test_many_findings_are_counted_but_not_described() -> None:
    present = [acl(f"User:{number:03}", "READ", topic="t") for number in range(99)]
    verdict = judged("nobody may READ topic t", *present)
    assert verdict.count == 99
    assert len(verdict.findings) == FINDINGS_MAX
    assert verdict.findings[0].principal == "User:000"


def test_names_that_begin_with_a_star_count_only_against_access() -> None:
    """Kafka's wildcard skips them: no rule could allow what every other name is allowed."""
    starred = acl("User:a", "READ", group="*", pattern="PREFIXED")
    wildcard = acl("User:a", "READ", group="*")
    assert judged("a may READ any group", wildcard).passed
    assert not judged("a may not READ any group", starred).passed
    assert not judged('a may READ groups "*"*', wildcard).passed


@pytest.mark.parametrize(("sentence", "present", "by_4_3", "by_4_4"), [
    # A host that never matches neither excludes nor allows anybody.
    ("nobody but app may READ topic t",
     (acl("User:app", topic="t"), acl("User:app", topic="t", host="evil.example.com", deny=True),
      acl("User:v6", topic="t", host="fe80::1")), [], []),
    ("app may READ topic t", (acl("User:app", topic="t"), SILENT), [], []),
    ("net may not READ topic t", (acl("User:net", topic="t", host="10.9.0.0/16"),), [],
     ["User:net may READ topic t from 10.9.0.0/16"]),
    ("net may not READ topic t",
     (acl("User:net", topic="t", host="10.9.0.0/16"),
      acl("User:net", topic="t", host="10.9.1.2", deny=True)), [],
     ["User:net may READ topic t from 10.9.0.0/16 (except 10.9.1.2)"]),
    ("app may READ topic t",
     (acl("User:app", topic="t"), acl("User:*", topic="t", host="10.9.0.0/16", deny=True)), [],
     ["User:app may not READ topic t from 10.9.0.0/16"]),
    ("net may READ topic t from 10.9.3.4", (acl("User:net", topic="t", host="10.9.0.0/16"),),
     ["User:net may not READ topic t"], []),
    ("net may not READ topic t", (acl("User:net", topic="t"),),
     ["User:net may READ topic t from any host"], ["User:net may READ topic t from any host"]),
])  # fmt: skip
def test_assertion_holds_only_if_it_does_by_each_release(
    sentence: str, present: Collection[Acl], by_4_3: list[str], by_4_4: list[str]
) -> None:
    """A failure names the release, unless all fail alike."""
    asserted = read_sentence(sentence, {})
    snapshot = snapshot_of(*present)
    verdicts = [judge(with_rules(snapshot, rules), OPEN, asserted) for rules in RULES.values()]
    assert [found(each) for each in verdicts] == [by_4_3, by_4_4]
    mixed = judge(with_rules(snapshot, ANY_RELEASE), OPEN, asserted)
    if by_4_3 == by_4_4:
        assert found(mixed) == by_4_3
    else:
        release, sentences = ("4.3", by_4_3) if by_4_3 else ("4.4", by_4_4)
        assert found(mixed) == [f"by the rules of Kafka {release}, {each}" for each in sentences]
    assert mixed.passed == (not by_4_3 and not by_4_4)


ROOT = AuthorizerSettings(frozenset([read_principal("root")]))


@given(st.lists(acls, max_size=7, unique=True), assertions, st.booleans(), releases)
def test_changes_make_the_assertion_hold_and_none_can_be_left_out(
    present: list[Acl], asserted: Assertion, allow_everyone: bool, rules: ReleaseRules
) -> None:
    settings = AuthorizerSettings(frozenset([SUPER_USER]), allow_everyone)
    snapshot = with_rules(snapshot_of(*present), rules)
    verdict = judge(snapshot, settings, asserted)
    changes = find_remedy(snapshot, settings, asserted, verdict)
    assert not (changes and verdict.passed)
    assert len(changes) <= CHANGES_MAX
    for left_out in (None, *changes) if changes else ():
        after = set(present)
        for change in changes:
            if change is not left_out:
                assert change.adds == (change.acl not in present)
                (after.add if change.adds else after.remove)(change.acl)
        does_hold = holds(after, settings.super_users, allow_everyone, asserted, rules)
        assert does_hold == (left_out is None)


@pytest.mark.parametrize(("sentence", "present", "settings", "expected"), [
    ("alice may WRITE payments.*", (acl("User:alice", "WRITE", topic="payments.a"),),
     AuthorizerSettings(),
     [(True, acl("User:alice", "WRITE", topic="payments.", pattern="PREFIXED"))]),
    ("alice may WRITE any topic from 10.0.0.7", (), AuthorizerSettings(),
     [(True, acl("User:alice", "WRITE", topic="*", host="10.0.0.7"))]),
    ("alice may WRITE topic t",
     (acl("User:alice", "ALL", topic="t"), acl("User:*", "WRITE", topic="t", deny=True)),
     AuthorizerSettings(), [(False, acl("User:*", "WRITE", topic="t", deny=True))]),
    ("nobody but bob may WRITE payments.*",
     (acl("User:alice", "WRITE", topic="payments.a"),
      acl("User:bob", "WRITE", topic="payments.", pattern="PREFIXED"),
      acl("User:carol", "WRITE", topic="pay", pattern="PREFIXED")), AuthorizerSettings(),
     [(False, acl("User:alice", "WRITE", topic="payments.a")),
      (True, acl("User:carol", "WRITE", topic="payments.", pattern="PREFIXED", deny=True))]),
    ("nobody but bob may WRITE topic t", (acl("User:*", "WRITE", topic="t"),), AuthorizerSettings(),
     [(False, acl("User:*", "WRITE", topic="t"))]),
    ("alice may not WRITE payments.*",
     tuple(acl("User:alice", "WRITE", topic=f"payments.{each}") for each in "ab"),
     AuthorizerSettings(),
     [(True, acl("User:alice", "WRITE", topic="payments.", pattern="PREFIXED", deny=True))]),
    ("nobody may WRITE topic t", (), OPEN, []),
    ("root may not WRITE topic t", (), ROOT, []),
    ("everyone may READ topic t", (), AuthorizerSettings(), [(True, acl("User:*", topic="t"))]),
    ("at most 1 principals may READ topic t", (acl("User:a", topic="t"), acl("User:b", topic="t")),
     AuthorizerSettings(), []),
    ("nobody may READ topic t",
     tuple(acl(f"User:{number}", topic="t") for number in range(CHANGES_MAX + 1)),
     AuthorizerSettings(), []),
])  # fmt: skip
def test_remedy(
    sentence: str, present: tuple[Acl, ...], settings: AuthorizerSettings,
    expected: list[tuple[bool, Acl]],
) -> None:  # fmt: skip
    asserted = read_sentence(sentence, {})
    snapshot = snapshot_of(*present)
    verdict = judge(snapshot, settings, asserted)
    assert not verdict.passed
    changes = find_remedy(snapshot, settings, asserted, verdict)
    assert [(change.adds, change.acl) for change in changes] == expected
