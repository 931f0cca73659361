"""Plans of updates. (tests/actors/test_update_queue runs Kafka's recorded cases through them.)"""

import itertools
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl import updates
from authorizerd.acl.errors import InvalidAclError, PolicyViolationError
from authorizerd.acl.index.filter_index import FilterIndex
from authorizerd.acl.model import Acl, AclFilter, AclRemoved, ChangeBatch, PatternType
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes
from authorizerd.acl.updates import AclTail, plan_creations, plan_deletions
from tests.support.acls import acl, snapshot_after, snapshot_of
from tests.support.strategies import acls, logs, resource_names

Plan = TypeVar("Plan")


def finished(steps: Generator[None, None, Plan]) -> tuple[Plan, int]:
    """Return a plan, and the number of times that making it yielded."""
    for count in itertools.count():
        try:
            next(steps)
        except StopIteration as end:
            plan: Plan = end.value
            return plan, count
    raise AssertionError


def ids() -> Callable[[], bytes]:
    numbers = itertools.count(1)
    return lambda: b"new" + next(numbers).to_bytes(13, "big")


GOOD = acl(topic="good")


@given(st.sets(acls(), max_size=5), st.lists(acls(unknown_codes=True), max_size=8))
def test_a_plan_of_creations_adds_the_valid_acls(held: set[Acl], wanted: list[Acl]) -> None:
    """Each is added once, with a new id."""
    before = snapshot_of(*held)
    plan, _ = finished(plan_creations(AclTail(before), wanted, ids()))
    good = {each for each, error in zip(wanted, plan.result, strict=True) if error is None}
    assert set(apply_changes(before, plan.changes).acls.values()) == held | good
    assert [change.acl for change in plan.changes] == list(
        dict.fromkeys(each for each in wanted if each in good - held)
    )
    new_id = ids()
    assert [change.id for change in plan.changes] == [new_id() for _ in plan.changes]
    assert before == snapshot_of(*held)


filters = st.builds(
    AclFilter,
    resource_name=st.none() | resource_names,
    pattern_type=st.sampled_from(list(PatternType)),
    principal=st.sampled_from([None, "User:a", "User:*"]),
    operation=st.sampled_from([0, 1, 2, 3]),
)


@given(logs(unknown_codes=True), st.lists(filters, max_size=4))
def test_a_plan_of_deletions_removes_what_valid_filters_match(
    log: list[ChangeBatch], wanted: list[AclFilter]
) -> None:
    """Each is removed once, and reported for every filter that matches it."""
    before = snapshot_after(log)
    plan, _ = finished(plan_deletions(AclTail(before), wanted))
    reported = {each for result in plan.result for each in result.acls}
    left = set(apply_changes(before, plan.changes).acls.values())
    assert left == set(before.acls.values()) - reported
    assert len(plan.changes) == len(set(plan.changes)) == len(before.acls) - len(left)
    assert all(isinstance(change, AclRemoved) for change in plan.changes)


@given(
    st.sets(acls(), max_size=5),
    st.lists(st.lists(acls(), max_size=4) | st.lists(filters, max_size=2), max_size=6),
)
def test_plans_at_the_tail_equal_plans_after_the_changes_are_applied(
    held: set[Acl], requests: list[list[Acl] | list[AclFilter]]
) -> None:
    """Creations and deletions, also of what an earlier request has added or removed."""
    applied = snapshot_of(*held)
    tail, new_id = AclTail(applied), ids()
    for request in requests:
        created = [each for each in request if isinstance(each, Acl)]
        wanted = [each for each in request if isinstance(each, AclFilter)]
        if created:
            plan, _ = finished(plan_creations(tail, created, new_id))
            alone, _ = finished(plan_creations(AclTail(applied), created, ids()))
            assert [each.acl for each in plan.changes] == [each.acl for each in alone.changes]
            applied = apply_changes(applied, plan.changes)
        else:
            removal, _ = finished(plan_deletions(tail, wanted))
            same, _ = finished(plan_deletions(AclTail(applied), wanted))
            assert set(removal.changes) == set(same.changes)
            assert [set(each.acls) for each in removal.result] == [
                set(each.acls) for each in same.result
            ]
            applied = apply_changes(applied, removal.changes)
    assert {acl_id: each for chunk in tail.chunks() for acl_id, each in chunk} == dict(applied.acls)


def test_long_plans_are_made_in_steps() -> None:
    """The plans are for ten thousand creations, and for a filter over as many ACLs."""
    wanted = [acl(topic=f"t{n}") for n in range(10_000)]
    tail = AclTail(EMPTY_SNAPSHOT)
    _, yields = finished(plan_creations(tail, wanted, ids()))
    assert yields > 100
    _, yields = finished(plan_deletions(tail, [AclFilter(resource_name="t1")]))
    assert yields > 10


@pytest.mark.parametrize("text", ["resource_name", "principal", "host"])
def test_long_texts_are_planned_in_steps_of_their_own(text: str) -> None:
    wanted = [replace(GOOD, **{text: f"User:{'x' * 30_000}{n}"}) for n in range(5)]
    _, yields = finished(plan_creations(AclTail(EMPTY_SNAPSHOT), wanted, ids()))
    assert yields == 5


def test_a_request_of_too_many_bytes_is_refused_whole() -> None:
    """One request is one batch, and a batch is at most 8 MiB."""
    wanted = [acl(topic=f"{n}" + "x" * 30_000) for n in range(300)]
    plan, _ = finished(plan_creations(AclTail(EMPTY_SNAPSHOT), wanted, ids()))
    assert plan.changes == ()
    assert {str(error) for error in plan.result} == {
        "Unable to perform excessively large batch operation."
    }
    plan, _ = finished(plan_creations(AclTail(EMPTY_SNAPSHOT), wanted[:200], ids()))
    assert len(plan.changes) == 200


def loaded(count: int) -> AclSnapshot:
    return snapshot_of(*(acl(f"User:u{n % 2}", topic=f"t{n}") for n in range(count)))


def test_deletions_stop_at_the_first_removal_above_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scan ends, and nothing is removed."""
    monkeypatch.setattr(updates, "RECORDS_PER_REQUEST_MAX", 10)
    looked_up = count_look_ups(monkeypatch)
    before = loaded(1000)
    plan, _ = finished(plan_deletions(AclTail(before), [AclFilter(), AclFilter(principal="x")]))
    assert {str(each.error) for each in plan.result} == {updates.TOO_MANY_REMOVED}
    assert (plan.changes, looked_up()) == ((), 11)
    plan, _ = finished(plan_deletions(AclTail(loaded(10)), [AclFilter()]))
    assert len(plan.changes) == 10


ALL_OF_U0, ALL_OF_U1 = AclFilter(principal="User:u0"), AclFilter(principal="User:u1")
ONE_OF_U0, NOBODYS = AclFilter(resource_name="t0"), AclFilter(principal="x")
INVALID = AclFilter(operation=0)


@pytest.mark.parametrize(
    ("filters", "are_too_many"),
    [
        # Run on AclControlManager 4.3.1, with its own limit of 10,000.
        pytest.param([ALL_OF_U0], False, id="exactly the limit"),
        pytest.param([ALL_OF_U0, ONE_OF_U0], True, id="one again"),
        pytest.param([ALL_OF_U0, ALL_OF_U0], True, id="all again"),
        pytest.param([ALL_OF_U0, INVALID, ONE_OF_U0], True, id="one again after an error"),
        pytest.param([ALL_OF_U0, NOBODYS, INVALID], False, id="nothing more"),
        pytest.param([ONE_OF_U0, ALL_OF_U0], False, id="one before the rest"),
        pytest.param([ONE_OF_U0, ALL_OF_U0, ONE_OF_U0], True, id="one before and after the rest"),
        pytest.param([ONE_OF_U0, ONE_OF_U0, ALL_OF_U0], False, id="one twice before the rest"),
        pytest.param([ONE_OF_U0, ONE_OF_U0], False, id="few twice"),
        pytest.param([ALL_OF_U0, ALL_OF_U1], True, id="more than the limit"),
    ],
)
def test_deletions_that_match_after_the_last_possible_removal_are_refused_whole(
    filters: list[AclFilter], are_too_many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka counts the ACLs, but refuses any match of a filter once they are as many as allowed."""
    monkeypatch.setattr(updates, "RECORDS_PER_REQUEST_MAX", 10)
    plan, _ = finished(plan_deletions(AclTail(loaded(20)), filters))
    if are_too_many:
        assert {str(each.error) for each in plan.result} == {updates.TOO_MANY_REMOVED}
        assert plan.changes == ()
    else:
        errors = [str(each.error) for each in plan.result if each.error is not None]
        assert errors == ["Unknown entryFilter."] * filters.count(INVALID)
        assert len(plan.changes) == (10 if ALL_OF_U0 in filters else 1)


def test_deletions_that_report_too_much_are_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ACL is reported for each filter that matches it, so few removals can be many matches."""
    monkeypatch.setattr(updates, "MATCHES_PER_REQUEST_MAX", 30)
    before = loaded(10)
    same = [AclFilter()] * 3
    plan, _ = finished(plan_deletions(AclTail(before), same))
    assert [len(each.acls) for each in plan.result] == [10, 10, 10]
    assert len(plan.changes) == 10
    refused = [[*same, AclFilter(resource_name="t1")], [AclFilter()] * 4]
    monkeypatch.setattr(updates, "MATCH_BYTES_PER_REQUEST_MAX", 30 * 80)
    refused.append([AclFilter(pattern_type=number) for number in (1, 3, 2, 1)])
    for filters in refused:
        plan, _ = finished(plan_deletions(AclTail(before), filters))
        assert {type(each.error) for each in plan.result} == {PolicyViolationError}
        assert plan.changes == ()


def test_the_size_of_reported_matches_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "MATCH_BYTES_PER_REQUEST_MAX", 10_000)
    before = snapshot_of(acl(topic="t" * 6_000))
    plan, _ = finished(plan_deletions(AclTail(before), [AclFilter()]))
    assert len(plan.changes) == 1
    plan, _ = finished(
        plan_deletions(AclTail(before), [AclFilter(), AclFilter(principal="User:a")])
    )
    assert [str(each.error) for each in plan.result] == [updates.TOO_MUCH_REPORTED] * 2


def test_filters_of_many_shapes_that_match_nothing_are_looked_up_in_steps() -> None:
    """Each shape costs a lookup for each ACL, whether it matches or not."""
    filters = [
        AclFilter(*fields)
        for fields in itertools.product((2, 1), ("-",), (3, 1), ("-", None), ("-", None), (3, 1))
    ]
    _, at_rest = finished(plan_deletions(AclTail(EMPTY_SNAPSHOT), filters))
    plan, yields = finished(plan_deletions(AclTail(loaded(500)), filters))
    assert plan.changes == ()
    assert yields - at_rest >= 500 * len(filters) / 320


def test_each_acl_is_looked_up_once_for_all_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of filters take one scan. Equal filters share one result."""
    looked_up = count_look_ups(monkeypatch)
    filters = [AclFilter(resource_name=f"t{n}", principal="User:u1") for n in range(2000)]
    plan, yields = finished(plan_deletions(AclTail(loaded(500)), [*filters, *filters]))
    assert looked_up() == 500
    assert len(plan.changes) == 250
    assert yields > 4000 / 512
    assert all(one is other for one, other in zip(plan.result, plan.result[2000:], strict=False))


def count_look_ups(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a function that counts the ACLs looked up from now on."""
    looked_up: list[Acl] = []
    look_up = FilterIndex.look_up

    def counting(index: FilterIndex, acl: Acl) -> Iterator[int]:
        looked_up.append(acl)
        return look_up(index, acl)

    monkeypatch.setattr(FilterIndex, "look_up", counting)
    return lambda: len(looked_up)


def test_many_different_errors_of_creations_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every invalid item is refused, but only the first errors keep Kafka's texts."""
    monkeypatch.setattr(updates, "FAULTS_PER_REQUEST_MAX", 2)
    wanted = [acl(f"u{n % 4}") for n in range(8)]
    plan, _ = finished(plan_creations(AclTail(EMPTY_SNAPSHOT), [*wanted, GOOD], ids()))
    assert ["`u" in str(error) for error in plan.result] == [True, True, False, False] * 2 + [False]
    assert {type(error) for error in plan.result[:-1]} == {InvalidAclError}
    assert plan.result[0] is plan.result[4]
    assert plan.result[2] is plan.result[7]
    assert (plan.result[-1], len(plan.changes)) == (None, 1)
