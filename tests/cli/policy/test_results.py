"""Policy tests under settings that are unknown."""

import time
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.known_settings import ALLOW_EVERYONE, SUPER_USERS, KnownSettings
from authorizerd.acl.model import Acl
from authorizerd.cli.policy.document import PolicyTest
from authorizerd.cli.policy.results import Result, run_tests
from authorizerd.management.policy.judging import judge
from authorizerd.management.policy.sentence import read_sentence
from authorizerd.management.policy.words import Assertion
from tests.management.policy.assertions import EVERY_PRINCIPAL, SUPER_USER, acls, assertions
from tests.support.acls import acl, snapshot_of

NOBODY = frozenset[str]()
ROOT = frozenset((SUPER_USER,))
BOB = acl("User:bob", topic="t")
OPENED = acl("User:*", "DESCRIBE", topic="t")


def run(held: Collection[Acl], known: KnownSettings, asserted: Assertion) -> Result:
    test = PolicyTest("policy.yaml", 1, "a test", asserted)
    (result,) = run_tests([test], snapshot_of(*held), known, clock=time.monotonic)
    return result


@given(
    st.lists(acls, max_size=6, unique=True),
    assertions,
    st.sampled_from((None, NOBODY, ROOT)),
    st.sampled_from((None, False, True)),
    st.frozensets(st.sampled_from(EVERY_PRINCIPAL)),
    st.booleans(),
)
def test_verdict_without_unknown_settings_holds_for_all_of_their_values(
    held: list[Acl], asserted: Assertion, users: frozenset[str] | None, is_open: bool | None,
    other_users: frozenset[str], other_default: bool,
) -> None:  # fmt: skip
    known = KnownSettings(users, is_open)
    result = run(held, known, asserted)
    possible = AuthorizerSettings(
        other_users if users is None else users, other_default if is_open is None else is_open
    )
    assert {*result.unknown} <= {*known.unknown}
    assert not (result.passed and result.unknown)
    if not result.unknown:
        assert judge(snapshot_of(*held), possible, asserted).passed == result.passed
    if result.changes:
        after = {*held}
        for change in result.changes:
            (after.add if change.adds else after.discard)(change.acl)
        assert run(after, known, asserted).passed


@pytest.mark.parametrize(("sentence", "held", "known", "unknown", "found"), [
    ("nobody may READ topic t", (), KnownSettings(NOBODY, False), (), []),
    ("nobody may READ topic t", (OPENED,), KnownSettings(None, False), (SUPER_USERS,), []),
    ("nobody but $super_users may READ topic t", (), KnownSettings(None, False), (), []),
    ("at most 1 principals may READ topic t", (), KnownSettings(None, False), (SUPER_USERS,),
     []),
    ("bob may not READ topic t", (OPENED,), KnownSettings(None, None), (SUPER_USERS,), []),
    ("bob may READ topic t", (BOB,), KnownSettings(None, None), (), []),
    ("bob may READ topic t", (OPENED,), KnownSettings(None, None), (SUPER_USERS,),
     ["User:bob may not READ topic t unless User:bob is a super user, which is unknown"]),
    ("bob may not READ topic t", (), KnownSettings(NOBODY, None), (ALLOW_EVERYONE,),
     ["User:bob may READ topic t from any host, if allow.everyone.if.no.acl.found is true, "
      "which is unknown"]),
    ("bob may not READ topic t", (OPENED,), KnownSettings(NOBODY, None), (), []),
    ("nobody may READ topic t", (), KnownSettings(None, None), (SUPER_USERS, ALLOW_EVERYONE),
     ["a principal that no ACL names may READ topic t from any host, if "
      "allow.everyone.if.no.acl.found is true, which is unknown"]),
    ("nobody may READ topic t", (BOB,), KnownSettings(None, None), (),
     ["User:bob may READ topic t from any host"]),
    ("nobody but $super_users may READ topic t", (BOB,), KnownSettings(None, False), (SUPER_USERS,),
     ["User:bob may READ topic t from any host"]),
    ("everyone may READ topic t", (), KnownSettings(None, None), (ALLOW_EVERYONE,),
     ["a principal that no ACL names may not READ topic t unless "
      "allow.everyone.if.no.acl.found is true, which is unknown"]),
])  # fmt: skip
def test_test_that_depends_on_an_unknown_setting_fails_with_the_reason(
    sentence: str, held: Collection[Acl], known: KnownSettings, unknown: tuple[str, ...],
    found: list[str],
) -> None:  # fmt: skip
    result = run(held, known, read_sentence(sentence, {}))
    assert result.unknown == unknown
    assert [each.text for each in result.reasons] == found
    assert result.passed == (not unknown and not found)
