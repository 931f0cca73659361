"""Changes: they lead to the desired ACLs, and at no moment allow more than both states."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from authorizerd.acl.decision import AuthorizerSettings, is_allowed
from authorizerd.acl.model import (
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from authorizerd.management.plan.changes import (
    STEPS,
    AclChanges,
    make_changes,
    split_requests,
)
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.names import has_known_codes
from authorizerd.management.plan.selector import Managed, Selector
from tests.acl.questions import questions
from tests.support.acls import acl, snapshot_of
from tests.support.sizes import size
from tests.support.strategies import acls

EVERYTHING = Selector(None)
ALICE = Selector([Managed(principal="User:a")])

desired_acls = st.lists(acls().filter(lambda each: each.resource_name != ""), max_size=6)
present_acls = st.lists(acls() | acls(unknown_codes=True), max_size=6, unique=True)


def states(present: Collection[Acl], changes: AclChanges, acls_max: int) -> Iterator[list[Acl]]:
    """Yield the ACLs before the changes and after each request."""
    state = dict.fromkeys(present)
    yield list(state)
    for request in split_requests(changes, acls_max=acls_max):
        for each in request.acls:
            if request.is_creation:
                assert each not in state
                state[each] = None
            else:
                del state[each]
        yield list(state)


# A world that is so small that most ACLs meet most questions, and all questions can be asked.
small_acls = st.lists(
    st.builds(
        Acl,
        st.just(ResourceType.TOPIC),
        st.sampled_from(("a", "ab", "*")),
        st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
        st.sampled_from(("User:a", "User:*")),
        st.sampled_from(("*", "10.0.0.1")),
        st.sampled_from((Operation.ALL, Operation.READ)),
        st.sampled_from((PermissionType.ALLOW, PermissionType.DENY)),
    ),
    max_size=5,
    unique=True,
)
SMALL_QUESTIONS = [
    Question(principal, "10.0.0.1", operation, ResourceType.TOPIC, name)
    for principal in ("User:a", "User:b")
    for operation in (Operation.READ, Operation.DESCRIBE)
    for name in ("a", "ab")
]
OPEN = AuthorizerSettings(allow_everyone_if_no_acl_found=True)
CLOSED = AuthorizerSettings()


def answer_at_every_moment(
    present: Collection[Acl],
    desired: Collection[Acl],
    asked: Collection[Question],
    acls_max: int,
    rules: AuthorizerSettings,
) -> Iterator[list[bool]]:
    """Yield the answers to each question before the plan and after each of its requests."""
    changes = make_changes(present, desired, EVERYTHING)
    snapshots = [snapshot_of(*state) for state in states(present, changes, acls_max)]
    for question in asked:
        yield [is_allowed(each, rules, question) for each in snapshots]


@settings(max_examples=size(20, 300))
@given(small_acls, small_acls, st.integers(1, 3), st.sampled_from((OPEN, CLOSED)))
def test_no_moment_allows_more_than_both_states(
    present: list[Acl], desired: list[Acl], acls_max: int, rules: AuthorizerSettings
) -> None:
    """Also between the requests of one step, and for the default of resources without ACLs."""
    for answers in answer_at_every_moment(present, desired, SMALL_QUESTIONS, acls_max, rules):
        assert answers[0] or answers[-1] or not any(answers)


@given(
    present_acls,
    desired_acls,
    st.lists(questions(), min_size=1, max_size=4),
    st.integers(1, 3),
    st.sampled_from((OPEN, CLOSED)),
)
def test_no_moment_allows_more_with_any_codes(
    present: list[Acl],
    desired: list[Acl],
    asked: list[Question],
    acls_max: int,
    rules: AuthorizerSettings,
) -> None:
    for answers in answer_at_every_moment(present, desired, asked, acls_max, rules):
        assert answers[0] or answers[-1] or not any(answers)


@settings(max_examples=size(20, 300))
@given(small_acls, small_acls)
def test_access_by_acls_of_both_states_is_never_interrupted(
    present: list[Acl], desired: list[Acl]
) -> None:
    for answers in answer_at_every_moment(present, desired, SMALL_QUESTIONS, 1, CLOSED):
        assert not (answers[0] and answers[-1]) or all(answers)


@given(present_acls, desired_acls, st.sampled_from((EVERYTHING, ALICE)))
def test_plan_changes_what_it_manages_and_nothing_else(
    present: list[Acl], desired: list[Acl], selector: Selector
) -> None:
    wanted = {each for each in desired if selector.manages(each)}
    kept = {each for each in present if not (selector.manages(each) and has_known_codes(each))}
    changes = make_changes(present, wanted, selector)
    *_, last = states(present, changes, 2)
    assert set(last) == wanted | kept
    assert sorted({*present, *changes.created} - {*changes.deleted}, key=astuple) == sorted(
        last, key=astuple
    )


@given(present_acls, desired_acls)
def test_plan_is_idempotent_and_its_order_is_stable(present: list[Acl], desired: list[Acl]) -> None:
    changes = make_changes(present, desired, EVERYTHING)
    assert make_changes(present[::-1], desired[::-1], EVERYTHING) == changes
    *_, last = states(present, changes, 9)
    assert make_changes(last, desired, EVERYTHING) == AclChanges()


def test_steps_are_in_the_safe_order() -> None:
    deny, allow = acl("User:a", deny=True), acl("User:b")
    old_deny, old_allow = acl("User:c", deny=True), acl("User:d")
    failing = acl("est")  # Kafka fails on it, so it denies
    changes = make_changes([failing, old_deny, old_allow], [allow, deny], EVERYTHING)
    assert [(each.step, each.acls) for each in split_requests(changes)] == [
        ("create_deny", (deny,)),
        ("create_allow", (allow,)),
        ("delete_allow", (old_allow,)),
        ("delete_deny", (old_deny, failing)),
    ]
    assert [each.is_creation for each in split_requests(changes)] == [True, True, False, False]
    assert tuple(each.step for each in split_requests(changes)) == STEPS


def test_acl_of_a_later_kafka_version_is_kept() -> None:
    """Kafka could not delete it by its code, and it never allows."""
    assert make_changes([acl("User:a", 99)], [], EVERYTHING) == AclChanges()


@pytest.mark.parametrize(
    ("desired", "reason"),
    [
        ([acl("User:b")], "the plan does not manage the desired StandardAcl[resourceType=TOPIC, "),
        ([acl("User:b"), acl("User:c")], "permissionType=ALLOW], and 1 more: select it too, or "),
        ([acl("User:a", 0)], "Kafka would refuse to create the desired StandardAcl["),
        ([acl("User:a", topic="")], "Invalid empty resource name"),
    ],
)
def test_desired_acl_that_cannot_be_planned_is_named(desired: list[Acl], reason: str) -> None:
    with pytest.raises(PlanError) as caught:
        make_changes([], desired, ALICE)
    assert reason in str(caught.value)


def test_requests_are_limited_by_bytes() -> None:
    long = [acl("User:a", topic=f"{number}{'x' * 32_000}") for number in range(600)]
    requests = list(split_requests(make_changes([], long, EVERYTHING)))
    assert [len(each.acls) for each in requests] == [261, 261, 78]
