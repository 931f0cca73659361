"""Notes: ACLs that allow and deny nothing, and keep what Kafka has no place for.

A note is in the cluster's metadata like any ACL. So it is written in the same atomic request as the
ACLs that it is about, and every broker, daemon, backup and admin client has the same notes. Its
resource name has a kind and fields, such as
``authorizerd-grant?id=…&end=2026-12-01T10%3A00%3A00Z``.

**Invariant:** a note affects no decision. It denies one operation on a delegation token that cannot
exist, to a principal that no client can have. A text that begins like a note but cannot be read is
an error, and never counts as missing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import quote, unquote_to_bytes

import msgspec

from authorizerd.acl.errors import AclError
from authorizerd.acl.model import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.snapshot import AclSnapshot, contains

NOTE_PRINCIPAL: Final = "Authorizerd:note"
NAME_BYTES_MAX: Final = 32_767
"""The maximum length of a resource name in a request to Kafka."""

_PREFIX: Final = "authorizerd-"


class NoteError(AclError):
    """A note that cannot be made or read. The text says why, and names the note."""


class Note(msgspec.Struct, frozen=True):
    """The content of a note. A field's name consists of lower-case letters and underscores."""

    kind: str
    fields: Mapping[str, str]


def is_note(acl: Acl) -> bool:
    """Return True if an ACL is a note, readable or not."""
    return acl.principal == NOTE_PRINCIPAL


def make_note(note: Note, *, room: int = 0) -> Acl:
    """Return the ACL of a note. The same content always gives the same ACL.

    Args:
        room: how many bytes must be left for what may be added to the note later.

    Raises:
        NoteError: the content is longer than a name in Kafka may be, or is not text.
    """
    try:
        fields = "&".join(f"{key}={quote(value, safe='')}" for key, value in note.fields.items())
    except UnicodeEncodeError as error:
        raise NoteError(f"a note of the kind {note.kind} cannot be made: {error.reason}") from error
    name = f"{_PREFIX}{note.kind}?{fields}"
    length = len(name) + room
    if length > NAME_BYTES_MAX:
        raise NoteError(
            f"a note of the kind {note.kind} would have {length} bytes, and Kafka accepts "
            f"{NAME_BYTES_MAX}: use shorter texts"
        )
    return name_note(name)


def read_note(acl: Acl) -> Note:
    """Return the content of a note.

    Raises:
        NoteError: the ACL has the principal of notes, but not exactly the form of one.
    """
    kind, mark, text = acl.resource_name.removeprefix(_PREFIX).partition("?")
    fields: dict[str, str] = {}
    try:
        for pair in text.split("&"):
            key, equals, value = pair.partition("=")
            if not equals or key in fields:
                raise ValueError(key)
            fields[key] = unquote_to_bytes(value).decode()
        note = Note(kind, fields)
        if not mark or make_note(note) != acl:
            raise ValueError(kind)
    except (ValueError, NoteError):
        raise NoteError(
            f"this note cannot be read, and was ignored: {acl}: a later version of authorizerd may "
            "have written it; if not, delete it"
        ) from None
    return note


def list_notes(snapshot: AclSnapshot) -> list[Acl]:
    """Return the notes in a snapshot. The cost grows with their number only."""
    index = snapshot.types[ResourceType.DELEGATION_TOKEN]
    return [note for note in map(name_note, list_note_names(snapshot)) if contains(index, note)]


def list_note_names(snapshot: AclSnapshot) -> Collection[str]:
    """Return the names that notes may have. It is the same object while no note changes.

    A name may also be that of another ACL of the principal of notes: look the note up.
    """
    rules = snapshot.types[ResourceType.DELEGATION_TOKEN].principals.get(NOTE_PRINCIPAL)
    return () if rules is None else rules.any_host.literals


def name_note(name: str) -> Acl:
    """Return the ACL of the note with this resource name, readable or not."""
    return Acl(
        ResourceType.DELEGATION_TOKEN,
        name,
        PatternType.LITERAL,
        NOTE_PRINCIPAL,
        WILDCARD,
        Operation.DESCRIBE,
        PermissionType.DENY,
    )
