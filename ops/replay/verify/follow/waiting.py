"""Lines that were read from a log, and wait to be counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""The most bytes that wait, for all files, and for all topics."""


FindTime: TypeAlias = Callable[[bytes], int | None]


class Line(NamedTuple):
    """A line without its newline, its number, its size in the log, and the time of its event."""

    text: bytes
    number: int
    size: int
    at_ms: int | None


class FollowedLog(ABC):
    """A file or a partition, with the lines that wait.

    Args:
        find_time: returns the time of a line's event; see ``Tallies``.

    Attributes:
        waiting_bytes: the size of the lines that wait in the log.
    """

    def __init__(self, find_time: FindTime) -> None:
        self._find_time: Final = find_time
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

    def add_line(self, text: bytes, number: int, size: int) -> None:
        self._waiting.append(Line(text, number, size, self._find_time(text)))
        self.waiting_bytes += size

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
