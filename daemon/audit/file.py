"""The audit file: a thread appends to whichever file the path names at the time of a write.

**Invariant:** every line is whole. The daemon's processes take turns to write. If a full disk or a
killed process has left a torn line at the end, the next writer ends that line first. Each write
checks the path first: if the file was moved or removed, a new one is created. So only lines written
while the file is being moved go to the old file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Final

import trio

from authorizerd.actors.audit_log import PartialWriteError
from authorizerd.daemon.process.threads import run_in_thread

Write = Callable[[int, bytes | memoryview], int]
"""The signature of ``os.write``."""

# O_NONBLOCK: if the path is a pipe, opening it must not block.
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK


class AuditLock:
    """The lock with which a daemon and its workers take turns to write to one audit output.

    It does not exclude other threads of the same process.

    **Invariant:** only the daemon and its workers can hold it. Anyone who may read the output could
    lock the output itself, so the lock is on memory that only these processes have open.

    Args:
        descriptor: in a worker, the one inherited from the daemon. None creates a new lock.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = os.memfd_create("authorizerd audit")
        # Only workers inherit it, because the daemon passes it to them.
        os.set_inheritable(descriptor, False)
        self.descriptor: Final = descriptor

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Wait for the lock, blocking the thread, and hold it until the ``with`` block ends."""
        # Not ``flock``: it would not exclude processes that inherited the same open file.
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close this process's descriptor of the lock."""
        os.close(self.descriptor)


class AuditFile:
    """An append-only file, readable only by its owner and group."""

    def __init__(self, path: str, turns: AuditLock, write: Write = os.write) -> None:
        """Open the file.

        Raises:
            OSError: it cannot be opened for appending.
        """
        self._path: Final = path
        self._turns: Final = turns
        self._write: Final = write
        self._file = _open(path)
        self._is_to_reopen = False
        self._is_busy = False
        # A single thread: the next write must wait for an abandoned one.
        self._limiter = trio.CapacityLimiter(1)

    def reopen(self) -> None:
        """Reopen the path before the next write, even if it still names the same file."""
        self._is_to_reopen = True

    async def write(self, lines: Sequence[bytes]) -> None:
        """Append lines. Without lines, check whether the file can be written.

        Cancellation abandons the thread. Do not write to the file after that.

        Raises:
            PartialWriteError, OSError: the disk is full or broken, or the file cannot be created.
        """
        self._is_busy = True
        await run_in_thread(self._append, lines, abandon_on_cancel=True, limiter=self._limiter)

    def close(self) -> None:
        """Close the file, unless an abandoned thread may still use it."""
        if not self._is_busy:
            os.close(self._file)

    def _append(self, lines: Sequence[bytes]) -> None:
        try:
            self._follow_path()
            with self._turns.hold():
                if self._is_torn():
                    _write_whole(self._write, self._file, b"\n")
                self._write_lines(lines)
        finally:
            self._is_busy = False

    def _follow_path(self) -> None:
        if self._is_to_reopen or not self._is_at_path():
            file = _open(self._path)
            os.close(self._file)
            self._file, self._is_to_reopen = file, False

    def _is_at_path(self) -> bool:
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._file))

    def _is_torn(self) -> bool:
        size = os.fstat(self._file).st_size
        # ``pread`` returns no byte if the file was truncated after ``fstat``.
        return size > 0 and os.pread(self._file, 1, size - 1) not in (b"\n", b"")

    def _write_lines(self, lines: Sequence[bytes]) -> None:
        # Write in one call, so that another process can truncate the file only between lines.
        data = b"".join(line + b"\n" for line in lines)
        written = 0
        view = memoryview(data)
        try:
            while written < len(data):
                written += self._write(self._file, view[written:])
        except OSError as error:
            raise PartialWriteError(error, count_whole_lines(lines, written)) from error


def count_whole_lines(lines: Sequence[bytes], size: int) -> int:
    """Return the number of complete lines in the first ``size`` bytes.

    A line is complete even if only its line feed is missing.
    """
    ends = accumulate(len(line) + 1 for line in lines)
    return sum(end - 1 <= size for end in ends) if size else 0


def _write_whole(write: Write, file: int, data: bytes) -> None:
    while data:
        data = data[write(file, data) :]


def _open(path: str) -> int:
    file = os.open(path, _FLAGS, 0o640)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file")
    return file
