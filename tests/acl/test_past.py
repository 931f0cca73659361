"""Undone changes lead back to the state before them, and to the changes of an answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.errors import PastMismatchError
from authorizerd.acl.model import Acl, AclAdded, ChangeBatch, Question
from authorizerd.acl.past import AnswerChange, PastChange, find_answer_changes, undo_changes
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes, at_offset
from tests.acl.questions import questions
from tests.support.acls import acl, question, snapshot_after, snapshot_of
from tests.support.strategies import logs

NO_SETTINGS = AuthorizerSettings()


def past_of(log: list[ChangeBatch]) -> list[PastChange]:
    """Return the changes of a log, each with its ACL."""
    acls: dict[bytes, Acl] = {}
    changes: list[PastChange] = []
    for batch in log:
        for change in batch.changes:
            is_added = isinstance(change, AclAdded)
            if isinstance(change, AclAdded):
                acls[change.id] = change.acl
            found = acls[change.id]
            changes.append(PastChange(batch.last_offset, 0, is_added, change.id, found))
    return changes


def change(number: int, added: Acl, *, offset: int = 1, is_added: bool = True) -> PastChange:
    return PastChange(offset, 0, is_added, number.to_bytes(16, "big"), added)


def undo(snapshot: AclSnapshot, changes: list[PastChange], offset: int) -> AclSnapshot:
    return undo_changes(snapshot, changes, offset)


@given(logs(unknown_codes=True))
def test_undone_changes_lead_back_to_each_state(log: list[ChangeBatch]) -> None:
    """The index is equal too, also for ACLs with unknown codes."""
    newest = snapshot_after(log)
    changes = past_of(log)
    for number in range(len(log) + 1):
        before = snapshot_after(log[:number])
        later = [each for each in changes if each.offset > before.offset]
        assert undo(newest, later, before.offset) == before


def test_undoing_shares_what_has_not_changed() -> None:
    """The newest snapshot stays as it is."""
    one, other = acl("User:a", topic="t"), acl("User:b", group="g")
    newest = snapshot_of(one, other)
    before = undo(newest, [change(2, other)], 7)
    assert before.offset == 7
    assert before.types[one.resource_type] is newest.types[one.resource_type]
    assert newest == snapshot_of(one, other)


@pytest.mark.parametrize(
    "unfit",
    [
        change(9, acl(topic="t")),
        change(1, acl(topic="other")),
        change(1, acl(topic="t"), is_added=False),
        change(9, acl(topic="t"), is_added=False),
    ],
    ids=["unknown id", "other binding", "present id", "present binding"],
)
def test_change_that_does_not_fit_is_an_error(unfit: PastChange) -> None:
    """The log then belongs to another state, and the answer would be wrong."""
    with pytest.raises(PastMismatchError, match="the change at offset 1 cannot be undone"):
        undo(snapshot_of(acl(topic="t")), [unfit], 0)


def replayed_answer_changes(
    log: list[ChangeBatch], settings: AuthorizerSettings, asked: Question
) -> list[tuple[int, bool]]:
    """Return the offset and the answer wherever the answer changes, by a plain replay."""
    found: list[tuple[int, bool]] = []
    snapshot = EMPTY_SNAPSHOT
    last = is_allowed(snapshot, settings, asked)
    for batch in log:
        snapshot = at_offset(apply_changes(snapshot, batch.changes), batch.last_offset)
        allowed = is_allowed(snapshot, settings, asked)
        if allowed != last:
            found.append((batch.last_offset, allowed))
        last = allowed
    return found


def is_allowed(snapshot: AclSnapshot, settings: AuthorizerSettings, asked: Question) -> bool:
    return authorize(
        snapshot, settings, asked.principal, asked.host, asked.operation, asked.resource_type,
        asked.resource_name,
    )  # fmt: skip


@given(
    logs(unknown_codes=True),
    st.sampled_from([NO_SETTINGS, AuthorizerSettings(allow_everyone_if_no_acl_found=True)]),
    questions(),
)
def test_answer_changes_equal_those_of_a_replay(
    log: list[ChangeBatch], settings: AuthorizerSettings, asked: Question
) -> None:
    """The change that made the difference is one of the batch where the answer changed."""
    changes = past_of(log)
    found = find_answer_changes(snapshot_after(log), settings, asked, changes)
    assert all(each.change in changes for each in found)
    shown = [(each.change.offset, each.allowed) for each in reversed(found)]
    assert shown == replayed_answer_changes(log, settings, asked)


def test_change_that_made_the_difference_is_named() -> None:
    """Of a batch, it is the last one without which the answer would be another."""
    grant, other = acl(topic="t"), acl("User:b", topic="t")
    denial = acl(deny=True, topic="t")
    log = [
        change(1, grant),
        change(2, other),
        change(3, denial, offset=2),
        change(4, acl(topic="*", deny=True), offset=2),
        change(3, denial, offset=3, is_added=False),
        change(4, acl(topic="*", deny=True), offset=4, is_added=False),
    ]
    found = find_answer_changes(snapshot_of(grant, other), NO_SETTINGS, question(topic="t"), log)
    assert found == (
        AnswerChange(log[5], True),
        AnswerChange(log[2], False),
        AnswerChange(log[0], True),
    )


def test_id_of_another_acl_is_undone_too() -> None:
    """An id may first belong to an ACL of the question, and then to another one."""
    grant, other = acl(topic="t"), acl("User:b", topic="u")
    log = [change(1, grant), change(1, grant, offset=2, is_added=False), change(1, other, offset=2)]
    found = find_answer_changes(snapshot_of(other), NO_SETTINGS, question(topic="t"), log)
    assert found == (AnswerChange(log[1], False), AnswerChange(log[0], True))
