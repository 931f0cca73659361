"""Smallest changes: each gives the other answer, and no narrower one does."""

from itertools import combinations

import pytest
from hypothesis import given

import authorizerd.acl.explanation.changes
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.explanation.model import AclChange, Changes
from authorizerd.acl.model import CLUSTER_NAME, OPERATIONS, RESOURCE_TYPES, Acl, Question
from authorizerd.acl.snapshot import AclSnapshot
from tests.acl.explanation.cases import (
    Case,
    cases,
    change,
    creatable_acls,
    flips,
    is_creatable,
    is_narrower,
    names_around,
    with_hosts,
)
from tests.oracles import scan
from tests.support.acls import acl, question, snapshot_of

OPEN = AuthorizerSettings(allow_everyone_if_no_acl_found=True)
CLOSED = AuthorizerSettings()


def find(held: list[Acl], asked: Question, settings: AuthorizerSettings = CLOSED) -> Changes:
    return explain_fully(snapshot_of(*held), settings, asked).changes


@given(cases())
def test_changes_give_the_other_answer(case: Case) -> None:
    """For every unknown host, or all but those that a DENY names. Kafka accepts each ACL to add."""
    changes = case.explain().changes
    assert (changes.reason is None) == bool(changes.listed)
    assert not changes.left_out
    assert all(is_creatable(each.acl) for each in changes.listed if each.adds)
    if changes.listed:
        changed = change(case.snapshot, *changes.listed)
        assert flips(case, changed, elsewhere=bool(changes.stays_denied))


@given(cases())
def test_no_narrower_or_shorter_change_gives_the_other_answer(case: Case) -> None:
    """If everyone is allowed by default, any ACL ends that; then only a DENY counts as narrower."""
    explanation = case.explain()
    changes, smallest = explanation.changes, explanation.changes.smallest
    elsewhere = bool(changes.stays_denied)
    snapshot, names = case.snapshot, names_around(case.question)
    if smallest is not None and smallest.adds:
        for each in creatable_acls(case.question):
            if each not in case.held and is_narrower(each, smallest.acl, names):
                if explanation.default.applies:
                    assert not all(scan.speaks(each, asked) for asked in with_hosts(case.question))
                else:
                    assert not flips(
                        case, change(snapshot, AclChange(True, each)), elsewhere=elsewhere
                    )
    elif smallest is not None:
        for each in case.held:
            if is_narrower(each, smallest.acl, names):
                assert not flips(
                    case, change(snapshot, AclChange(False, each)), elsewhere=elsewhere
                )
    elif changes.listed:
        assert not any(
            flips(case, each, elsewhere=elsewhere) for each in single_changes(case, snapshot)
        )
        for some in combinations(changes.listed, len(changes.listed) - 1):
            assert not flips(case, change(snapshot, *some), elsewhere=elsewhere)


def single_changes(case: Case, snapshot: AclSnapshot) -> list[AclSnapshot]:
    """Return the states after each single change of a small universe."""
    return [
        *(change(snapshot, AclChange(False, each)) for each in case.held),
        *(
            change(snapshot, AclChange(True, each))
            for each in creatable_acls(case.question)
            if each not in case.held
        ),
    ]


@given(cases())
def test_reason_is_given_only_if_no_acl_can_be_as_narrow_as_the_question(case: Case) -> None:
    asked = case.question
    if case.explain().changes.reason is not None:
        is_cluster = asked.resource_type == 4
        assert (
            asked.principal in case.settings.super_users
            or asked.resource_type not in RESOURCE_TYPES
            or asked.operation not in OPERATIONS
            or not asked.resource_name
            or ":" not in asked.principal
            or (is_cluster and asked.resource_name != CLUSTER_NAME)
        )


HOST = "10.0.0.1"


@pytest.mark.parametrize(
    ("held", "asked", "settings", "expected"),
    [
        pytest.param([], question(), CLOSED, [("add", acl(host=HOST))], id="nothing matches"),
        pytest.param(
            [], question(host=None), CLOSED, [("add", acl())], id="unknown host: for every host"
        ),
        pytest.param([acl(pattern="PREFIXED", host="10.0.0.7")],
                     question(topic="tt"), CLOSED, [("add", acl(host=HOST, topic="tt"))],
                     id="a near miss does not widen the ACL"),
        pytest.param([acl(deny=True), acl("User:*")],
                     question(), CLOSED, [("remove", acl(deny=True))], id="one DENY"),
        pytest.param([acl(deny=True)], question(), OPEN, [("remove", acl(deny=True))],
                     id="one DENY, and then the default"),
        pytest.param([acl(deny=True), acl("User:z", "ALTER")],
                     question(), OPEN, [("remove", acl(deny=True)), ("add", acl(host=HOST))],
                     id="one DENY, and another ACL that prevents the default"),
        pytest.param([acl(deny=True), acl("User:*", "ALL", deny=True, topic="*")],
                     question(), CLOSED,
                     [
                         ("remove", acl(deny=True)),
                         ("remove", acl("User:*", "ALL", deny=True, topic="*")),
                         ("add", acl(host=HOST)),
                     ],
                     id="two DENYs and no ALLOW"),
        pytest.param([acl(), acl(deny=True, host="10.0.0.7")],
                     question(host=None), CLOSED, [("remove", acl(deny=True, host="10.0.0.7"))],
                     id="unknown host: a DENY of one host"),
        pytest.param([acl("User:*", deny=True, host="10.0.0.7")],
                     question(host=None), CLOSED, [("add", acl())],
                     id="unknown host: a DENY of one host, and no ALLOW"),
        pytest.param([acl(), acl(deny=True, topic="*"), acl(deny=True, host="10.0.0.7")],
                     question(host=None), CLOSED, [("remove", acl(deny=True, topic="*"))],
                     id="unknown host: a DENY of every host, and one of a single host"),
        pytest.param([acl(deny=True, host="10.0.0.7")],
                     question(host=None), OPEN, [("remove", acl(deny=True, host="10.0.0.7"))],
                     id="unknown host: a DENY of one host, and then the default"),
        pytest.param([acl(host=HOST)], question(), CLOSED, [("remove", acl(host=HOST))],
                     id="the only ALLOW is exact"),
        pytest.param([acl(host=HOST)], question(), OPEN, [("add", acl(host=HOST, deny=True))],
                     id="without the only ALLOW, the default would allow"),
        pytest.param([acl()], question(), CLOSED, [("add", acl(host=HOST, deny=True))],
                     id="the only ALLOW is for every host"),
        pytest.param([acl()], question(host=None), CLOSED, [("remove", acl())],
                     id="unknown host: the only ALLOW is exact"),
        pytest.param(
            [acl(), acl(host="10.0.0.7")], question(host=None), CLOSED, [("add", acl(deny=True))],
            id="unknown host: another ALLOW is for one host",
        ),
        pytest.param([acl(host=HOST)], question("User:a", "DESCRIBE"), CLOSED,
                     [("add", acl("User:a", "DESCRIBE", host=HOST, deny=True))],
                     id="the ALLOW implies more than the question"),
        pytest.param(
            [], question(), OPEN, [("add", acl(host=HOST, deny=True))], id="allowed by default"
        ),
        pytest.param([], question(topic="*"), CLOSED,
                     [("add", acl(host=HOST, topic="*", pattern="PREFIXED"))],
                     id="a literal * would allow every topic"),
        pytest.param(
            [acl(topic="*")], question(topic="*a"), CLOSED, [("add", acl(host=HOST, topic="*a"))],
            id="the wildcard misses names that begin with *",
        ),
        pytest.param([], question(cluster=True), CLOSED, [("add", acl(host=HOST, cluster=True))],
                     id="the cluster"),
    ],
)  # fmt: skip
def test_changes_of_readable_cases(
    held: list[Acl], asked: Question, settings: AuthorizerSettings, expected: list[tuple[str, Acl]]
) -> None:
    changes = find(held, asked, settings)
    assert [("add" if each.adds else "remove", each.acl) for each in changes.listed] == expected
    assert changes.smallest == (changes.listed[0] if len(expected) == 1 else None)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (question("User:root"), "User:root is a super user. No ACL changes"),
        (question(topic=""), "Resource name should not be empty|Invalid empty resource name"),
        (question("nobody"), "Could not parse principal from `nobody`"),
        (question(operation="ANY"), "No ACL names the operation ANY"),
        (Question("User:a", None, 3, 4, "t"), "only valid name for the CLUSTER"),
        (Question("User:a", None, 3, 0, "t"), "Invalid resourceType UNKNOWN"),
    ],
)
def test_impossible_changes_have_a_reason(asked: Question, reason: str) -> None:
    settings = AuthorizerSettings(frozenset({"User:root"}))
    changes = find([acl("User:*", "ALL", topic="zz")], asked, settings)
    assert changes.listed == ()
    assert changes.reason is not None
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(changes.reason)


def test_effects_on_other_principals_are_told() -> None:
    opened = find([acl(deny=True)], question(), OPEN)
    assert opened.effects == (
        "The ACL that is removed also denies other hosts.",
        "Then no ACL matches topic `t`, so allow.everyone.if.no.acl.found allows every principal"
        " everything on it.",
    )
    closed = find([], question(), OPEN)
    assert closed.effects == (
        "Then an ACL matches topic `t`, so allow.everyone.if.no.acl.found no longer allows every"
        " principal everything on it.",
    )


@pytest.mark.parametrize(
    ("denial", "asked", "effects"),
    [
        (acl(host=HOST, deny=True), question(), ()),
        (acl(host=HOST, deny=True), question(host=None), ()),
        (acl(deny=True), question(host=None), ()),
        (acl("User:*", host=HOST, deny=True), question(), ("principals",)),
        (acl("User:a", "ALL", host=HOST, deny=True), question(), ("operations",)),
        (acl(host=HOST, pattern="PREFIXED", deny=True), question(), ("resources",)),
        (acl(host=HOST, topic="*", deny=True), question(), ("resources",)),
    ],
)
def test_denials_that_other_questions_lose_are_told(
    denial: Acl, asked: Question, effects: tuple[str, ...]
) -> None:
    expected = tuple(f"The ACL that is removed also denies other {noun}." for noun in effects)
    assert find([acl(), denial], asked).effects == expected


def test_many_denials_are_counted_but_not_listed() -> None:
    denials = [acl(deny=True, host=f"10.0.{n // 250}.{n % 250}") for n in range(1000)]
    changes = find([acl(), *denials], question(host=None))
    assert len(changes.listed) == 100
    assert changes.left_out == 900
    assert changes.smallest is None
    everywhere = [acl(deny=True, topic="t" * n, pattern="PREFIXED") for n in range(1, 200)]
    changes = find([*denials, *everywhere], question(host=None, topic="t" * 200))
    assert len(changes.listed) == 101
    assert changes.left_out == 99
    assert changes.listed[-1] == AclChange(True, acl(topic="t" * 200))


@pytest.mark.parametrize(
    ("held", "effects"),
    [
        ([acl(deny=True, host="10.0.0.7")],
         ("It stays denied from 10.0.0.7, which an ACL denies by itself: to allow it from there"
          " as well, ask again with this host.",)),
        ([acl(deny=True, host=host) for host in ("10.0.0.7", "10.0.0.8")],
         ("It stays denied from 10.0.0.7 and others, which 2 ACLs deny by themselves: to allow"
          " it from one of them as well, ask again with this host.",)),
        ([acl(deny=True)], ()),
    ],
)  # fmt: skip
def test_hosts_that_stay_denied_are_told(held: list[Acl], effects: tuple[str, ...]) -> None:
    assert find(held, question(host=None)).effects == effects


def test_search_for_allows_of_single_hosts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound, a DENY is proposed, which gives the other answer in any case."""
    monkeypatch.setattr(authorizerd.acl.explanation.changes, "HOSTS_SEARCHED_MAX", 50)
    others = [acl(host=f"10.0.0.{number}", topic="u") for number in range(51)]
    assert find([acl(), *others], question(host=None)).listed == (AclChange(True, acl(deny=True)),)
    assert find([acl(), *others[1:]], question(host=None)).listed == (AclChange(False, acl()),)
