"""The ACLs of a plan, changes that never allow more than both states, and their progress."""

from collections.abc import Collection, Iterator
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from authorizerd.acl.decision import AuthorizerSettings, is_allowed
from authorizerd.acl.listing import derive_id
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
    AclRequest,
    make_changes,
    split_requests,
)
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.names import has_known_codes
from authorizerd.management.plan.selector import (
    Managed,
    Selector,
    check_entry,
    describe_selector,
    manage_one,
)
from authorizerd.management.plan.state import (
    apply_request,
    change_digest,
    compare,
    digest_acls,
    digest_ids,
    find_added,
    make_states,
    skip_changes,
)
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
        Acl, st.just(ResourceType.TOPIC), st.sampled_from(("a", "ab", "*")),
        st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
        st.sampled_from(("User:a", "User:*")), st.sampled_from(("*", "10.0.0.1")),
        st.sampled_from((Operation.ALL, Operation.READ)),
        st.sampled_from((PermissionType.ALLOW, PermissionType.DENY)),
    ),
    max_size=5,
    unique=True,
)  # fmt: skip
SMALL_QUESTIONS = [
    Question(principal, "10.0.0.1", operation, ResourceType.TOPIC, name)
    for principal in ("User:a", "User:b")
    for operation in (Operation.READ, Operation.DESCRIBE)
    for name in ("a", "ab")
]
OPEN = AuthorizerSettings(allow_everyone_if_no_acl_found=True)
CLOSED = AuthorizerSettings()


def answer_at_every_moment(
    present: Collection[Acl], desired: Collection[Acl], asked: Collection[Question], acls_max: int,
    rules: AuthorizerSettings,
) -> Iterator[list[bool]]:  # fmt: skip
    """Yield the answers to each question before the plan and after each of its requests."""
    changes = make_changes(present, desired, EVERYTHING)
    snapshots = [snapshot_of(*state) for state in states(present, changes, acls_max)]
    for question in asked:
        yield [is_allowed(each, rules, question) for each in snapshots]


@settings(max_examples=size(10, 300))
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
    present: list[Acl], desired: list[Acl], asked: list[Question], acls_max: int,
    rules: AuthorizerSettings,
) -> None:  # fmt: skip
    for answers in answer_at_every_moment(present, desired, asked, acls_max, rules):
        assert answers[0] or answers[-1] or not any(answers)


@settings(max_examples=size(10, 300))
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


@pytest.mark.parametrize(("desired", "reason"), [
    ([acl("User:b")], "the plan does not manage the desired StandardAcl[resourceType=TOPIC, "),
    ([acl("User:b"), acl("User:c")], "permissionType=ALLOW], and 1 more: select it too, or "),
    ([acl("User:a", 0)], "Kafka would refuse to create the desired StandardAcl["),
    ([acl("User:a", topic="")], "Invalid empty resource name"),
])  # fmt: skip
def test_desired_acl_that_cannot_be_planned_is_named(desired: list[Acl], reason: str) -> None:
    with pytest.raises(PlanError) as caught:
        make_changes([], desired, ALICE)
    assert reason in str(caught.value)


def test_requests_are_limited_by_bytes() -> None:
    long = [acl("User:a", topic=f"{number}{'x' * 32_000}") for number in range(600)]
    requests = list(split_requests(make_changes([], long, EVERYTHING)))
    assert [len(each.acls) for each in requests] == [261, 261, 78]


POOL = [acl("User:a", topic=f"t{number}", deny=number % 2 == 0) for number in range(9)]
sets = st.sets(st.sampled_from(POOL))


def by_id(*acls: Acl) -> dict[bytes, Acl]:
    return {derive_id(each): each for each in acls}


def changes_between(before: set[Acl], after: set[Acl]) -> AclChanges:
    return make_changes(before, after, Selector(None))


@given(before=sets, after=sets)
def test_state_after_each_change_is_recognized(before: set[Acl], after: set[Acl]) -> None:
    changes = changes_between(before, after)
    states = make_states(digest_acls(before), changes)
    assert len(states) == changes.count + 1
    present = set(before)
    for made in range(changes.count + 1):
        assert states[digest_acls(present)] == made
        left = skip_changes(changes, made)
        assert left.count == changes.count - made
        assert change_digest(digest_acls(present), left) == digest_acls(after)
        for some, add in ((left.created, present.add), (left.deleted, present.discard)):
            if some:
                add(some[0])
                break


@given(before=sets, after=sets, found=sets)
def test_other_states_are_not_recognized(
    before: set[Acl], after: set[Acl], found: set[Acl]
) -> None:
    """A state is one of the plan's only if it has exactly its first changes."""
    changes = changes_between(before, after)
    made = make_states(digest_acls(before), changes).get(digest_acls(found))
    order = [*changes.created, *changes.deleted]
    expected = [
        place
        for place in range(len(order) + 1)
        if (before | set(order[:place]) & set(changes.created))
        - (set(order[:place]) & set(changes.deleted))
        == found
    ]
    assert ([] if made is None else [made]) == expected


@given(before=sets, added=sets)
def test_up_to_two_added_acls_are_found(before: set[Acl], added: set[Acl]) -> None:
    after = before | added
    new = after - before
    acls = by_id(*after)
    found = find_added(digest_acls(before), acls, digest_ids(acls))
    assert set(found) == (new if len(new) in (1, 2) else set())


def test_no_acl_is_named_if_others_are_gone() -> None:
    after = by_id(*POOL[1:5])
    assert find_added(digest_acls(POOL[:3]), after, digest_ids(after)) == []


@given(
    before=sets, after=sets, own=st.sets(st.sampled_from(POOL), min_size=1), creates=st.booleans()
)
def test_changes_of_a_request_are_told_from_those_of_others(
    before: set[Acl], after: set[Acl], own: set[Acl], creates: bool
) -> None:
    request = AclRequest("create_allow" if creates else "delete_allow", tuple(own))
    found = compare(by_id(*before), request, by_id(*after))
    assert set(found.unseen) == (own - after if creates else own & after)
    assert set(found.created) == after - before - own
    assert set(found.deleted) == before - after - own
    applied = set(apply_request(by_id(*before), request).values())
    assert applied == (before | own if creates else before - own)


ORDERS = acl("User:a", topic="orders")
ORDERS_PREFIX = acl("User:a", topic="orders", pattern="PREFIXED")
ORDERS_EU = acl("User:b", topic="orders-eu")
ORD_PREFIX = acl("User:a", topic="ord", pattern="PREFIXED")
ANY_TOPIC = acl("User:a", topic="*")
EVERYONE = acl("User:*", topic="orders")
GROUP = acl("User:a", group="orders")
ALL = (ORDERS, ORDERS_PREFIX, ORDERS_EU, ORD_PREFIX, ANY_TOPIC, EVERYONE, GROUP)
TOPIC: Final = "TOPIC"


@pytest.mark.parametrize(("entries", "managed"), [
    (None, ALL),
    ([Managed(principal="User:b")], [ORDERS_EU]),
    ([Managed(principal="User:*")], [EVERYONE]),
    ([Managed(principal_prefix="User:")], [each for each in ALL if each != EVERYONE]),
    ([Managed(resource_type="GROUP")], [GROUP]),
    ([Managed(resource_type=TOPIC, resource_name="orders")], [ORDERS, EVERYONE]),
    ([Managed(resource_type=TOPIC, resource_name="orders", pattern_type="PREFIXED")],
     [ORDERS_PREFIX]),
    ([Managed(resource_type=TOPIC, resource_name="orders", pattern_type="ANY")],
     [ORDERS, ORDERS_PREFIX, EVERYONE]),
    ([Managed(resource_type=TOPIC, resource_name="orders", pattern_type="MATCH")],
     [ORDERS, ORDERS_PREFIX, ORD_PREFIX, ANY_TOPIC, EVERYONE]),
    ([Managed(resource_type=TOPIC, resource_name_prefix="orders")],
     [ORDERS, ORDERS_PREFIX, ORDERS_EU, EVERYONE]),
    ([Managed(resource_type=TOPIC, resource_name_prefix="*")], []),
    ([Managed(resource_type=TOPIC, resource_name="*")], [ANY_TOPIC]),
    ([Managed(principal="User:b", resource_type=TOPIC, resource_name_prefix="orders")],
     [ORDERS_EU]),
    ([Managed(principal="User:b"), Managed(resource_type="GROUP")], [ORDERS_EU, GROUP]),
])  # fmt: skip
def test_selector_manages(entries: list[Managed] | None, managed: list[Acl]) -> None:
    selector = Selector(entries)
    assert [each for each in ALL if selector.manages(each)] == list(managed)


@given(acls(), acls())
def test_entry_of_one_acl_selects_only_this_acl(one: Acl, other: Acl) -> None:
    assert Selector([manage_one(one)]).manages(other) == (one == other)


@given(st.lists(acls(), max_size=4), acls())
def test_entries_add_up(listed: list[Acl], asked: Acl) -> None:
    """Exact entries share an index; the answer is that of each entry by itself."""
    entries = [Managed(principal=each.principal, host=each.host) for each in listed]
    entries += [Managed(principal_prefix=each.principal) for each in listed]
    alone = [Selector([each]).manages(asked) for each in entries]
    assert Selector(entries).manages(asked) == any(alone)


@pytest.mark.parametrize(("entry", "place", "reason"), [
    (Managed(), "manages", "expected at least one field"),
    (Managed(principal=""), "manages.principal", "expected a text, found an empty one"),
    (Managed(principal_prefix=""), "manages.principal_prefix", "found an empty one"),
    (Managed(principal="alice"), "manages.principal", "expected Type:name"),
    (Managed(principal="User:a", principal_prefix="User:"), "manages",
     "expected either principal or principal_prefix, found both"),
    (Managed(resource_name="orders"), "manages", "expected resource_type"),
    (Managed(resource_name_prefix="orders"), "manages", "expected resource_type"),
    (Managed(resource_type=TOPIC, pattern_type="ANY"), "manages", "expected resource_name"),
    (Managed(resource_type="CLUSTER", resource_name="x"), "manages.resource_name",
     "expected kafka-cluster for CLUSTER, found 'x'"),
])  # fmt: skip
def test_invalid_entry_is_rejected(entry: Managed, place: str, reason: str) -> None:
    with pytest.raises(PlanError) as caught:
        check_entry(entry)
    assert caught.value.place == place
    assert reason in caught.value.reason


def test_entries_are_described() -> None:
    entry = Managed(principal="User:a", resource_type=TOPIC)
    assert describe_selector(Selector([entry])) == ["principal=User:a, resource_type=TOPIC"]
    assert describe_selector(Selector(None)) == []
