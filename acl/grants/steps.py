"""What the grants of a cluster need at a given time: ACLs to begin, to end, and notes to replace.

Every daemon and every ``authorizerd sync`` that looks at the same ACLs at the same time finds the
same steps. So they need not agree who acts: to repeat a step changes nothing.

**Invariant:** an ACL is deleted only together with the note that gives it this end, and only at or
after the end. If its uuid is known, and is not the one that the note names, it is kept. An ACL is
created only by a waiting note, between its begin and its end, and only if it does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.model import Acl

NOTES_MAX: Final = 50
"""How many notes of one ACL go at once. More have an ACL only if somebody writes them on purpose;
they go with later steps, so that no look takes long."""
GONE: Final = "the ACL was deleted"
"""Why a note goes whose ACL does not exist."""

FindId: TypeAlias = Callable[[Acl], bytes | None]
"""Returns the uuid that an ACL has in the cluster's log now; None if there is no such ACL."""


class Step(msgspec.Struct, frozen=True):
    """One request each: first create, then delete. Either may be empty.

    Attributes:
        grant: the grant that the step is about.
        why: what the step does, for logs: ``begin``, ``end``, ``identify``, or why a note goes.
    """

    grant: Grant
    why: str
    create: tuple[Acl, ...] = ()
    delete: tuple[Acl, ...] = ()


class Steps(msgspec.Struct, frozen=True):
    """The steps of one look, and when the next one is due at the latest; None if never."""

    steps: tuple[Step, ...]
    next_ms: int | None


def find_steps(
    grants: Iterable[Grant],
    has_acl: Callable[[Acl], bool],
    now_ms: int,
    find_id: FindId | None = None,
) -> Steps:
    """Return what has to be done now.

    Args:
        grants: all readable notes of grants.
        has_acl: whether an ACL exists, in the same state as the notes.
        now_ms: a time that is believed; see ``acl.grants.clocks``.
        find_id: None if the ids of ACLs are not known, because a broker lists them.
    """
    steps: list[Step] = []
    times: list[int] = []
    by_acl = attrgetter("acl")
    for acl, theirs in groupby(sorted(grants, key=_order), by_acl):
        waiting: list[Grant] = []
        active: list[Grant] = []
        for grant in theirs:
            (waiting if grant.is_waiting else active).append(grant)
        present = has_acl(acl)
        ending = _look_at_active(active, present, now_ms, find_id)
        ends = any(step.why == "end" for step in ending)
        begun = {grant.id for grant in active}
        first: list[Step] = []
        for grant in waiting:
            times.append(grant.begin_ms)
            if len(first) < NOTES_MAX and now_ms >= min(grant.begin_ms, grant.end_ms):
                step = _look_at_waiting(grant, present or grant.id in begun, now_ms)
                if step is not None and (grant.id in begun or not ends):
                    first.append(step)  # otherwise, the next look sees the ACL gone
        # A crash before the rest must leave no waiting note of a grant that has begun.
        steps += first if len(first) == NOTES_MAX else (*first, *ending)
        times += (grant.end_ms for grant in active)
    return Steps(tuple(steps), min((each for each in times if each > now_ms), default=None))


def _order(grant: Grant) -> tuple[object, ...]:
    return (msgspec.structs.astuple(grant.acl), grant.end_ms, grant.acl_id or b"", grant.id)


def _look_at_waiting(grant: Grant, is_present: bool, now_ms: int) -> Step | None:
    note = make_grant_note(grant)
    if now_ms >= grant.end_ms:
        return Step(grant, "its end has come", delete=(note,))
    if now_ms < grant.begin_ms:
        return None
    if is_present:
        return Step(grant, "the ACL exists", delete=(note,))
    # Another uuid than that of the ACL which is created now would say that it is not the grant's.
    active = make_grant_note(replace(grant, is_waiting=False, acl_id=None))
    return Step(grant, "begin", create=(grant.acl, active), delete=(note,))


def _look_at_active(
    grants: Sequence[Grant], is_present: bool, now_ms: int, find_id: FindId | None
) -> list[Step]:
    """Return the steps for the active notes of one ACL, sorted by their ends."""
    valid: list[Grant] = []
    steps: list[Step] = []
    acl_id = find_id(grants[0].acl) if find_id is not None and grants and is_present else None
    if not is_present:
        return [_forget(grant, GONE) for grant in grants[:NOTES_MAX]]
    for grant in grants:
        if find_id is None or grant.acl_id in (None, acl_id):
            valid.append(grant)
        elif len(steps) < NOTES_MAX:
            steps.append(_forget(grant, "the ACL was made again"))
    if not valid:
        return steps
    # Notes with an earlier end stay until then: only who knows the uuids can tell that a note with
    # a later end is about this ACL.
    last = valid[-1]
    if now_ms >= last.end_ms:
        notes = tuple(map(make_grant_note, valid[-NOTES_MAX:]))
        return [*steps, Step(last, "end", delete=(last.acl, *notes))]
    if last.acl_id is None and acl_id is not None:
        known = make_grant_note(replace(last, acl_id=acl_id))
        steps.append(Step(last, "identify", create=(known,), delete=(make_grant_note(last),)))
    return steps


def _forget(grant: Grant, why: str) -> Step:
    return Step(grant, why, delete=(make_grant_note(grant),))
