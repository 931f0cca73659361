"""The log's way to standard error: a bounded queue, and a thread that writes what is in it.

**Invariant:** logging never waits for whoever reads standard error. What finds the queue full is
dropped and counted, and one line says how many were lost once lines can be written again.
"""

from __future__ import annotations

import logging
import os
import select
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Final

QUEUE_BYTES_MAX: Final = 1024 * 1024
"""How much may wait: about 10,000 lines, or 26 of the longest."""
FLUSH_SECONDS_MAX: Final = 1.0
"""How long the end of the process waits until what is queued has been written."""

Write = Callable[[bytes], int]
"""Writes some of the data, waiting if it must, and returns how much. Raises OSError."""


@dataclass(slots=True)
class LogStatistics:
    """``lines_dropped``: lines that were never written."""

    lines_dropped: int = 0


@dataclass(slots=True)
class _Lost:
    """In place of so many lines that found the queue full."""

    lines: int = 0


class LogQueue:
    """Lines that wait for a thread to write them.

    Args:
        write: called by the thread alone.
        lost_line: returns the line that says how many were dropped.
    """

    def __init__(self, write: Write, lost_line: Callable[[int], str]) -> None:
        self._write: Final = write
        self._lost_line: Final = lost_line
        self._items: deque[bytes | _Lost] = deque()
        self._size = 0
        self._unreported = 0
        self._is_idle = True
        self._changed: Final = Condition()
        self._thread: Thread | None = None
        self.statistics: Final = LogStatistics()

    def put(self, line: str) -> None:
        """Queue ``line``, which gets its line feed here, or drop it; never blocks."""
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        with self._changed:
            if self._size + len(data) > QUEUE_BYTES_MAX:
                self._note_lost()
                return
            self._items.append(data)
            self._size += len(data)
            self._is_idle = False
            if self._thread is None:
                self._thread = Thread(target=self._run, name="log writer", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds_max: float = FLUSH_SECONDS_MAX) -> bool:
        """Wait until all is written, no longer than ``seconds_max``; return whether it is."""
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
                self._size -= len(item)
                if not is_written:
                    self._unreported += 1
                    self.statistics.lines_dropped += 1

    def _note_lost(self) -> None:
        """Count a line, and keep the place in the queue where it would have been."""
        self.statistics.lines_dropped += 1
        last = self._items[-1] if self._items else None
        if not isinstance(last, _Lost):
            last = _Lost()
            self._items.append(last)
        last.lines += 1

    def _report_lost(self) -> None:
        lost = self._unreported
        if lost and self._write_whole(self._lost_line(lost).encode() + b"\n"):
            self._unreported = 0

    def _write_whole(self, data: bytes) -> bool:
        """Write ``data``; return False where standard error takes no more of it."""
        try:
            while data:
                data = data[self._write(data) :]
        except OSError:
            return False
        return True


class QueueHandler(logging.Handler):
    """Formats what is logged where it is logged, and leaves the writing to a queue."""

    def __init__(self, write: Write) -> None:
        super().__init__()
        self.queue: Final = LogQueue(write, self._lost_line)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put(self.format(record))
        except Exception:  # noqa: BLE001 - as every handler: an event that cannot be formatted
            self.handleError(record)

    def flush(self) -> None:
        """Wait for the queue, for a bounded time; ``logging`` calls this at the process's end."""
        self.queue.flush()

    def _lost_line(self, lines: int) -> str:
        text = "%d log lines were lost: standard error did not take them"
        return self.format(
            logging.LogRecord("authorizerd", logging.WARNING, __file__, 0, text, (lines,), None)
        )


def write_to(descriptor: int) -> Write:
    """Return what writes to ``descriptor``, and waits where it is open without blocking."""

    def write(data: bytes) -> int:
        while True:
            try:
                return os.write(descriptor, data)
            except BlockingIOError:
                select.select((), (descriptor,), ())

    return write
