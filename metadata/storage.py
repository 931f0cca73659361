"""The few file calls that a log is read and written with, behind one interface.

Law: the log's files are touched by nothing else. So what a crash, a full disk or a lying sync may
do to a log can be played out by another implementation.
"""

from __future__ import annotations

import errno
import os
import os.path
import stat
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, Final, Protocol

_PIECES_PER_CALL: Final = 512
SMALL_FILE_BYTES_MAX: Final = 64 * 1024
_NEW_FILE_MODE: Final = 0o644


class AppendFile(Protocol):
    """A file that only grows."""

    def append(self, pieces: Sequence[bytes]) -> None:
        """Write all of ``pieces`` at the end; OSError where not all could be."""

    def sync(self) -> None:
        """Return once all that was appended is durable; OSError where that is not known."""

    def close(self) -> None: ...


class Directory(Protocol):
    """A directory that is held open, so that to sync it no descriptor is needed."""

    def sync(self) -> None:
        """Make the names in it durable."""

    def close(self) -> None: ...


class Storage(Protocol):
    """Every call raises OSError where it fails."""

    def exists(self, path: Path) -> bool:
        """Say whether anything stands at ``path``."""

    def is_file(self, path: Path) -> bool:
        """Say whether ``path`` is a file; it is none where nobody may look, and never fails."""

    def names(self, directory: Path) -> list[str]:
        """Return the names of what stands in ``directory``."""

    def size(self, path: Path) -> int:
        """Return how many bytes ``path`` holds."""

    def modified_ms(self, path: Path) -> int:
        """Return when ``path`` was last written, in milliseconds since 1970."""

    def open(self, path: Path) -> BinaryIO:
        """Open the file at ``path`` for reading; never blocks, nor opens anything but a file."""

    def forget(self, path: Path) -> None:
        """Let the next reading of ``path`` come from the disk, but for what is still to be written.

        After a sync that failed, the kernel's memory may hold what the disk never got, and will
        never try to write it again; a later sync succeeds all the same.
        """

    def make_directory(self, path: Path) -> None:
        """Make a directory; durable once the one that it stands in is synced."""

    def append_to(self, path: Path) -> AppendFile:
        """Open ``path`` for appending; it is made where it is missing."""

    def truncate(self, path: Path, size: int) -> None:
        """Cut ``path`` to ``size`` bytes, durably."""

    def rename(self, source: Path, target: Path) -> None:
        """Put ``source`` in the place of ``target``; durable once the directory is synced."""

    def remove(self, path: Path) -> None:
        """Remove a file; durable once the directory is synced."""

    def open_directory(self, directory: Path) -> Directory:
        """Open ``directory``, to be synced."""

    def sync_directory(self, directory: Path) -> None:
        """Make the names in ``directory`` durable."""


class _DiskDirectory:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class _DiskFile:
    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, _NEW_FILE_MODE)

    def append(self, pieces: Sequence[bytes]) -> None:
        for start in range(0, len(pieces), _PIECES_PER_CALL):
            some = pieces[start : start + _PIECES_PER_CALL]
            written = os.writev(self._descriptor, some)
            if written < sum(map(len, some)):
                self._append_rest(b"".join(some)[written:])

    def _append_rest(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class DiskStorage:
    """The real thing."""

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_file(self, path: Path) -> bool:
        return os.path.isfile(path)  # Path.is_file raises where it may not look

    def names(self, directory: Path) -> list[str]:
        return os.listdir(directory)

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def open(self, path: Path) -> BinaryIO:
        # Not to wait for who writes into a FIFO, nor to read a device that never ends.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _check_regular(descriptor, path)
            return open(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise

    def forget(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)

    def make_directory(self, path: Path) -> None:
        path.mkdir()

    def append_to(self, path: Path) -> AppendFile:
        return _DiskFile(path)

    def truncate(self, path: Path, size: int) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink()

    def open_directory(self, directory: Path) -> Directory:
        return _DiskDirectory(directory)

    def sync_directory(self, directory: Path) -> None:
        with closing(self.open_directory(directory)) as opened:
            opened.sync()


def _check_regular(descriptor: int, path: Path) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_small(storage: Storage, path: Path) -> bytes:
    """Return all of a file that holds a few lines.

    Raises:
        OSError: it cannot be read, or is too large to be such a file.
    """
    with storage.open(path) as file:
        data = file.read(SMALL_FILE_BYTES_MAX + 1)
    if len(data) > SMALL_FILE_BYTES_MAX:
        reason = f"larger than {SMALL_FILE_BYTES_MAX} bytes, which no such file is"
        raise OSError(errno.EFBIG, reason, str(path))
    return data


DISK: Final = DiskStorage()
