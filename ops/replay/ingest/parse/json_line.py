"""The audit line that this daemon writes under ``authorizerd.audit.format=json``.

**Invariant:** every value that an event has is in the object and of its kind, or the line is set
aside.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Annotated

import msgspec

from authorizerd.replay.ingest.parse.event import UNKNOWN_LEVEL, Event, Reason
from authorizerd.replay.ingest.parse.times import find_head

_INT_32 = msgspec.Meta(ge=-(2**31), lt=2**31)  # what Kafka counts with, and the column holds


class _AuditRecord(msgspec.Struct, frozen=True):
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
    """Return what an audit object says; ``zone`` is that of a time without one."""
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
