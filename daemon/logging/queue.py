"""The queue of log lines for standard error, and the thread that writes them.

**Invariant:** logging never waits for the reader of standard error. If the queue is full, lines are
dropped and counted; once lines can be written again, one line reports how many were lost.
"""

from __future__ import annotations

import logging
import math
import os
import select
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Final

QUEUE_BYTES_MAX: Final = 1024 * 1024
"""Capacity of the queue: about 10,000 lines, or 26 of the longest."""
FLUSH_SECONDS_MAX: Final = 1.0
"""How long the process waits at its end for the queued lines to be written."""
THREAD_NAME: Final = "log writer"
LINES_PER_SECOND_MAX: Final = 10
"""Maximum number of lines of one kind, so that a flood cannot fill the queue."""

Write = Callable[[bytes], int]
"""Write some of the data, waiting if necessary, and return how many bytes. Raises OSError."""


@dataclass(slots=True)
class LogStatistics:
    """``lines_dropped`` counts lines that were never written."""

    lines_dropped: int = 0


@dataclass(slots=True)
class _Lost:
    """The position in the queue where lines were dropped, and their number."""

    lines: int = 0


class LogQueue:
    """Lines that wait for a thread to write them.

    Args:
        write: called only by the thread.
        format_lost: returns the line that reports how many were dropped.
    """

    def __init__(self, write: Write, format_lost: Callable[[int], str]) -> None:
        self._write: Final = write
        self._format_lost: Final = format_lost
        self._items: deque[bytes | _Lost] = deque()
        self._size = 0
        self._unreported = 0
        self._is_idle = True
        self._changed: Final = Condition()
        self._thread: Thread | None = None
        self.statistics: Final = LogStatistics()

    def put(self, line: str) -> None:
        """Queue ``line`` with a line feed, or drop it; never blocks."""
        # A lone surrogate, from a file name for instance, must not make the line unwritable.
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        with self._changed:
            if self._size + len(data) > QUEUE_BYTES_MAX:
                self._note_lost()
                return
            self._items.append(data)
            self._size += len(data)
            self._is_idle = False
            if self._thread is None:
                self._thread = Thread(target=self._run, name=THREAD_NAME, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds_max: float = FLUSH_SECONDS_MAX) -> bool:
        """Wait at most ``seconds_max`` until all lines are written; return True if they are."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_idle, seconds_max)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_idle = not self._items
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._items))
                item = self._items.popleft()
            if isinstance(item, _Lost):
                self._unreported += item.lines
                self._report_lost()
                continue
            is_written = self._write_whole(item)
            if is_written:
                self._report_lost()
            with self._changed:
                # Do this after the write: otherwise a hanging reader would double the memory in
                # use.
                self._size -= len(item)
                if not is_written:
                    self._unreported += 1
                    self.statistics.lines_dropped += 1

    def _note_lost(self) -> None:
        """Count a dropped line, and mark its position in the queue."""
        self.statistics.lines_dropped += 1
        last = self._items[-1] if self._items else None
        if not isinstance(last, _Lost):
            last = _Lost()
            self._items.append(last)
        last.lines += 1

    def _report_lost(self) -> None:
        lost = self._unreported
        if lost and self._write_whole(self._format_lost(lost).encode() + b"\n"):
            self._unreported = 0

    def _write_whole(self, data: bytes) -> bool:
        """Write ``data``; return False if standard error cannot be written to."""
        try:
            while data:
                data = data[self._write(data) :]
        except OSError:
            return False
        return True


class QueueHandler(logging.Handler):
    """Format records in the calling thread, and leave the writing to a queue."""

    def __init__(self, write: Write) -> None:
        super().__init__()
        self.queue: Final = LogQueue(write, self._format_lost)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put(self.format(record))
        except Exception:  # noqa: BLE001 - as in every handler: the record cannot be formatted
            self.handleError(record)

    def flush(self) -> None:
        """Wait for the queue, for a bounded time; ``logging`` calls this at the process's end."""
        self.queue.flush()

    def _format_lost(self, lines: int) -> str:
        text = "%d log lines were lost: standard error was not read fast enough"
        return self.format(
            logging.LogRecord("authorizerd", logging.WARNING, __file__, 0, text, (lines,), None)
        )


class LogLimit(logging.Filter):
    """Limits the records of each kind per second, and counts dropped ones.

    The next record that passes reports how many were dropped. A kind is a logger's message before
    its arguments are inserted, so there are few kinds.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._kinds: dict[tuple[str, str], _Passed] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = self._kinds.setdefault((record.name, str(record.msg)), _Passed())
        now = self._now_s()
        if now - kind.since >= 1:
            kind.since, kind.count = now, 0
            if kind.held:
                record.msg = f"{record.msg} ({kind.held} similar lines were dropped)"
                kind.held = 0
        if kind.count >= LINES_PER_SECOND_MAX:
            kind.held += 1
            return False
        kind.count += 1
        return True


@dataclass(slots=True)
class _Passed:
    """How many records of one kind passed and were dropped. ``since`` is the start of the current
    second."""

    since: float = -math.inf
    count: int = 0
    held: int = 0


def write_to(descriptor: int) -> Write:
    """Return a function that writes to ``descriptor``, and waits if it is non-blocking."""

    def write(data: bytes) -> int:
        while True:
            try:
                return os.write(descriptor, data)
            except BlockingIOError:
                select.select((), (descriptor,), ())

    return write
