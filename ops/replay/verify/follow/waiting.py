"""Lines that were read from a log, and wait to be counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol

from authorizerd.replay.verify.follow.state import State

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""The most bytes that wait, for all files, and for all topics."""


class Line(NamedTuple):
    """A line without its newline, its number, its size in the log, and the time of its event."""

    text: bytes
    number: int
    size: int
    at_ms: int | None


class FollowedLog(ABC):
    """A file or a partition, with the lines that wait.

    Attributes:
        waiting_bytes: their size in the log.
    """

    def __init__(self) -> None:
        self._waiting: Final[deque[Line]] = deque()
        self.waiting_bytes = 0

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in reports, before the number of a line."""

    @property
    def bytes_behind(self) -> int:
        """The bytes of a file that are not counted."""
        return 0

    @property
    def records_behind(self) -> int:
        """The records of a partition that are not counted."""
        return 0

    @property
    def waiting(self) -> int:
        """The number of lines that wait."""
        return len(self._waiting)

    @property
    def oldest_ms(self) -> int | None:
        """The time of the first event that waits."""
        return next((line.at_ms for line in self._waiting if line.at_ms is not None), None)

    def add_line(self, line: Line) -> None:
        self._waiting.append(line)
        self.waiting_bytes += line.size

    def peek(self, lines_max: int, waits: Callable[[int], bool]) -> list[Line]:
        """Return the next lines, up to the first event for whose time ``waits`` is true."""
        found = []
        for line in islice(self._waiting, lines_max):
            if line.at_ms is not None and waits(line.at_ms):
                break
            found.append(line)
        return found

    def advance(self, lines: Sequence[Line]) -> None:
        """Forget the next ``lines``, which are counted, and move the position past them."""
        for line in lines:
            self._waiting.popleft()
            self.waiting_bytes -= line.size
        self._move(lines)

    @abstractmethod
    def _move(self, lines: Sequence[Line]) -> None:
        """Move the position past lines that were forgotten."""


class FollowedLogs(Protocol):
    """All files, or all topics, that are followed."""

    @property
    def silent_ms(self) -> int | None:
        """Since when one of them does not answer, so that it may have lines of then."""

    def __iter__(self) -> Iterator[FollowedLog]: ...

    def read(self, since_ms: int) -> None:
        """Find logs, and read what is new since the last reading at a time. Blocks.

        Raises:
            TrafficError: a log cannot be read, and waiting does not help.
        """

    def save(self, state: State) -> State:
        """Return the state with the positions, and with what was lost since the last call.

        Forget logs that are counted to their end.
        """

    def close(self) -> None: ...
