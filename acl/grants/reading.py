"""All grants of a cluster, the grants of one ACL, and the words for both.

**Invariant:** a note that cannot be read is a fault, and never counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum

import msgspec

from authorizerd.acl.as_of import format_time
from authorizerd.acl.explanation.words import name_pattern, name_type
from authorizerd.acl.grants.model import KIND, Grant, read_grant_note
from authorizerd.acl.model import WILDCARD, Acl, Operation, PermissionType
from authorizerd.acl.notes import Note, NoteError, is_note, list_notes, make_note, read_note
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.text.named_acl import name_acl


class State(StrEnum):
    """What a grant is at a time. An overdue one should have begun or ended already."""

    WAITING = "waiting"
    ACTIVE = "active"
    OVERDUE = "overdue"


class GrantsRead(msgspec.Struct, frozen=True):
    """The grants of some notes, sorted by ACL and end, and a sentence for each unreadable note."""

    grants: tuple[Grant, ...] = ()
    faults: tuple[str, ...] = ()


def read_grants(acls: Iterable[Acl]) -> GrantsRead:
    """Return the grants whose notes are among these ACLs. Notes of other kinds are left out."""
    grants: list[Grant] = []
    faults: list[str] = []
    for acl in acls:
        if not is_note(acl):
            continue
        try:
            grant = read_grant_note(acl)
        except NoteError as error:
            faults.append(str(error))
        else:
            if grant is not None:
                grants.append(grant)
    grants.sort(key=_order)
    return GrantsRead(tuple(grants), tuple(sorted(faults)))


def _order(grant: Grant) -> tuple[object, ...]:
    acl = msgspec.structs.astuple(grant.acl)
    return acl, grant.end_ms, grant.is_waiting, grant.id, grant.acl_id or b""


def find_ends(snapshot: AclSnapshot, acls: Iterable[Acl]) -> dict[Acl, Grant]:
    """Return, for those of some ACLs that end, the grant that ends last.

    Only their notes are read: a note's name ends with the fields of its ACL.
    """
    ends: list[str] = []
    for acl in acls:
        with suppress(NoteError):  # an ACL that is too long for a note has none
            name = make_note(Note(KIND, msgspec.structs.asdict(name_acl(acl)))).resource_name
            ends.append(f"&{name.partition('?')[2]}")
    notes = [note for note in list_notes(snapshot) if note.resource_name.endswith(tuple(ends))]
    return {grant.acl: grant for grant in read_grants(notes).grants if not grant.is_waiting}


def follow_note(acl: Acl) -> Acl | None:
    """Return the ACL that ends, for the note of a grant; None for another note; else ``acl``."""
    if not is_note(acl):
        return acl
    return next((grant.acl for grant in read_grants([acl]).grants), None)


def join_notes(acls: Iterable[Acl]) -> list[tuple[Acl, ...]]:
    """Return each ACL with those of these notes that say when it ends; other notes alone.

    What is joined belongs in one request: otherwise, a process that ends grants sees only a part.
    """
    ordered = dict.fromkeys(acls)
    notes: dict[Acl, list[Acl]] = {}
    joined: set[Acl] = set()
    for acl in filter(is_note, ordered):
        granted = follow_note(acl)
        if granted in ordered:
            notes.setdefault(granted, []).append(acl)
            joined.add(acl)
    return [(acl, *notes.get(acl, ())) for acl in ordered if acl not in joined]


def find_state(grant: Grant, now_ms: int) -> State:
    """Return what a grant is at a time, by its note."""
    if now_ms >= grant.end_ms or (grant.is_waiting and now_ms >= grant.begin_ms):
        return State.OVERDUE
    return State.WAITING if grant.is_waiting else State.ACTIVE


def show_acl(acl: Acl) -> str:
    """Return what a note says, or else the text of an ACL."""
    return describe_note(acl) if is_note(acl) else str(acl)


def describe_note(acl: Acl) -> str:
    """Return what a note says: "note: grant of READ on topic … until …"."""
    try:
        grant, note = read_grant_note(acl), read_note(acl)
    except NoteError:
        return f"note that cannot be read: {acl}"
    return f"note of the kind {note.kind}" if grant is None else f"note: {describe_grant(grant)}"


def describe_grant(grant: Grant) -> str:
    """Return "grant of READ on topic literal `orders` to User:alice until …, by User:ops: why"."""
    begin = f" from {format_utc(grant.begin_ms)}" if grant.is_waiting else ""
    return f"grant of {describe_access(grant.acl)}{begin} {describe_end(grant)}"


def describe_access(acl: Acl) -> str:
    """Return "READ on topic literal `orders` to User:alice", with DENY and the host if need be."""
    deny = "" if acl.permission_type == PermissionType.ALLOW else "DENY "
    host = "" if acl.host == WILDCARD else f" at {acl.host}"
    pattern = f"{name_type(acl.resource_type)} {name_pattern(acl.pattern_type, acl.resource_name)}"
    return f"{deny}{Operation.read(acl.operation).name} on {pattern} to {acl.principal}{host}"


def describe_end(grant: Grant) -> str:
    """Return "until 2026-12-01 10:00 UTC, by User:ops: INC-123"."""
    reason = f": {grant.reason}" if grant.reason else ""
    return f"until {format_utc(grant.end_ms)}, by {grant.author}{reason}"


def format_utc(time_ms: int) -> str:
    """Return a time as ``2026-12-01 10:00 UTC``, with seconds if it has any."""
    day, is_time, time = format_time(time_ms - time_ms % 1000).partition("T")
    return f"{day} {time.removesuffix('.000Z').removesuffix(':00')} UTC" if is_time else day
