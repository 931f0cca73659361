"""The AuditLog: decisions in, lines out, in order.

Invariant: it never slows a decision and never grows without bound. What finds the queue full is
dropped and counted; what the writer could not write is counted the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
import trio

from acl.audit import AuditLevel, audit_level
from acl.decision import Decision
from acl.model import Question

EVENTS_PER_SLICE: Final = 256
EVENTS_PER_WRITE_MAX: Final = 4096


class AuditEvent(msgspec.Struct, frozen=True, gc=False):
    """One decision to be logged; ``time_s`` is seconds since 1970, ``offset`` the snapshot's."""

    time_s: float
    level: AuditLevel
    question: Question
    decision: Decision
    request_name: str
    offset: int
    resource_reference_count: int = 1


class AuditWriter(Protocol):
    """Where lines go."""

    async def write(self, lines: Sequence[bytes]) -> None:
        """Write lines, each without its end.

        Raises:
            OSError: nothing, or not all, could be written.
        """


@dataclass(slots=True)
class AuditStatistics:
    written: int = 0
    dropped: int = 0


class AuditLog:
    def __init__(
        self,
        writer: AuditWriter,
        *,
        level: AuditLevel,
        format_event: Callable[[AuditEvent], bytes],
        events_max: int,
        on_failure: Callable[[OSError], None],
    ) -> None:
        self._writer = writer
        self.level = level
        self._format_event = format_event
        self._events_max = events_max
        self._on_failure = on_failure
        self._events: deque[AuditEvent] = deque()
        self._arrived = trio.Event()
        self._closing = False
        self.statistics: Final = AuditStatistics()

    def level_of(
        self, allowed: bool, log_if_allowed: bool = True, log_if_denied: bool = True
    ) -> AuditLevel | None:
        """Return the level at which a decision is to be logged, None where it is not."""
        level = audit_level(allowed, log_if_allowed, log_if_denied)
        return level if level >= self.level else None

    def record(self, event: AuditEvent) -> None:
        """Queue ``event``; never blocks."""
        if self._closing or len(self._events) >= self._events_max:
            self.statistics.dropped += 1
            return
        self._events.append(event)
        if len(self._events) == 1:
            self._arrived.set()

    def close(self) -> None:
        """Let ``run`` end once it has written what is queued."""
        self._closing = True
        self._arrived.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write what is recorded until ``close`` is called; cancellation loses what is queued."""
        task_status.started()
        while True:
            await self._arrived.wait()
            self._arrived = trio.Event()
            while self._events:
                await self._write_some()
            if self._closing:
                return

    async def _write_some(self) -> None:
        """Format in slices what is queued, and write it all at once.

        A write waits for a thread that waits for the interpreter: while the loop is busy that
        takes several of its turns, however little is written.
        """
        lines: list[bytes] = []
        while self._events and len(lines) < EVENTS_PER_WRITE_MAX:
            size = min(len(self._events), EVENTS_PER_SLICE)
            lines += [self._format_event(self._events.popleft()) for _ in range(size)]
            await trio.lowlevel.checkpoint()
        try:
            await self._writer.write(lines)
        except OSError as error:
            self.statistics.dropped += len(lines)
            self._on_failure(error)
        else:
            self.statistics.written += len(lines)
