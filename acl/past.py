"""The ACLs of an earlier moment: the newest snapshot with the later changes undone.

**Invariant:** the result equals a replay of the log that stops there. It shares every unchanged
part with the newest snapshot, and its cost grows only with the number of later changes. A change
that does not fit the state is an error, because the log then belongs to another state.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, is_allowed
from authorizerd.acl.errors import PastMismatchError
from authorizerd.acl.model import WILDCARD_PRINCIPAL, Acl, AclAdded, AclRemoved, Question
from authorizerd.acl.patterns import matches
from authorizerd.acl.snapshot import AclSnapshot, apply_changes, at_offset
from authorizerd.image.errors import ChangeError


class PastChange(msgspec.Struct, frozen=True, gc=False):
    """An ACL that was added or removed, as a whole.

    Attributes:
        offset: the first offset as of which the change is visible: the last one of its batch.
        time_ms: the time of that batch, in milliseconds since 1970.
        id: the ACL's 16-byte uuid.
    """

    offset: int
    time_ms: int
    is_added: bool
    id: bytes
    acl: Acl


class AnswerChange(msgspec.Struct, frozen=True, gc=False):
    """A change that reversed an answer, and the answer from then on."""

    change: PastChange
    allowed: bool


def undo_changes(snapshot: AclSnapshot, changes: Sequence[PastChange], offset: int) -> AclSnapshot:
    """Return the snapshot at ``offset``, before ``changes``.

    Args:
        changes: all changes after ``offset`` that ``snapshot`` has, in log order.

    Raises:
        PastMismatchError: a change does not fit the state.
    """
    for change in reversed(changes):
        snapshot = undo_change(snapshot, change)
    return at_offset(snapshot, offset)


def undo_change(snapshot: AclSnapshot, change: PastChange) -> AclSnapshot:
    """Return the snapshot before one change; see ``undo_changes``."""
    if not change.is_added:
        try:
            return apply_changes(snapshot, [AclAdded(change.id, change.acl)])
        except ChangeError as error:
            raise _mismatch(change, str(error)) from error
    if snapshot.acls.get(change.id) != change.acl:
        raise _mismatch(change, "the newest state does not have the ACL that it added")
    return apply_changes(snapshot, [AclRemoved(change.id)])


def redo_change(snapshot: AclSnapshot, change: PastChange) -> AclSnapshot:
    """Return the snapshot after one change. The offset stays the same.

    Raises:
        ChangeError: the change does not fit.
    """
    made = AclAdded(change.id, change.acl) if change.is_added else AclRemoved(change.id)
    return apply_changes(snapshot, [made])


def _mismatch(change: PastChange, reason: str) -> PastMismatchError:
    return PastMismatchError(f"the change at offset {change.offset} cannot be undone: {reason}")


def concerns(acl: Acl, question: Question, settings: AuthorizerSettings) -> bool:
    """Return True if a change of ``acl`` may change the answer to ``question``.

    With allow.everyone.if.no.acl.found, any ACL whose pattern matches the resource may.
    """
    return (
        acl.resource_type == question.resource_type
        and (
            settings.allow_everyone_if_no_acl_found
            or acl.principal in (question.principal, WILDCARD_PRINCIPAL)
        )
        and matches(acl.pattern_type, acl.resource_name, question.resource_name)
    )


def find_answer_changes(
    snapshot: AclSnapshot,
    settings: AuthorizerSettings,
    question: Question,
    changes: Sequence[PastChange],
) -> tuple[AnswerChange, ...]:
    """Return each change that reversed an answer, the newest first.

    Changes of one batch are visible together. If a batch changes the answer, its last change that
    does so counts.

    Args:
        snapshot: the state after ``changes``.
        changes: all changes of a span of the log, in log order.

    Raises:
        PastMismatchError: see ``undo_changes``.
        InvalidQuestionError: the principal is ``User:*``.
    """
    concerning = _select(changes, question, settings)
    found: list[AnswerChange] = []
    after = is_allowed(snapshot, settings, question)
    for _, batch in groupby(reversed(concerning), key=attrgetter("offset")):
        before, last = after, after
        deciding = None
        for change in batch:
            snapshot = undo_change(snapshot, change)
            before = is_allowed(snapshot, settings, question)
            if before != last:
                last = before
                deciding = deciding or change
        if before != after:
            assert deciding is not None, "an answer changes only at a change"
            found.append(AnswerChange(deciding, after))
        after = before
    return tuple(found)


def _select(
    changes: Sequence[PastChange], question: Question, settings: AuthorizerSettings
) -> list[PastChange]:
    """Return the changes that concern the question, and those of other ACLs with their ids.

    Without the latter, an id that was reused for another ACL could not be undone.
    """
    ids = {change.id for change in changes if concerns(change.acl, question, settings)}
    return [change for change in changes if change.id in ids]
