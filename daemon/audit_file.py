"""Where audit lines go: a file, in Kafka's own format or as JSON.

Law: one event is one line. A line break within a name would forge a line of its own, so it is
escaped; otherwise Kafka's format is what a broker's log4j layout ``[%d] %p %m (%c)%n`` writes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import msgspec
import trio

from acl.audit import LOGGER_NAME, audit_message
from acl.decision import MatchingAcl
from acl.model import Operation, ResourceType
from actors.audit_log import AuditEvent

_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    0x85: "\\x85",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def format_kafka(event: AuditEvent) -> bytes:
    """Return the line as a broker writes it; the time is local, in milliseconds."""
    message = audit_message(
        event.question, event.decision, event.request_name, event.resource_reference_count
    )
    if not message.isprintable():
        message = message.translate(_CONTROLS)
    seconds, milliseconds = divmod(int(event.time_s * 1000), 1000)
    line = (
        f"[{_local_time(seconds)},{milliseconds:03d}] {event.level.name} {message} ({LOGGER_NAME})"
    )
    return line.encode("utf-8", "backslashreplace")


@lru_cache(maxsize=4)
def _local_time(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


@lru_cache(maxsize=4)
def _utc_time(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


class _AuditRecord(msgspec.Struct, gc=False):
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


_encode: Final = msgspec.json.Encoder().encode


def format_json(event: AuditEvent) -> bytes:
    """Return the event as one JSON object; the time is UTC, in milliseconds."""
    question, rule = event.question, event.decision.rule
    seconds, milliseconds = divmod(int(event.time_s * 1000), 1000)
    is_acl = isinstance(rule, MatchingAcl)
    return _encode(
        _AuditRecord(
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
        )
    )


FORMATS: Final[dict[str, Callable[[AuditEvent], bytes]]] = {
    "kafka": format_kafka,
    "json": format_json,
}


class AuditFile:
    """An append-only file, written in a worker thread; readable by its owner and group alone."""

    def __init__(self, path: str) -> None:
        """Open the file.

        Raises:
            OSError: it cannot be opened for appending.
        """
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._limiter = trio.CapacityLimiter(1)

    async def write(self, lines: Sequence[bytes]) -> None:
        """Append lines; a cancelled write is still finished.

        Raises:
            OSError: the disk is full, or broken.
        """
        data = b"".join(line + b"\n" for line in lines)
        await trio.to_thread.run_sync(_write_all, self._file, data, limiter=self._limiter)

    def close(self) -> None:
        os.close(self._file)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
