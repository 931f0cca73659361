"""Read requests to change ACLs from audit lines.

**Invariant:** a line gives one caller, or none; see ``parse_line`` and ``written``.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Final

import msgspec

from authorizerd.acl.audit.authors import CREATE, DELETE, HEARTBEAT, AuditedRequest
from authorizerd.acl.audit.caller import read_caller
from authorizerd.acl.audit.mask import CUT
from authorizerd.acl.audit.recorded.event import Event, Reason
from authorizerd.acl.audit.recorded.line import BYTE_ORDER_MARK, parse_line
from authorizerd.acl.audit.recorded.times import find_head
from authorizerd.acl.audit.recorded.wrapping import unwrap
from authorizerd.acl.audit.recorded.written import read_written
from authorizerd.acl.model import CLUSTER_NAME
from authorizerd.acl.text.decoding_errors import DECODING_ERRORS

_QUESTIONS: Final = ("token", "trusted")
"""How callers of decision ports are known. They ask questions, and change nothing."""
_CHANGE: Final = ("ALTER", "CLUSTER", CLUSTER_NAME)


class LineFacts(msgspec.Struct, frozen=True, gc=False):
    """Facts of a line. ``request`` is None unless it is an allowed request to change ACLs."""

    at_ms: int
    is_allowed: bool = False
    is_heartbeat: bool = False
    request: AuditedRequest | None = None


class _Caller(msgspec.Struct, frozen=True):
    caller: str | None = None
    known_by: str | None = None


_decode_caller: Final = msgspec.json.Decoder(_Caller).decode


def read_facts(line: bytes, zone: tzinfo) -> LineFacts | None:
    """Return what a line says; None if it is blank, or cannot be read.

    Args:
        zone: applies to a time without one.
    """
    parsed = parse_line(line, zone)
    if parsed is Reason.EXPLANATION:
        return _read_written(_unwrap(line), zone)
    if not isinstance(parsed, Event) or _is_hidden(parsed.principal):
        return None
    request = None
    if parsed.allowed and parsed.request in (CREATE, DELETE):
        request = _read_request(_unwrap(line), parsed)
    return LineFacts(parsed.at_ms, parsed.allowed, parsed.request == HEARTBEAT, request)


def _read_request(text: str, event: Event) -> AuditedRequest | None:
    if (event.operation, event.resource_type, event.resource_name) != _CHANGE:
        return None
    if text.startswith("{"):
        try:
            record = _decode_caller(text)
        except DECODING_ERRORS:  # Confluent's
            record = _Caller()
        known_by, caller = record.known_by, record.caller
    else:
        known_by, caller = read_caller(text)
        if not (caller or "").isprintable():
            caller = None  # it may be the principal, which the line escapes
    if known_by in _QUESTIONS:
        return None
    way = None if caller == event.principal else caller
    return AuditedRequest(event.at_ms, event.request == CREATE, event.principal, way)


def _is_hidden(principal: str) -> bool:
    """Return True if every principal of this type has the same name in the log."""
    return principal.partition(":")[2] == CUT


def _read_written(text: str, zone: tzinfo) -> LineFacts | None:
    record = read_written(text)
    head = None if record is None else find_head(record.time)
    at_ms = None if head is None else head.at_ms(zone)
    if record is None or at_ms is None or record.masked or _is_hidden(record.principal):
        return None
    way = None if record.caller == record.principal else record.caller
    creates = record.changed_by == CREATE
    request = AuditedRequest(at_ms, creates, record.principal, way, record.changed_at)
    return LineFacts(at_ms, request=request)


def _unwrap(line: bytes) -> str:
    """Return the text of a line that ``parse_line`` can read."""
    text = unwrap(line.decode().removeprefix(BYTE_ORDER_MARK).rstrip("\r\n"), None)
    assert not isinstance(text, Reason), "parse_line has unwrapped it"
    return text
