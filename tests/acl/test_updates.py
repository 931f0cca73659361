"""Plans. (Kafka's recorded cases pass through them in tests/actors/test_update_queue.)"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from acl.builder import build
from acl.model import Acl, AclAdded, AclFilter, AclRemoved, ChangeBatch, PatternType
from acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes
from acl.updates import plan_creations, plan_deletions
from tests.strategies import acls, logs, resource_names

Plan = TypeVar("Plan")


def finished(steps: Generator[None, None, Plan]) -> tuple[Plan, int]:
    """Return a plan and how many times its making yielded."""
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


def snapshot_of(held: set[Acl]) -> AclSnapshot:
    return build(AclAdded(n.to_bytes(16, "big"), acl) for n, acl in enumerate(held))


@given(st.sets(acls(), max_size=5), st.lists(acls(odd=True), max_size=8))
def test_a_plan_of_creations_leaves_what_was_there_and_what_is_good(
    held: set[Acl], wanted: list[Acl]
) -> None:
    """Once each, with an id each; its changes, applied, make its tail."""
    before = snapshot_of(held)
    plan, _ = finished(plan_creations(before, wanted, ids()))
    good = {acl for acl, error in zip(wanted, plan.errors, strict=True) if error is None}
    assert set(plan.tail.acls.values()) == held | good
    assert [change.acl for change in plan.changes] == list(
        dict.fromkeys(acl for acl in wanted if acl in good - held)
    )
    assert apply_changes(before, plan.changes) == plan.tail
    new_id = ids()
    assert [change.id for change in plan.changes] == [new_id() for _ in plan.changes]
    assert before == snapshot_of(held)


filters = st.builds(
    AclFilter,
    resource_name=st.none() | resource_names,
    pattern_type=st.sampled_from(list(PatternType)),
    principal=st.sampled_from([None, "User:a", "User:*"]),
    operation=st.sampled_from([0, 1, 2, 3]),
)


@given(logs(odd=True), st.lists(filters, max_size=4))
def test_a_plan_of_deletions_removes_what_any_good_filter_means(
    log: list[ChangeBatch], wanted: list[AclFilter]
) -> None:
    """Once each, and reports it by filter."""
    before = EMPTY_SNAPSHOT
    for batch in log:
        before = apply_changes(before, batch.changes)
    plan, _ = finished(plan_deletions(before, wanted))
    reported = {acl for result in plan.results for acl in result.acls}
    left = set(plan.tail.acls.values())
    assert left == set(before.acls.values()) - reported
    assert len(plan.changes) == len(set(plan.changes)) == len(before.acls) - len(left)
    assert apply_changes(before, plan.changes) == plan.tail
    assert all(isinstance(change, AclRemoved) for change in plan.changes)


def test_long_plans_are_made_in_steps() -> None:
    """Ten thousand items, or a filter over as many ACLs, never hold their caller long."""
    wanted = [Acl(2, f"t{n}", 3, "User:a", "*", 3, 3) for n in range(10_000)]
    creations, yields = finished(plan_creations(EMPTY_SNAPSHOT, wanted, ids()))
    assert yields > 100
    _, yields = finished(plan_deletions(creations.tail, [AclFilter(resource_name="t1")]))
    assert yields > 10


def test_a_request_of_too_many_bytes_is_refused_whole() -> None:
    """One request is one batch, and a batch is at most 8 MiB."""
    wanted = [Acl(2, f"{n}" + "x" * 30_000, 3, "User:a", "*", 3, 3) for n in range(300)]
    plan, _ = finished(plan_creations(EMPTY_SNAPSHOT, wanted, ids()))
    assert plan.changes == ()
    assert {str(error) for error in plan.errors} == {
        "Unable to perform excessively large batch operation."
    }
    plan, _ = finished(plan_creations(EMPTY_SNAPSHOT, wanted[:200], ids()))
    assert len(plan.changes) == 200
