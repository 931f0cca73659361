"""Changes after which a failed assertion holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.model import Acl
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.snapshot import with_rules
from authorizerd.management.policy.judging import judge
from authorizerd.management.policy.remedy import CHANGES_MAX, find_remedy
from authorizerd.management.policy.sentence import read_sentence
from authorizerd.management.policy.words import Assertion, read_principal
from tests.management.policy.assertions import SUPER_USER, holds
from tests.management.policy.strategies import acls, assertions, releases
from tests.support.acls import acl, snapshot_of

OPEN = AuthorizerSettings(allow_everyone_if_no_acl_found=True)
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


@pytest.mark.parametrize(
    ("sentence", "present", "settings", "expected"),
    [
        (
            "alice may WRITE payments.*",
            (acl("User:alice", "WRITE", topic="payments.a"),),
            AuthorizerSettings(),
            [(True, acl("User:alice", "WRITE", topic="payments.", pattern="PREFIXED"))],
        ),
        (
            "alice may WRITE any topic from 10.0.0.7",
            (),
            AuthorizerSettings(),
            [(True, acl("User:alice", "WRITE", topic="*", host="10.0.0.7"))],
        ),
        (
            "alice may WRITE topic t",
            (acl("User:alice", "ALL", topic="t"), acl("User:*", "WRITE", topic="t", deny=True)),
            AuthorizerSettings(),
            [(False, acl("User:*", "WRITE", topic="t", deny=True))],
        ),
        (
            "nobody but bob may WRITE payments.*",
            (
                acl("User:alice", "WRITE", topic="payments.a"),
                acl("User:bob", "WRITE", topic="payments.", pattern="PREFIXED"),
                acl("User:carol", "WRITE", topic="pay", pattern="PREFIXED"),
            ),
            AuthorizerSettings(),
            [
                (False, acl("User:alice", "WRITE", topic="payments.a")),
                (
                    True,
                    acl("User:carol", "WRITE", topic="payments.", pattern="PREFIXED", deny=True),
                ),
            ],
        ),
        (
            "nobody but bob may WRITE topic t",
            (acl("User:*", "WRITE", topic="t"),),
            AuthorizerSettings(),
            [(False, acl("User:*", "WRITE", topic="t"))],
        ),
        (
            "alice may not WRITE payments.*",
            tuple(acl("User:alice", "WRITE", topic=f"payments.{each}") for each in "ab"),
            AuthorizerSettings(),
            [
                (
                    True,
                    acl("User:alice", "WRITE", topic="payments.", pattern="PREFIXED", deny=True),
                )
            ],
        ),
        ("nobody may WRITE topic t", (), OPEN, []),
        ("root may not WRITE topic t", (), ROOT, []),
        ("everyone may READ topic t", (), AuthorizerSettings(), [(True, acl("User:*", topic="t"))]),
        (
            "at most 1 principals may READ topic t",
            (acl("User:a", topic="t"), acl("User:b", topic="t")),
            AuthorizerSettings(),
            [],
        ),
        (
            "nobody may READ topic t",
            tuple(acl(f"User:{number}", topic="t") for number in range(CHANGES_MAX + 1)),
            AuthorizerSettings(),
            [],
        ),
    ],
)
def test_remedy(
    sentence: str,
    present: tuple[Acl, ...],
    settings: AuthorizerSettings,
    expected: list[tuple[bool, Acl]],
) -> None:
    asserted = read_sentence(sentence, {})
    snapshot = snapshot_of(*present)
    verdict = judge(snapshot, settings, asserted)
    assert not verdict.passed
    changes = find_remedy(snapshot, settings, asserted, verdict)
    assert [(change.adds, change.acl) for change in changes] == expected
