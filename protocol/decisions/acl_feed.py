"""The texts of ``/v1/acls``, ``/v1/watch`` and ``/v1/state``: ACLs and their changes as JSON.

**Invariant:** an event with changes has an id only if it completes its batch. So a client that
resumes never misses the rest of a batch. An event is read back exactly as it was written, because
no field contains a line break.

Source: WHATWG HTML, section 9.2 (server-sent events).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from authorizerd.acl.model import Acl
from authorizerd.acl.text.named_acl import NamedAcl, name_acl
from authorizerd.protocol.decisions.past_answers import AsOfAnswer

RETRY_MS: Final = 1000
"""How long clients wait before they connect again."""

BEGIN, ACLS, SUSPENDED, RESUMED, EXPIRED, CLOSED = (
    "begin",
    "acls",
    "suspended",
    "resumed",
    "expired",
    "closed",
)


class ListedAcl(msgspec.Struct, frozen=True, gc=False):
    """One ACL of a listing. ``id`` is its Kafka uuid as Kafka's tools show it."""

    id: str
    acl: NamedAcl


class ListingBegin(msgspec.Struct, frozen=True):
    """The first line of a listing: every ACL is as of this log offset.

    ``as_of`` is present if an earlier moment was asked about.
    """

    offset: int
    as_of: AsOfAnswer | msgspec.UnsetType = msgspec.UNSET


class ListingEnd(msgspec.Struct, frozen=True):
    """The last line of a listing: how many ACLs it has."""

    count: int


class AclChangeAnswer(msgspec.Struct, frozen=True, gc=False):
    """An ACL that was added or removed."""

    change: Literal["add", "remove"]
    id: str
    acl: NamedAcl


class AclsEvent(msgspec.Struct, frozen=True):
    """Changes of one batch, in order. ``more`` is True if further changes of the batch follow."""

    offset: int
    more: bool
    changes: tuple[AclChangeAnswer, ...]


class BeginEvent(msgspec.Struct, frozen=True):
    """The changes after the offset ``after`` follow; ``offset`` is the current newest offset."""

    after: int
    offset: int


class StateEvent(msgspec.Struct, frozen=True):
    """Decisions are suspended or resume, or the watch ends; ``offset`` is the current newest
    offset."""

    offset: int
    reason: str


class StateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The state that decides now.

    Attributes:
        version: ``AclSnapshot.version`` in hexadecimal digits.
        releases: the Kafka releases whose rules decide, oldest first.
        valid_ms: for how long the state may decide without further contact; None without a limit.
    """

    offset: int
    count: int
    version: str
    releases: tuple[str, ...]
    super_users: tuple[str, ...]
    allow_everyone_if_no_acl_found: bool
    valid_ms: int | None


_encode: Final = msgspec.json.Encoder().encode


def _make_id(id: bytes) -> str:
    """Return a uuid as Kafka's Uuid.toString writes it."""
    return urlsafe_b64encode(id).rstrip(b"=").decode()


def encode_listed(id: bytes, acl: Acl) -> bytes:
    """Return the JSON of one ACL of a listing."""
    return _encode(ListedAcl(_make_id(id), name_acl(acl)))


def encode_listing_begin(
    offset: int, as_of: AsOfAnswer | msgspec.UnsetType = msgspec.UNSET
) -> bytes:
    return _encode(ListingBegin(offset, as_of))


def encode_listing_end(count: int) -> bytes:
    return _encode(ListingEnd(count))


def encode_state_answer(answer: StateAnswer) -> bytes:
    return _encode(answer)


def encode_changes(
    offset: int, changes: Iterable[tuple[bool, bytes, Acl]], *, is_last: bool
) -> bytes:
    """Return the event for changes, each given as True for an addition, its id and its ACL.

    Args:
        offset: the log offset of their batch.
        is_last: True if they complete the batch.
    """
    listed = tuple(
        AclChangeAnswer("add" if is_added else "remove", _make_id(acl_id), name_acl(acl))
        for is_added, acl_id, acl in changes
    )
    data = _encode(AclsEvent(offset, not is_last, listed))
    return _encode_event(ACLS, data, id=offset if is_last else None)


def encode_begin(after: int, offset: int) -> bytes:
    """Return the first event. Its id is ``after``: a client that gets no other event resumes
    there."""
    data = _encode(BeginEvent(after, offset))
    return _encode_retry(RETRY_MS) + _encode_event(BEGIN, data, id=after)


def encode_state(name: str, offset: int, reason: str = "") -> bytes:
    """Return an event that is not about changes: SUSPENDED, RESUMED, EXPIRED or CLOSED."""
    return _encode_event(name, _encode(StateEvent(offset, reason)))


def encode_heartbeat(offset: int | None) -> bytes:
    """Return a heartbeat. With an offset, clients resume from there."""
    return _encode_comment("heartbeat", id=offset)


def _encode_event(name: str, data: bytes, *, id: int | None = None) -> bytes:
    """Return one event.

    Args:
        data: one line of text.
        id: the position from which a client resumes after this event; None keeps the previous one.
    """
    assert not re.search(rb"[\r\n]", data), "a line break would end the field"
    return b"%bevent: %b\ndata: %b\n\n" % (_encode_id(id), name.encode(), data)


def _encode_retry(milliseconds: int) -> bytes:
    """Return the field that tells clients how long to wait before they connect again."""
    return b"retry: %d\n" % milliseconds


def _encode_comment(text: str, *, id: int | None = None) -> bytes:
    """Return a block that clients do not treat as an event. With ``id``, it moves their
    position."""
    return b": %b\n%b\n" % (text.encode(), _encode_id(id))


def _encode_id(id: int | None) -> bytes:
    return b"" if id is None else b"id: %d\n" % id
