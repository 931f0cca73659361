"""The shape of an audit line: Kafka's own, or JSON.

Law: one event is one line. A line break within a name would forge a line of its own, so it is
escaped; otherwise Kafka's format is what a broker's log4j layout ``[%d] %p %m (%c)%n`` writes.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Final

import msgspec

from acl.audit import LOGGER_NAME, audit_message
from acl.audit_mask import Masker
from acl.decision import MatchingAcl
from acl.model import Operation, ResourceType
from actors.audit_log import AuditEvent
from config.values import AuditFormat

JSON_VERSION: Final = 1
"""Raised when a field goes or means something else; new ones may come under the same version."""

_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    0x85: "\\x85",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def format_kafka(event: AuditEvent) -> bytes:
    """Return the line as a broker writes it; the time is local, in milliseconds.

    A sampled line says its rate behind the logger, where a log4j layout may say anything.
    """
    message = audit_message(
        event.question, event.decision, event.request_name, event.resource_reference_count
    )
    if not message.isprintable():
        message = message.translate(_CONTROLS)
    seconds, milliseconds = divmod(int(event.time_s * 1000), 1000)
    line = (
        f"[{_local_time(seconds)},{milliseconds:03d}] {event.level.name} {message} ({LOGGER_NAME})"
    )
    if event.sample_rate < 1:
        line = f"{line} [sampleRate={event.sample_rate:g}]"
    return line.encode("utf-8", "backslashreplace")


@lru_cache(maxsize=4)
def _local_time(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


@lru_cache(maxsize=4)
def _utc_time(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


class _AuditRecord(msgspec.Struct, gc=False):
    version: int
    time: str
    level: str
    principal: str
    allowed: bool
    operation: str
    host: str | None
    resource_type: str
    resource_name: str
    request: str
    resource_reference_count: int
    rule: str
    acl: str | None
    offset: int
    sample_rate: float
    masked: tuple[str, ...]


_encode: Final = msgspec.json.Encoder().encode


def format_json(event: AuditEvent, masked: tuple[str, ...] = ()) -> bytes:
    """Return the event as one JSON object; the time is UTC, in milliseconds.

    Args:
        masked: which of principal, host and resource are not what was asked.
    """
    question, rule = event.question, event.decision.rule
    seconds, milliseconds = divmod(int(event.time_s * 1000), 1000)
    is_acl = isinstance(rule, MatchingAcl)
    return _encode(
        _AuditRecord(
            version=JSON_VERSION,
            time=f"{_utc_time(seconds)}.{milliseconds:03d}Z",
            level=event.level.name,
            principal=question.principal,
            allowed=event.decision.allowed,
            operation=Operation.read(question.operation).name,
            host=question.host,
            resource_type=ResourceType.read(question.resource_type).name,
            resource_name=question.resource_name,
            request=event.request_name,
            resource_reference_count=event.resource_reference_count,
            rule="MatchingAcl" if is_acl else str(rule),
            acl=str(rule.acl) if isinstance(rule, MatchingAcl) else None,
            offset=event.offset,
            sample_rate=event.sample_rate,
            masked=masked,
        )
    )


def mask(event: AuditEvent, masker: Masker) -> AuditEvent:
    """Return the event without the names that are to be hidden."""
    return msgspec.structs.replace(
        event,
        question=masker.question(event.question),
        decision=masker.decision(event.decision),
    )


class AuditFormatter:
    """Args:
    masker: None where nothing is hidden; it may be replaced by one with another secret.
    """

    def __init__(self, format: AuditFormat, masker: Masker | None) -> None:
        self._is_json: Final = format is AuditFormat.JSON
        self.masker = masker

    def __call__(self, event: AuditEvent) -> bytes:
        """Return the event's line, without its end."""
        masked: tuple[str, ...] = ()
        if self.masker is not None:
            event, masked = mask(event, self.masker), self.masker.masked
        return format_json(event, masked) if self._is_json else format_kafka(event)
