"""Parse the audit lines that this daemon writes with ``authorizerd.audit.format=json``.

**Invariant:** a line whose object lacks a required value, or has one of the wrong type, is set
aside.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Annotated

import msgspec

from authorizerd.replay.ingest.parse.event import UNKNOWN_LEVEL, Event, Reason
from authorizerd.replay.ingest.parse.times import find_head

_INT_32 = msgspec.Meta(ge=-(2**31), lt=2**31)  # the type of Kafka's count, and of the column


class _AuditRecord(msgspec.Struct, frozen=True):
    """The keys of ``daemon.audit.format`` that an event needs."""

    time: str
    principal: str
    allowed: bool
    operation: str
    resource_type: str
    resource_name: str
    level: str = UNKNOWN_LEVEL
    host: str | None = None
    request: str | None = None
    resource_reference_count: Annotated[int, _INT_32] | None = None
    rule: str | None = None
    acl: str | None = None
    masked: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(_AuditRecord)


def parse_json_line(text: str, zone: tzinfo) -> Event | Reason:
    """Return the event of an audit object; ``zone`` applies to a time without one."""
    try:
        record = _decoder.decode(text)
    except msgspec.DecodeError:
        return Reason.BAD_JSON
    if record.masked:
        return Reason.MASKED
    head = find_head(record.time)
    if head is None:
        return Reason.NO_TIME
    at_ms = head.at_ms(zone)
    if at_ms is None:
        return Reason.BAD_TIME
    return Event(
        at_ms=at_ms,
        allowed=record.allowed,
        principal=record.principal,
        host=record.host,
        operation=record.operation,
        resource_type=record.resource_type,
        resource_name=record.resource_name,
        pattern_type="LITERAL",
        request=record.request,
        reference_count=record.resource_reference_count,
        rule=record.rule if record.acl is None else f"MatchingAcl(acl={record.acl})",
        level=record.level,
    )
