"""Read logs as they are written, across renaming, truncation and restarts.

**Invariant:** a log is known by its first bytes, whatever name it has, so each line is read once.
Only whole lines are read. Lines that wait to be counted are in memory, and bounded.

A log that is renamed is read to its end. If a log was copied and truncated, its rest is read from
the copy. Both are searched next to the log, under names that begin with its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from authorizerd.replay.errors import TrafficError
from authorizerd.replay.ingest.inputs import find_files
from authorizerd.replay.ingest.parse.logs import UNSUPPORTED_SUFFIXES, find_suffix
from authorizerd.replay.verify.follow.state import Position, State
from authorizerd.replay.verify.follow.waiting import (
    WAITING_BYTES_MAX,
    FindTime,
    FollowedLog,
    Line,
)

FILES_MAX: Final = 500
"""Each file stays open, so that its last lines can be read after it has lost its name."""
READ_BYTES: Final = 1024 * 1024
"""The size of one reading; more than a line of an audit log may have."""
FINISHED_S: Final = 60.0
"""A log that was renamed is finished once it has not grown for so long."""
_HEAD_BYTES: Final = 1024
_CLOCK_NS: Final = 20_000_000
"""The clock of a file system may be late by this time."""


class FollowedFile(FollowedLog):
    """A log, the place up to which it was read, and the lines that wait to be counted.

    Attributes:
        position: the place up to which its lines are counted.
        is_lost: its file was replaced or removed before it was known to be read.
    """

    def __init__(self, position: Position, find_time: FindTime) -> None:
        super().__init__(find_time)
        self.position = position
        self.is_lost = False
        self._descriptor: int | None = None
        self._end = self._size = position.offset
        self._grown_at = time.monotonic()
        self._is_renamed = position.path != position.name

    @property
    def name(self) -> str:
        return self.position.path

    @property
    def is_open(self) -> bool:
        return self._descriptor is not None

    @property
    def is_done(self) -> bool:
        """Whether it can no longer grow, and all of its lines are counted."""
        return (self.is_lost or self.position.is_finished) and not self._waiting

    def _is_idle(self, now: float) -> bool:
        return now - self._grown_at >= FINISHED_S

    @property
    def is_unfinished(self) -> bool:
        """Whether it was renamed and may have lines that are not counted."""
        return self._is_renamed and not self.position.is_finished

    @property
    def bytes_behind(self) -> int:
        return max(self._size, self._end) - self.position.offset

    def is_at(self, status: os.stat_result) -> bool:
        return (status.st_dev, status.st_ino) == (self.position.device, self.position.inode)

    def is_copied_in(self, path: Path) -> bool:
        """Whether another file of its directory is the same log, or will be."""
        if path.parent != Path(self.position.name).parent:
            return False
        with path.open("rb") as file:
            head = file.read(len(self.position.head))
        return bool(head) and self.position.head.startswith(head)

    def open(self, path: Path) -> bool:
        """Continue with the file at ``path`` if it has what was read; return whether it has.

        Raises:
            TrafficError: it cannot be opened.
        """
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise TrafficError(f"{path}: {error.strerror}") from error
        status = os.fstat(descriptor)
        is_known = bool(self.position.head) or self.is_at(status)
        if not (is_known and self._has_read(descriptor)):
            os.close(descriptor)
            return False
        self._descriptor, self._grown_at = descriptor, time.monotonic()
        self.position = replace(
            self.position, path=str(path), device=status.st_dev, inode=status.st_ino
        )
        return True

    def _has_read(self, descriptor: int) -> bool:
        """Return whether a file has the bytes that were read."""
        head = self.position.head
        is_whole = os.fstat(descriptor).st_size >= self._end
        return is_whole and os.pread(descriptor, len(head), 0) == head

    def read(self, room: int) -> None:
        """Read whole lines, in about ``room`` bytes. Close the file if it was truncated."""
        while self._descriptor is not None and room > 0:
            data = os.pread(self._descriptor, READ_BYTES, self._end)
            size = os.fstat(self._descriptor).st_size
            if not self._has_read(self._descriptor):
                self.close()
                return
            if size != self._size:
                self._size, self._grown_at = size, time.monotonic()
            # So many bytes without a newline cannot be an audit line. They count as one line.
            is_whole = len(data) == READ_BYTES and b"\n" not in data
            whole = data if is_whole else data[: data.rfind(b"\n") + 1]
            self._add(whole)
            room -= len(whole)
            if len(data) < READ_BYTES:
                return

    def _add(self, whole: bytes) -> None:
        if not whole:
            return
        if self._end < _HEAD_BYTES:
            head = self.position.head[: self._end] + whole
            self.position = replace(self.position, head=head[:_HEAD_BYTES])
        self._end += len(whole)
        first = self.position.lines + self.waiting + 1
        *ended, rest = whole.split(b"\n")
        for number, text in enumerate(ended, first):
            self.add_line(text, number, len(text) + 1)
        if rest:
            self.add_line(rest, first + len(ended), len(rest))

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def note_name(self) -> None:
        """Note the present name of the open file, and that it was renamed or removed."""
        if self._descriptor is None:
            return
        name = os.readlink(f"/proc/self/fd/{self._descriptor}")
        if name != self.position.path:
            self.position = replace(self.position, path=name)
        self._is_renamed = name != self.position.name

    def finish(self, now: float) -> None:
        """Close a renamed file that was counted to its end.

        Args:
            now: when this reading of all files began.
        """
        is_ending = self._is_renamed and self._is_idle(now) and not self._waiting
        if self._descriptor is None or not is_ending:
            return
        rest = os.pread(self._descriptor, READ_BYTES, self._end)
        if not rest:
            self.close()
            self.position = replace(self.position, is_finished=True)
        elif b"\n" not in rest:
            self._add(rest)  # nobody completes it any more

    def end_copied(self, now: float) -> None:
        """Finish a log that was read further than its copy, once its lines are counted."""
        self.position = replace(self.position, is_finished=self._is_idle(now) and not self._waiting)

    def _move(self, lines: Sequence[Line]) -> None:
        self.position = replace(
            self.position,
            offset=self.position.offset + sum(line.size for line in lines),
            lines=self.position.lines + len(lines),
        )


class FollowedFiles:
    """All logs that ``inputs`` name: paths, directories and globs."""

    silent_ms: int | None = None

    def __init__(
        self, inputs: Sequence[str], positions: Iterable[Position], find_time: FindTime
    ) -> None:
        self._inputs: Final = inputs
        self._find_time: Final = find_time
        self._files = [FollowedFile(each, find_time) for each in positions]

    def __iter__(self) -> Iterator[FollowedFile]:
        return iter(self._files)

    def close(self) -> None:
        for file in self._files:
            file.close()

    def read(self, since_ms: int) -> None:
        """Find files, and read what is new. Blocks.

        Args:
            since_ms: the time of the last reading. Files of a log that were written since then, and
                renamed, are read as well.

        Raises:
            TrafficError: a file cannot be read, or there are too many.
        """
        now = time.monotonic()
        try:
            self._find_again(now)
            for file in self._files:
                self._read(file)
            # Only now, because copies are known by what was read.
            for path in find_paths(self._inputs):
                self._note(path)
            for name in {Path(file.position.name) for file in self._files}:
                self._note_later(name, since_ms * 1_000_000 - _CLOCK_NS)
            for file in self._files:
                file.note_name()
                file.finish(now)
        except OSError as error:
            raise TrafficError(f"{error.filename}: {error.strerror}") from error

    def save(self, state: State) -> State:
        """Return the state with the positions and the number of lost files.

        A finished file is kept as long as it may be found again: while an input names it, or an
        earlier file of the same log is not finished.
        """
        named = {str(path) for path in find_paths(self._inputs)}
        unfinished = {each.position.name for each in self._files if each.is_unfinished}
        done = [
            file
            for file in self._files
            if file.is_done
            and (
                file.is_lost
                or (file.position.path not in named and file.position.name not in unfinished)
            )
        ]
        self._files = [file for file in self._files if file not in done]
        lost = sum(file.is_lost and bool(file.position.head) for file in done)
        return replace(
            state,
            files=tuple(file.position for file in self._files),
            counts=replace(state.counts, lost_files=state.counts.lost_files + lost),
        )

    def _note(self, path: Path, name: Path | None = None) -> None:
        """Begin with a file of the log ``name``, unless it is known."""
        try:
            status = path.stat()
            for file in self._files:
                if file.is_at(status) and file.is_open:
                    return
                if file.is_copied_in(path):
                    if file.position.is_finished:
                        has_more = status.st_size > file.position.offset
                        file.position = replace(
                            file.position, path=str(path), is_finished=not has_more
                        )
                    return
        except FileNotFoundError:
            return
        self._begin(path, name or path, status)

    def _begin(self, path: Path, name: Path, status: os.stat_result) -> None:
        if sum(file.is_open for file in self._files) >= FILES_MAX:
            raise TrafficError(
                f"{path}: more than {FILES_MAX} logs: name only those that are still written"
            )
        place = Position(name=str(name), path=str(path), device=status.st_dev, inode=status.st_ino)
        file = FollowedFile(place, self._find_time)
        if file.open(path):
            self._files.append(file)
            self._read(file)

    def _read(self, file: FollowedFile) -> None:
        room = WAITING_BYTES_MAX - sum(each.waiting_bytes for each in self._files)
        # Copies of a file are not known before its first bytes are.
        file.read(room if file.position.head else READ_BYTES)

    def _find_again(self, now: float) -> None:
        """Open the files of all positions, by name or by content."""
        for file in self._files:
            if file.is_open or file.is_lost or file.position.is_finished:
                continue
            name = Path(file.position.name)
            beside = _find_beside(name)
            if any(map(file.open, (Path(file.position.path), *beside))):
                continue
            # A copy ends before the lines that were read while the log was copied and truncated.
            if any(map(file.is_copied_in, beside)):
                file.end_copied(now)
            else:
                # Without a log of this name, its directory may be unmounted, or it is renamed now.
                file.is_lost = name.exists()

    def _note_later(self, name: Path, since_ns: int) -> None:
        """Begin with files of a log that were renamed, or copied, and written since a time."""
        for path in _find_beside(name):
            is_of_log = path.name.startswith(name.name) and path != name
            if is_of_log and path.stat().st_mtime_ns >= since_ns:
                self._note(path, name)


def _find_beside(name: Path) -> list[Path]:
    return [path for path in find_paths([str(name.parent)]) if path.parent == name.parent]


def find_paths(inputs: Iterable[str]) -> Iterator[Path]:
    """Yield the files that inputs name now, by their own paths, except archives."""
    for text in inputs:
        for path in find_files(str(Path(text).absolute())):
            if path.is_file() and not _is_archive(path):
                yield path.resolve()


def _is_archive(path: Path) -> bool:
    return find_suffix(path.name) is not None or path.name.lower().endswith(UNSUPPORTED_SUFFIXES)
