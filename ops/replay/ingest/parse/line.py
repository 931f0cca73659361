"""Parse one line of a log: remove what a container runtime added, and read the rest.

**Invariant:** the result depends only on the bytes of the line, never on other lines.
"""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import Annotated, Final, Literal

import msgspec

from authorizerd.acl.decoding_errors import DECODING_ERRORS
from authorizerd.replay.ingest.parse.event import (
    LINE_BYTES_MAX,
    SEPARATOR,
    UNKNOWN_LEVEL,
    Event,
    Reason,
)
from authorizerd.replay.ingest.parse.kafka_line import parse_kafka_line
from authorizerd.replay.ingest.parse.times import find_head

LineFormat = Literal["auto", "json", "kafka"]

BYTE_ORDER_MARK: Final = "\ufeff"  # at the beginning of a file

DOCKER_JSON: Final = '{"log":'  # Docker's json-file driver writes this key first

# 2026-11-21T16:26:26.9Z stdout F {…
_cri_json: Final = re.compile(r"^[0-9T:.Z+-]+ (?:stdout|stderr) F \{")


_MATCHING: Final = "MatchingAcl"
_UNJUDGEABLE: Final = "UnjudgeableAcl"


class _DockerRecord(msgspec.Struct, frozen=True):
    """A line of Docker's json-file driver."""

    log: str
    time: str


_docker_decoder: Final = msgspec.json.Decoder(_DockerRecord)


def parse_line(
    line: bytes, zone: tzinfo, line_format: LineFormat = "auto"
) -> Event | Reason | None:
    """Return the event of a line, or why there is none; None for a blank line.

    ``zone`` applies to a time without one.
    """
    if len(line) > LINE_BYTES_MAX:
        return Reason.TOO_LONG
    try:
        text = line.decode().removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError:
        return Reason.NOT_UTF_8
    if not text.strip(" \t\r\n"):
        return None
    unwrapped = _unwrapped(text.rstrip("\r\n"))
    if isinstance(unwrapped, Reason):
        return unwrapped
    if SEPARATOR in unwrapped:
        return Reason.CONTROL_CHARACTER
    if line_format == "json" or (line_format == "auto" and unwrapped.startswith("{")):
        return parse_json(unwrapped, zone)
    return parse_kafka_line(unwrapped, zone)


def _unwrapped(text: str) -> str | Reason:
    """Return the line that Docker or CRI wrapped, or why Docker's wrapping is unreadable."""
    if text.startswith(DOCKER_JSON):
        try:
            record = _docker_decoder.decode(text)
        except DECODING_ERRORS:
            return Reason.BAD_JSON
        if not record.log.endswith("\n"):
            return Reason.PARTIAL_LINE
        inner = record.log.rstrip("\r\n")
        # Docker's time is used only if the line itself contains no time.
        return inner if inner.startswith("{") else f"{record.time} {inner}"
    # Remove CRI's prefix only before JSON: in Kafka's lines, it shows whether a line is partial.
    if _cri_json.match(text):
        return text[text.index("{") :]
    return text


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
    """Return the rule as Kafka's format has it."""
    if record.acl is None:
        return record.rule
    kind = _UNJUDGEABLE if record.rule == _UNJUDGEABLE else _MATCHING
    return f"{kind}(acl={record.acl})"


def parse_json(text: str, zone: tzinfo) -> Event | Reason:
    """Return the event of an audit object; ``zone`` applies to a time without one."""
    try:
        record = _json_decoder.decode(text)
    except DECODING_ERRORS:
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
        rule=_name_rule(record),
        level=record.level,
    )
