"""States that are computed before their changes are durable."""

import pytest

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import AclRemoved, Change
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot
from authorizerd.acl.steps import finish
from authorizerd.actors.prepared_states import PreparedStates
from tests.support.log_files import added

FIRST, SECOND = (added(1),), (added(2), added(3))


def prepare(*batches: tuple[Change, ...]) -> PreparedStates:
    prepared = PreparedStates()
    finish(prepared.prepare(EMPTY_SNAPSHOT, (FIRST, *batches, SECOND)))
    return prepared


def test_states_follow_each_other() -> None:
    replaced: list[AclSnapshot] = []
    prepared = prepare()
    first = prepared.take(EMPTY_SNAPSHOT, FIRST, replaced)
    assert first == build(FIRST, -1)
    assert prepared.take(first, SECOND, replaced) == build([*FIRST, *SECOND], -1)
    assert replaced == [EMPTY_SNAPSHOT, first]


@pytest.mark.parametrize(
    ("before", "changes"), [(build([added(9)]), FIRST), (EMPTY_SNAPSHOT, (added(1), added(4)))]
)
def test_prepared_state_is_used_only_after_its_state_and_for_its_changes(
    before: AclSnapshot, changes: tuple[Change, ...]
) -> None:
    """Otherwise, everything prepared is dropped."""
    prepared = prepare()
    assert prepared.take(before, changes, []) is None
    assert prepared.take(EMPTY_SNAPSHOT, FIRST, []) is None


def test_states_of_an_append_that_was_never_committed_are_replaced() -> None:
    prepared = prepare()
    finish(prepared.prepare(EMPTY_SNAPSHOT, (SECOND,)))
    assert prepared.take(EMPTY_SNAPSHOT, SECOND, []) == build(SECOND, -1)


def test_contradiction_is_left_to_the_committed_batch() -> None:
    prepared = prepare((AclRemoved(b"x" * 16),))
    assert (first := prepared.take(EMPTY_SNAPSHOT, FIRST, [])) is not None
    assert prepared.take(first, SECOND, []) is None
