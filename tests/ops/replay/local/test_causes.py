from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.decision import is_allowed
from authorizerd.acl.model import Acl, Operation, Question, ResourceType
from authorizerd.acl.releases import Release
from authorizerd.management.plan.names import parse_acl
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.local.causes import (
    OF_RESOURCE_MAX,
    ChangedAcls,
)
from authorizerd.replay.whatif.report import Detail
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.support.sizes import size
from tests.support.strategies import acls, resource_names

READ_T = Question("User:a", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "t")
ALLOW = topic_read("t")
PREFIX = topic_read("", prefixed=True, principal="User:*")
DENY = Acl(2, "t", 3, "User:a", "*", 3, 2)
DENY_ALL = Acl(2, "*", 3, "User:*", "10.0.0.1", 2, 2)
OTHERS = topic_read("t", principal="User:b")
ELSEWHERE = topic_read("u")
RANGE = replace(ALLOW, host="10.0.0.0/8")
DENY_RANGE = replace(DENY, host="10.0.0.0/8")


def change_of(question: Question, events: int, last_at: str) -> Detail:
    """Return a change of a request; the rules do not matter."""
    return Detail(
        principal=question.principal,
        host=question.host,
        operation=Operation(question.operation).name,
        resource_type=ResourceType(question.resource_type).name,
        resource_name=question.resource_name,
        events=events,
        first_at="",
        last_at=last_at,
        baseline_rule=None,
        candidate_rule="",
    )


@pytest.mark.parametrize(
    ("is_allowed", "removed", "added", "causes"),
    [
        (False, [ALLOW, OTHERS, ELSEWHERE], [], [ALLOW]),
        (False, [ALLOW, PREFIX, DENY], [], [ALLOW, PREFIX]),
        (False, [ALLOW], [DENY, DENY_ALL], [DENY, DENY_ALL]),
        (False, [], [DENY, ALLOW], [DENY]),
        # allow.everyone.if.no.acl.found no longer applies.
        (False, [], [OTHERS, ELSEWHERE], [OTHERS]),
        (True, [], [ALLOW, OTHERS], [ALLOW]),
        (True, [DENY, ALLOW], [PREFIX], [DENY, PREFIX]),
        # allow.everyone.if.no.acl.found applies again.
        (True, [OTHERS, ELSEWHERE], [], [OTHERS]),
        # By Kafka 4.4.
        (False, [RANGE, OTHERS], [], [RANGE]),
        (False, [OTHERS], [DENY_RANGE], [DENY_RANGE]),
        (True, [OTHERS], [RANGE], [RANGE]),
        (True, [DENY_RANGE, OTHERS], [], [DENY_RANGE]),
    ],
)
def test_causes_are_the_acls_that_decide(
    is_allowed: bool, removed: list[Acl], added: list[Acl], causes: list[Acl]
) -> None:
    changed = ChangedAcls(removed, added)
    found = changed.find_causes([change_of(READ_T, 7, "t")], are_allowed=is_allowed)
    assert {parse_acl(each.acl) for each in found} == set(causes)
    assert all((each.change == "delete") is (parse_acl(each.acl) in removed) for each in found)
    assert {(each.events, each.tuples, each.last_at) for each in found} == {(7, 1, "t")}


def test_range_is_no_cause_by_a_release_that_reads_none() -> None:
    changed = ChangedAcls([RANGE, ALLOW], [], (Release.KAFKA_4_3,))
    (found,) = changed.find_causes([change_of(READ_T, 1, "t")], are_allowed=False)
    assert parse_acl(found.acl) == ALLOW


def test_causes_are_summed_and_sorted() -> None:
    changed = ChangedAcls([ALLOW, ELSEWHERE], [])
    on_u = replace(READ_T, resource_name="u")
    found = changed.find_causes(
        [
            change_of(on_u, 2, "5"),
            change_of(READ_T, 1, "9"),
            change_of(Question("User:a", None, 3, 2, "t"), 5, "3"),
        ],
        are_allowed=False,
    )
    assert [(parse_acl(each.acl), each.events, each.tuples, each.last_at) for each in found] == [
        (ALLOW, 6, 2, "9"),
        (ELSEWHERE, 2, 1, "5"),
    ]


def test_acls_that_share_only_the_resource_are_limited() -> None:
    added = [topic_read("t", principal=f"User:{number}") for number in range(100)]
    found = ChangedAcls([], added).find_causes([change_of(READ_T, 1, "")], are_allowed=False)
    assert len(found) == OF_RESOURCE_MAX


def decides(index: AclIndex, question: Question) -> bool:
    return is_allowed(index.snapshot, index.settings, question)


questions = st.builds(
    Question,
    st.sampled_from(("User:a", "User:b")),
    st.sampled_from((None, "10.0.0.1", "10.0.0.2")),
    st.sampled_from((int(Operation.READ), int(Operation.DESCRIBE), int(Operation.ALTER))),
    st.sampled_from((int(ResourceType.TOPIC), int(ResourceType.GROUP))),
    resource_names,
)


@settings(max_examples=size(20, 300))
@given(
    st.lists(acls(), max_size=8, unique=True),
    st.lists(acls(), max_size=8, unique=True),
    st.lists(questions, max_size=8),
    st.booleans(),
)
def test_every_changed_decision_has_a_cause(
    before: list[Acl], after: list[Acl], asked: list[Question], allow_everyone: bool
) -> None:
    baseline, candidate = (
        AclIndex.of(acl_set_of(some, allow_everyone=allow_everyone)) for some in (before, after)
    )
    removed, added = set(before) - set(after), set(after) - set(before)
    changed = ChangedAcls(before, after)
    for question in asked:
        now = decides(candidate, question)
        if now is decides(baseline, question):
            continue
        causes = changed.find_causes([change_of(question, 1, "")], are_allowed=now)
        assert causes
        for each in causes:
            assert parse_acl(each.acl) in (removed if each.change == "delete" else added)
        # Without these changes, the decision is the old one or has other causes.
        kept = {parse_acl(each.acl) for each in causes}
        undone = (set(after) - kept) | (set(before) & kept)
        again = AclIndex.of(acl_set_of(list(undone), allow_everyone=allow_everyone))
        if decides(again, question) is now:
            rest = ChangedAcls(removed - kept, added - kept)
            assert rest.find_causes([change_of(question, 1, "")], are_allowed=now)
