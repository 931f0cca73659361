"""The AuditLog: decisions in, lines out, in order.

Invariant: it never slows a decision and never grows without bound. What cannot be written is kept
and tried again; what finds the queue full is dropped and counted. Where the audit is required, no
decision is made that would be: ``is_refusing`` says so before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
import trio

from authorizerd.acl.audit import AuditLevel, audit_level
from authorizerd.acl.audit_filter import NO_FILTER, AuditFilter, AuditRules, Sampler
from authorizerd.acl.decision import Decision
from authorizerd.acl.model import Question

EVENTS_PER_SLICE: Final = 256
EVENTS_PER_WRITE_MAX: Final = 4096
BYTES_PER_WRITE_MAX: Final = 1024 * 1024
CHARACTERS_PER_EVENT: Final = 1024
"""How long names may be on average if ``events_max`` events are to find room."""
CHECK_SECONDS: Final = 1.0
"""How soon a failed write is tried again, and an idle writer looks after its file."""
CLOSE_SECONDS: Final = 5.0
"""How long the end waits for whoever takes the lines."""

NO_RULES: Final = AuditRules()


class AuditEvent(msgspec.Struct, frozen=True, gc=False):
    """One decision to be logged; ``time_s`` is seconds since 1970, ``offset`` the snapshot's.

    ``sample_rate`` is the share of its like that is logged.
    """

    time_s: float
    level: AuditLevel
    question: Question
    decision: Decision
    request_name: str
    offset: int
    resource_reference_count: int = 1
    sample_rate: float = 1.0


class PartialWriteError(OSError):
    """Only the first ``lines_written`` lines are written whole."""

    def __init__(self, error: OSError, lines_written: int) -> None:
        super().__init__(error.errno, error.strerror or str(error))
        self.lines_written = lines_written


class AuditWriter(Protocol):
    """Where lines go."""

    async def write(self, lines: Sequence[bytes]) -> None:
        """Write lines, each without its end; with none of them, see whether some could be written.

        Raises:
            PartialWriteError: not all could be written; OSError: none could.
        """


@dataclass(slots=True)
class AuditStatistics:
    """``dropped_queue``: for a full queue; ``dropped_output``: for an output that was broken.

    ``failing`` is 1 while lines cannot be written.
    """

    written: int = 0
    dropped_queue: int = 0
    dropped_output: int = 0
    filtered: int = 0
    sampled: int = 0
    failing: int = 0

    @property
    def dropped(self) -> int:
        return self.dropped_queue + self.dropped_output


def _say_nothing(lines: int) -> None:
    return


class AuditLog:
    """Args:
    events_max: how many events may wait; so many times ``CHARACTERS_PER_EVENT`` their names.
    on_failure: told once when lines cannot be written any more.
    on_recovery: told when they can again, and how many were dropped meanwhile.
    on_loss: told at the end how many lines were never written, if any.
    events_per_slice: how many are formatted before others go first.
    """

    def __init__(
        self,
        writer: AuditWriter,
        *,
        level: AuditLevel,
        format_event: Callable[[AuditEvent], bytes],
        events_max: int,
        on_failure: Callable[[OSError], None],
        on_recovery: Callable[[int], None] = _say_nothing,
        on_loss: Callable[[int], None] = _say_nothing,
        rules: AuditRules = NO_RULES,
        events_per_slice: int = EVENTS_PER_SLICE,
    ) -> None:
        self._writer = writer
        self._format_event = format_event
        self._events_max = events_max
        self._events_per_slice = events_per_slice
        self._characters_max = events_max * CHARACTERS_PER_EVENT
        self._on_failure = on_failure
        self._on_recovery = on_recovery
        self._on_loss = on_loss
        self._events: deque[AuditEvent] = deque()
        self._characters = 0
        self._lines: list[bytes] = []
        self._arrived = trio.Event()
        self._closed = trio.Event()
        self._writing = trio.CancelScope(shield=True)
        self._dropped_before = 0
        self.statistics: Final = AuditStatistics()
        self.level = level
        self.allowed_rate = 1.0
        self._sampler = Sampler(self.allowed_rate)
        self._filter: AuditFilter | None
        self._is_required: bool
        self.is_refusing: bool
        """Whether nothing is to be decided now, since it could not be audited."""
        self.take_rules(rules)

    @property
    def level(self) -> AuditLevel:
        return self._level

    @level.setter
    def level(self, level: AuditLevel) -> None:
        self._level = level
        self.passes_over_allowed = level > AuditLevel.DEBUG

    def take_rules(self, rules: AuditRules) -> None:
        """Choose by other rules from now on."""
        if rules.allowed_rate != self.allowed_rate:
            self._sampler = Sampler(rules.allowed_rate)
        self._filter = None if rules.filter == NO_FILTER else rules.filter
        self.allowed_rate = rules.allowed_rate
        self._is_required = rules.is_required
        self._update_refusing()

    def level_of(
        self, allowed: bool, log_if_allowed: bool = True, log_if_denied: bool = True
    ) -> AuditLevel | None:
        """Return the level at which a decision is to be logged, None where it is not."""
        level = audit_level(allowed, log_if_allowed, log_if_denied)
        return level if level >= self._level else None

    def chooses(
        self, allowed: bool, principal: str, resource_type: int, resource_name: str
    ) -> bool:
        """Say whether the rules show a decision that the level admits; count it where not."""
        if self._filter is not None and not self._filter.lets_through(
            allowed, principal, resource_type, resource_name
        ):
            self.statistics.filtered += 1
            return False
        if allowed and self.allowed_rate < 1 and not self._sampler.takes_next():
            self.statistics.sampled += 1
            return False
        return True

    def record(self, event: AuditEvent) -> None:
        """Queue ``event``; never blocks."""
        if self._closed.is_set() or self._is_full:
            if self.statistics.failing:
                self.statistics.dropped_output += 1
            else:
                self.statistics.dropped_queue += 1
            return
        self._events.append(event)
        self._characters += _characters_of(event)
        if len(self._events) == 1:
            self._arrived.set()
        self._update_refusing()

    @property
    def _is_full(self) -> bool:
        return len(self._events) >= self._events_max or self._characters > self._characters_max

    def _update_refusing(self) -> None:
        self.is_refusing = self._is_required and (self.statistics.failing == 1 or self._is_full)

    def close(self) -> None:
        """Let ``run`` end once it has written what is queued, or has tried to for a while."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._arrived.set()
        self._writing.deadline = trio.current_time() + CLOSE_SECONDS

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write what is recorded until ``close`` is called.

        Cancelled, it closes by itself: for up to ``CLOSE_SECONDS`` it goes on writing what is
        queued. Lines that are lost even so are counted, and ``on_loss`` is told.
        """
        task_status.started()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._close_when_cancelled)
                with self._writing:
                    await self._write_until_closed()
                nursery.cancel_scope.cancel()
        finally:
            self._closed.set()
            lost = len(self._lines) + len(self._events)
            if lost:
                self.statistics.dropped_output += lost
                self._on_loss(lost)

    async def _close_when_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.close()

    async def _write_until_closed(self) -> None:
        """Write what comes; what failed is tried again after a while, however much comes."""
        while True:
            waited_for = self._closed if self.statistics.failing else self._arrived
            with trio.move_on_after(CHECK_SECONDS):
                await waited_for.wait()
            self._arrived = trio.Event()
            await self._write_some()
            while self._events and not self.statistics.failing:
                await self._write_some()
            if self._closed.is_set():
                return

    async def _write_some(self) -> None:
        """Format in slices what is queued, and write it all at once, with what is left of before.

        A write waits for a thread that waits for the interpreter: while the loop is busy that
        takes several of its turns, however little is written.
        """
        await self._format_some()
        lines = self._lines
        try:
            await self._writer.write(lines)
        except OSError as error:
            written = error.lines_written if isinstance(error, PartialWriteError) else 0
            self._lines = lines[written:]
            self._note_failure(error)
        else:
            written = len(lines)
            self._lines = []
            self._note_success()
        self.statistics.written += written

    async def _format_some(self) -> None:
        size = sum(map(len, self._lines))
        while (
            self._events and len(self._lines) < EVENTS_PER_WRITE_MAX and size < BYTES_PER_WRITE_MAX
        ):
            for _ in range(min(len(self._events), self._events_per_slice)):
                self._lines.append(self._format_event(self._events[0]))
                self._characters -= _characters_of(self._events.popleft())
                size += len(self._lines[-1])
                if size >= BYTES_PER_WRITE_MAX:
                    break
            self._update_refusing()
            await trio.lowlevel.checkpoint()

    def _note_failure(self, error: OSError) -> None:
        if not self.statistics.failing:
            self.statistics.failing = 1
            self._dropped_before = self.statistics.dropped
            self._on_failure(error)
        self._update_refusing()

    def _note_success(self) -> None:
        if self.statistics.failing:
            self.statistics.failing = 0
            self._on_recovery(self.statistics.dropped - self._dropped_before)
        self._update_refusing()


def _characters_of(event: AuditEvent) -> int:
    question = event.question
    return len(question.principal) + len(question.resource_name)
