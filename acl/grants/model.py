"""A grant: an ACL that a note gives an end, perhaps a later begin, an author and a reason.

Until the begin, only the note exists, and it is *waiting*. At the begin, one atomic request creates
the ACL and an *active* note, and another one deletes the waiting note. At the end, one request
deletes the ACL and the note.

**Invariant:** what a note says never depends on who reads it. Times are UTC, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from authorizerd.acl.as_of import format_time, parse_as_of
from authorizerd.acl.errors import AclError
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import Note, NoteError, is_note, make_note, read_note
from authorizerd.acl.text.named_acl import NamedAcl, name_acl, parse_acl
from authorizerd.acl.validation import find_creation_fault

KIND: Final = "grant"
_ID_DIGITS: Final = 32


class Grant(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One grant, as one note records it.

    Attributes:
        id: chosen at random when the grant is made. All notes of one grant have it.
        acl: the ACL that ends.
        begin_ms: when the ACL may be used first.
        end_ms: when the ACL is deleted.
        author: who made the grant.
        reason: why, such as the number of a ticket.
        is_waiting: True until the ACL is created.
        acl_id: the ACL's uuid in the cluster's log, once somebody who reads the log has added it.
            The grant then ends only this ACL, and not an equal one that was created later.
    """

    id: str
    acl: Acl
    begin_ms: int
    end_ms: int
    author: str
    reason: str
    is_waiting: bool = False
    acl_id: bytes | None = None


def make_grant_note(grant: Grant) -> Acl:
    """Return the note of a grant. It has room for the uuid of the ACL, which is added later.

    Raises:
        NoteError: its texts are too long.
    """
    fields: dict[str, str] = {
        "id": grant.id,
        "begin": format_time(grant.begin_ms),
        "end": format_time(grant.end_ms),
        "author": grant.author,
        "reason": grant.reason,
        "state": "waiting" if grant.is_waiting else "active",
        "acl_id": "" if grant.acl_id is None else grant.acl_id.hex(),
        **msgspec.structs.asdict(name_acl(grant.acl)),
    }
    return make_note(Note(KIND, fields), room=_ID_DIGITS if grant.acl_id is None else 0)


def read_grant_note(acl: Acl) -> Grant | None:
    """Return the grant of a note, or None if it is a note of another kind.

    Raises:
        NoteError: the note cannot be read.
    """
    note = read_note(acl)
    if note.kind != KIND:
        return None
    try:
        grant = _read_fields(note.fields)
        # So a field that is unknown here, or a value in another form, is never ignored.
        is_exact = make_grant_note(grant) == acl
    except (KeyError, ValueError, AclError) as error:
        raise NoteError(_describe(acl, f": {error}")) from None
    if not is_exact:
        raise NoteError(_describe(acl, " by this version"))
    return grant


def _read_fields(fields: Mapping[str, str]) -> Grant:
    named = {name: fields[name] for name in NamedAcl.__struct_fields__}
    grant = Grant(
        id=fields["id"],
        acl=parse_acl(msgspec.convert(named, NamedAcl)),
        begin_ms=_read_time(fields["begin"]),
        end_ms=_read_time(fields["end"]),
        author=fields["author"],
        reason=fields["reason"],
        is_waiting=fields["state"] == "waiting",
        acl_id=bytes.fromhex(fields["acl_id"]) or None,
    )
    fault = find_creation_fault(grant.acl)
    if fault is not None:
        raise ValueError(fault)
    if is_note(grant.acl):
        raise ValueError("a note cannot end")
    return grant


def _read_time(text: str) -> int:
    time_ms = parse_as_of(text).time_ms
    if time_ms is None:
        raise ValueError(f"expected a time, found {text}")
    return time_ms


def _describe(acl: Acl, reason: str) -> str:
    return f"the note of a grant cannot be read{reason}, so nothing ends this grant: {acl}"
