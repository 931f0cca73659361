"""Parse one line of a log: remove what a container runtime added, and read the rest.

**Invariant:** the result depends only on the bytes of the line, never on other lines.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from authorizerd.acl.audit.caller import is_sampled
from authorizerd.acl.audit.recorded.cloud_event import parse_cloud_event
from authorizerd.acl.audit.recorded.event import (
    LINE_BYTES_MAX,
    OF_SAMPLE,
    SEPARATOR,
    UNKNOWN_LEVEL,
    Event,
    LineFormat,
    Reason,
)
from authorizerd.acl.audit.recorded.explanations import is_explanation
from authorizerd.acl.audit.recorded.kafka_line import parse_kafka_line
from authorizerd.acl.audit.recorded.times import find_head
from authorizerd.acl.audit.recorded.wrapping import unwrap
from authorizerd.acl.audit.recorded.written import read_written
from authorizerd.acl.text.decoding_errors import DECODING_ERRORS

BYTE_ORDER_MARK: Final = "\ufeff"  # at the beginning of a file

_MATCHING: Final = "MatchingAcl"
_UNJUDGEABLE: Final = "UnjudgeableAcl"


def parse_line(
    line: bytes, zone: tzinfo, line_format: LineFormat = "auto", field: str | None = None
) -> Event | Reason | None:
    """Return the event of a line, or why there is none; None for a blank line.

    ``zone`` applies to a time without one; ``line_format`` and ``field`` are as in ``LineLayout``.
    """
    if len(line) > LINE_BYTES_MAX:
        return Reason.TOO_LONG
    try:
        text = line.decode().removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError:
        return Reason.NOT_UTF_8
    if not text.strip(" \t\r\n"):
        return None
    unwrapped = unwrap(text.rstrip("\r\n"), field)
    if isinstance(unwrapped, Reason):
        return unwrapped
    if SEPARATOR in unwrapped:
        return Reason.CONTROL_CHARACTER
    if line_format == "json" or (line_format == "auto" and unwrapped.startswith("{")):
        parsed = parse_json(unwrapped, zone)
    else:
        parsed = parse_kafka_line(unwrapped, zone)
    is_other = parsed in (Reason.NO_DECISION, Reason.BAD_JSON)
    if is_other and (is_explanation(unwrapped) or read_written(unwrapped) is not None):
        return Reason.EXPLANATION
    if isinstance(parsed, Event) and b"ample" in line and is_sampled(line) is not None:
        return replace(parsed, level=parsed.level + OF_SAMPLE)
    return parsed


_INT_32 = msgspec.Meta(ge=-(2**31), lt=2**31)  # the type of Kafka's count, and of the column


class _AuditRecord(msgspec.Struct, frozen=True):
    """The keys of ``daemon.audit.format`` that an event needs; others are ignored."""

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


_json_decoder = msgspec.json.Decoder(_AuditRecord)


def _name_rule(record: _AuditRecord) -> str | None:
    """Return the rule as it appears in Kafka's format."""
    if record.acl is None:
        return record.rule
    kind = _UNJUDGEABLE if record.rule == _UNJUDGEABLE else _MATCHING
    return f"{kind}(acl={record.acl})"


def parse_json(text: str, zone: tzinfo) -> Event | Reason:
    """Return the event of an audit object; ``zone`` applies to a time without one."""
    try:
        record = _json_decoder.decode(text)
    except DECODING_ERRORS:
        return parse_cloud_event(text, zone) or Reason.BAD_JSON
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
        rule=_name_rule(record),
        level=record.level,
    )
