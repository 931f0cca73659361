"""The format of an audit line: Kafka's own, or JSON.

**Invariant:** one event is one line, and no name in a line can fake another line. Characters that
break a line, control a terminal, or hide or reorder text are escaped. Otherwise, Kafka's format is
what a broker's log4j layout ``[%d] %p %m (%c)%n`` writes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final
from unicodedata import category

import msgspec

from authorizerd.acl.audit.caller import AuditedCaller, format_caller
from authorizerd.acl.audit.line import LOGGER_NAME, audit_message
from authorizerd.acl.audit.mask import Masker
from authorizerd.acl.audit.recorded.written import WrittenRecord, format_written
from authorizerd.acl.decision import get_acl
from authorizerd.acl.model import Operation, ResourceType
from authorizerd.actors.audit_log import AuditEvent
from authorizerd.config.values import AuditFormat
from authorizerd.daemon.process.utc_time import format_utc

JSON_VERSION: Final = 1
"""Incremented when a field is removed or changes its meaning, but not for new fields."""

_ESCAPED: Final = frozenset(("Cc", "Cf", "Zl", "Zp"))
"""The Unicode categories of control and format characters, and of line separators."""


_RANGES: Final = (
    *((0x0, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD)),
    *((0x70F, 0x70F), (0x890, 0x891), (0x8E2, 0x8E2), (0x180E, 0x180E), (0x200B, 0x200F)),
    *((0x2028, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB), (0x110BD, 0x110CD)),
    *((0x13430, 0x1343F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0001, 0xE007F)),
)
"""The code point ranges of these categories. Searching for them would take 0.1 s."""


def _escape_by_code(character: str) -> str:
    """Return ``\\n`` and ``\\r``, or the character's code: ``\\x9b``, ``\\u202e``."""
    if character in "\n\r":
        return "\\n" if character == "\n" else "\\r"
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_as_json(character: str) -> str:
    return f"\\u{ord(character):04x}" if character == "\x7f" else json.dumps(character)[1:-1]


def _new_table(escape: Callable[[str], str]) -> dict[int, str]:
    """Return a table for ``str.translate``. Characters that are not in it stay unchanged, at no
    cost."""
    codes = (code for first, last in _RANGES for code in range(first, last + 1))
    return {code: escape(chr(code)) for code in codes if category(chr(code)) in _ESCAPED}


KAFKA_ESCAPES: Final = _new_table(_escape_by_code)
_JSON_ESCAPES: Final = _new_table(_escape_as_json)


def format_kafka(event: AuditEvent) -> bytes:
    """Return the line as a broker writes it, with the local time to the millisecond.

    The caller and a sampled line's rate follow the logger's name, where a log4j layout may put any
    text.
    """
    if event.written_offset is None:
        message = audit_message(
            event.question, event.decision, event.request_name, event.resource_reference_count
        )
    else:
        message = format_written(event.request_name, event.written_offset, event.question.principal)
    # Few messages need escapes, and the check is cheaper than a translation.
    if not message.isprintable():
        message = message.translate(KAFKA_ESCAPES)
    seconds, milliseconds = divmod(int(event.time_s * 1000), 1000)
    line = (
        f"[{_local_time(seconds)},{milliseconds:03d}] {event.level.name} {message} ({LOGGER_NAME})"
    )
    if event.caller is not None:
        line = f"{line} {format_caller(event.caller)}"
    if event.sample_rate < 1:
        line = f"{line} [sampleRate={event.sample_rate:g}]"
    return line.encode("utf-8", "backslashreplace")


# Cached, because all lines of one second share this text.
@lru_cache(maxsize=4)
def _local_time(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


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
    caller: str | None
    known_by: str | None
    caller_address: str | None
    request_id: str | None
    traceparent: str | None
    kafka_releases: tuple[str, ...]


_encode: Final = msgspec.json.Encoder().encode
_NO_CALLER: Final = AuditedCaller("", None, "")


def format_json(event: AuditEvent, masked: tuple[str, ...] = ()) -> bytes:
    """Return the event as one JSON object, with the UTC time to the millisecond.

    Args:
        masked: which of principal, host and resource are masked.
    """
    question, rule, caller = event.question, event.decision.rule, event.caller or _NO_CALLER
    acl = get_acl(rule)
    if event.written_offset is not None:
        return _escape(
            _encode(
                WrittenRecord(
                    version=JSON_VERSION,
                    time=format_utc(event.time_s),
                    level=event.level.name,
                    changed_by=event.request_name,
                    changed_at=event.written_offset,
                    principal=question.principal,
                    host=question.host,
                    masked=masked,
                    caller=caller.principal,
                    known_by=caller.known_by or None,
                    caller_address=caller.address or None,
                )
            )
        )
    line = _encode(
        _AuditRecord(
            version=JSON_VERSION,
            time=format_utc(event.time_s),
            level=event.level.name,
            principal=question.principal,
            allowed=event.decision.allowed,
            operation=Operation.read(question.operation).name,
            host=question.host,
            resource_type=ResourceType.read(question.resource_type).name,
            resource_name=question.resource_name,
            request=event.request_name,
            resource_reference_count=event.resource_reference_count,
            rule=str(rule) if acl is None else type(rule).__name__,
            acl=None if acl is None else str(acl),
            offset=event.offset,
            sample_rate=event.sample_rate,
            masked=masked,
            caller=caller.principal,
            known_by=caller.known_by or None,
            caller_address=caller.address or None,
            request_id=caller.request_id,
            traceparent=caller.traceparent,
            kafka_releases=event.releases,
        )
    )
    return _escape(line)


def _escape(line: bytes) -> bytes:
    if line.isascii() and b"\x7f" not in line:
        return line
    text = line.decode()
    return line if text.isprintable() else text.translate(_JSON_ESCAPES).encode()


class AuditFormatter:
    """Format events as configured.

    Args:
        masker: None if nothing is masked. It may be replaced later by a masker with another secret.
    """

    def __init__(self, format: AuditFormat, masker: Masker | None) -> None:
        self._is_json: Final = format is AuditFormat.JSON
        self.masker = masker

    def __call__(self, event: AuditEvent) -> bytes:
        """Return the event's line without its line feed."""
        masked: tuple[str, ...] = ()
        masker = self.masker
        if masker is not None:
            masked = masker.masked
            event = msgspec.structs.replace(
                event,
                question=masker.question(event.question),
                decision=masker.decision(event.decision),
                caller=None if event.caller is None else masker.caller(event.caller),
            )
        return format_json(event, masked) if self._is_json else format_kafka(event)
