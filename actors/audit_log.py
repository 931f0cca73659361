"""The AuditLog: it queues decisions and writes them as lines, in order.

**Invariant:** the audit log never delays a decision, and its queue is bounded. Lines that cannot be
written are kept and retried. While the queue is full, new events are dropped and counted. If the
audit is required, ``is_refusing`` tells the authorizer to refuse decisions that could not be
audited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
import trio

from authorizerd.acl.audit.caller import AuditedCaller
from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.decision import Decision
from authorizerd.acl.model import Question
from authorizerd.acl.releases import Release

EVENTS_PER_SLICE: Final = 256
BYTES_PER_SLICE: Final = 64 * 1024
"""A slice also ends after lines of this size, because clients choose how long names are."""
EVENTS_PER_WRITE_MAX: Final = 4096
BYTES_PER_WRITE_MAX: Final = 1024 * 1024
CHARACTERS_PER_EVENT: Final = 1024
"""The queue is also full once its names exceed ``events_max`` times this many characters."""
CHECK_SECONDS: Final = 1.0
"""Interval at which failed lines are retried, or the output is checked if nothing is queued."""
CLOSE_SECONDS: Final = 5.0
"""How long closing waits for the output to accept the remaining lines."""


class AuditEvent(msgspec.Struct, frozen=True, gc=False):
    """One decision to log, or one written change of ACLs.

    ``time_s`` is in seconds since 1970, ``offset`` is the log offset of the snapshot, and
    ``sample_rate`` the share of similar decisions that is logged. ``caller`` is the caller that
    asked. ``releases`` are the Kafka releases by whose rules it was decided, oldest first. For a
    written change, ``written_offset`` is the last offset of the request's changes.
    """

    time_s: float
    level: AuditLevel
    question: Question
    decision: Decision
    request_name: str
    offset: int
    resource_reference_count: int = 1
    sample_rate: float = 1.0
    caller: AuditedCaller | None = None
    releases: tuple[Release, ...] = ()
    written_offset: int | None = None


class PartialWriteError(OSError):
    """Raised if only the first ``lines_written`` lines were completely written."""

    def __init__(self, error: OSError, lines_written: int) -> None:
        super().__init__(error.errno, error.strerror or str(error))
        self.lines_written = lines_written


class AuditWriter(Protocol):
    """The output to which the audit log writes its lines."""

    async def write(self, lines: Sequence[bytes]) -> None:
        """Write lines, each without its line end.

        Without lines, check whether the output can be written.

        Raises:
            PartialWriteError: only some lines were written.
            OSError: no line was written.
        """


@dataclass(slots=True)
class AuditStatistics:
    """The counters of the audit log.

    ``dropped_queue`` counts events dropped because the queue was full or closed, ``dropped_output``
    those lost because the output failed. ``failing`` is 1 while lines cannot be written, and
    ``refusing`` while decisions are refused for that reason or because the queue is full.
    """

    written: int = 0
    dropped_queue: int = 0
    dropped_output: int = 0
    filtered: int = 0
    sampled: int = 0
    failing: int = 0
    refusing: int = 0

    @property
    def dropped(self) -> int:
        """The number of lines lost for either reason."""
        return self.dropped_queue + self.dropped_output


def _ignore(lines: int) -> None:
    return


class AuditLog:
    """Queue events, and write them in the background.

    Args:
        events_max: the maximum number of queued events. The maximum size of their names is this
            times ``CHARACTERS_PER_EVENT``.
        on_failure: called once when lines can no longer be written.
        on_recovery: called once they can be written again, with the number of lines dropped since.
        on_loss: called at the end with the number of lines never written, if any.
        events_per_slice: the number of events formatted before other tasks run.
    """

    def __init__(
        self,
        writer: AuditWriter,
        *,
        format_event: Callable[[AuditEvent], bytes],
        events_max: int,
        on_failure: Callable[[OSError], None],
        on_recovery: Callable[[int], None] = _ignore,
        on_loss: Callable[[int], None] = _ignore,
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
        # Shielded: a cancellation must not lose the lines of the current write.
        self._writing = trio.CancelScope(shield=True)
        self._dropped_before = 0
        self.statistics: Final = AuditStatistics()
        self._is_required = False
        self.is_refusing = False
        """True while decisions must be refused because they could not be audited."""

    def set_required(self, is_required: bool) -> None:
        """Make the audit required or optional, and update ``is_refusing``."""
        self._is_required = is_required
        self._update_refusing()

    def record(self, event: AuditEvent) -> None:
        """Queue ``event``, or drop and count it if the queue is full or closed. Never blocks."""
        if self._closed.is_set() or self._is_full:
            # If the output is failing, that is what filled the queue.
            if self.statistics.failing:
                self.statistics.dropped_output += 1
            else:
                self.statistics.dropped_queue += 1
            return
        self._events.append(event)
        self._characters += _characters_of(event)
        if len(self._events) == 1:  # if events were queued before, the writer is not waiting
            self._arrived.set()
        # A required audit refuses as soon as the queue is full: the next event would be dropped.
        self._update_refusing()

    @property
    def _is_full(self) -> bool:
        return len(self._events) >= self._events_max or self._characters > self._characters_max

    def _update_refusing(self) -> None:
        self.is_refusing = self._is_required and (self.statistics.failing == 1 or self._is_full)
        self.statistics.refusing = int(self.is_refusing)

    def close(self) -> None:
        """Make ``run`` end once the queue is written, or after ``CLOSE_SECONDS``."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._arrived.set()
        self._writing.deadline = trio.current_time() + CLOSE_SECONDS

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write recorded events until ``close`` is called.

        If cancelled, it closes the log, and continues to write queued events for up to
        ``CLOSE_SECONDS``. Events that remain unwritten are counted and reported to ``on_loss``.
        """
        task_status.started()
        try:
            async with trio.open_nursery() as nursery:
                # A separate task notices the cancellation, since the writing is shielded from it.
                nursery.start_soon(self._close_when_cancelled)
                with self._writing:
                    await self._write_until_closed()
                nursery.cancel_scope.cancel()
        finally:
            # However the writer ended, events recorded from now on must be dropped and counted.
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
        """Write queued events. Retry failed lines after a pause, however many events arrive."""
        while True:
            # While the output fails, new events must not cause more attempts.
            waited_for = self._closed if self.statistics.failing else self._arrived
            with trio.move_on_after(CHECK_SECONDS):
                await waited_for.wait()
            # Replace it before the write, so that a decision recorded during the write sets it.
            self._arrived = trio.Event()
            await self._write_some()
            while self._events and not self.statistics.failing:
                await self._write_some()
            if self._closed.is_set():
                return

    async def _write_some(self) -> None:
        """Format the queued events in slices. Write them, after any failed lines, in one call.

        One call, because each call waits for a thread, which waits for the interpreter lock. While
        the event loop is busy, that takes several turns of the loop, even for a small write.
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
            begun = size
            for _ in range(min(len(self._events), self._events_per_slice)):
                # Remove the event only after this: if its formatting fails, it must count as lost.
                self._lines.append(self._format_event(self._events[0]))
                self._characters -= _characters_of(self._events.popleft())
                size += len(self._lines[-1])
                if size - begun >= BYTES_PER_SLICE:
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
    # Hosts, addresses and headers are left out, because their length is bounded.
    length = len(question.principal) + len(question.resource_name)
    if event.caller is not None and event.caller.principal is not None:
        length += len(event.caller.principal)
    return length
