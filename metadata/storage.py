"""The few file operations that reading and writing a log needs, as one interface.

**Invariant:** nothing else touches the log's files. So tests can substitute an implementation that
simulates a crash, a full disk, or a sync that lies.
"""

from __future__ import annotations

import errno
import os
import os.path
import stat
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO, Final, Protocol

_PIECES_PER_CALL: Final = 512  # writev accepts at most 1,024 (IOV_MAX)
SMALL_FILE_BYTES_MAX: Final = 64 * 1024

NO_EXCHANGE: Final = frozenset((errno.EINVAL, errno.ENOSYS, errno.ENOTSUP))
_PRIVATE_FILE: Final = 0o600
_PRIVATE_DIRECTORY: Final = 0o700
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


class AppendFile(Protocol):
    """A file that only grows."""

    def append(self, pieces: Sequence[bytes]) -> None:
        """Write all of ``pieces`` at the end. Raise OSError if some could not be written."""

    def sync(self) -> None:
        """Return once everything appended is durable. Raise OSError if that is not known."""

    def close(self) -> None: ...


class Directory:
    """An open directory. It stays open, so that syncing it needs no new descriptor."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def sync(self) -> None:
        """Make the names in the directory durable."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class _DiskFile:
    """A file on the disk."""

    def __init__(
        self, path: Path, mode: int, more_flags: int, access: os.stat_result | None = None
    ) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | more_flags
        self._descriptor = os.open(path, flags, mode)
        if access is not None:
            try:
                _set_access(self._descriptor, access)
            except OSError:
                os.close(self._descriptor)
                raise

    def append(self, pieces: Sequence[bytes]) -> None:
        for start in range(0, len(pieces), _PIECES_PER_CALL):
            batch = pieces[start : start + _PIECES_PER_CALL]
            written = os.writev(self._descriptor, batch)
            if written < sum(map(len, batch)):
                self._append_rest(b"".join(batch)[written:])

    def _append_rest(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def sync(self) -> None:
        # fdatasync suffices: it also makes the new size durable, and the times do not matter.
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class Storage:
    """The file operations of the operating system. Every call raises OSError if it fails.

    Args:
        file_mode: the permissions of new files, which the process's umask limits.
        directory_mode: the permissions of new directories, likewise.
        only_new: ``append_to`` raises FileExistsError if there is such a file or link.
    """

    def __init__(
        self, *, file_mode: int = 0o640, directory_mode: int = 0o750, only_new: bool = False
    ) -> None:
        self._file_mode = file_mode
        self._append_flags = os.O_EXCL if only_new else 0
        self._directory_mode = directory_mode

    def exists(self, path: Path) -> bool:
        """Return True if there is anything at ``path``."""
        return path.exists()

    def is_file(self, path: Path) -> bool:
        """Return True if ``path`` is a file, False if access is denied. Never fails."""
        return os.path.isfile(path)  # Path.is_file raises if access is denied

    def names(self, directory: Path) -> list[str]:
        """Return the names in ``directory``."""
        return os.listdir(directory)

    def size(self, path: Path) -> int:
        """Return the size of ``path`` in bytes."""
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        """Return when ``path`` was last written, in milliseconds since 1970."""
        return path.stat().st_mtime_ns // 1_000_000

    def open(self, path: Path) -> BinaryIO:
        """Open the regular file at ``path`` for reading. Never blocks."""
        # Do not wait for the writer of a FIFO, nor read an endless device.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _check_regular(descriptor, path)
            return open(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise

    def drop_cache(self, path: Path) -> None:
        """Drop the page cache for this file, except unwritten pages, so that the next read is from
        the disk.

        After a failed sync, the cache may contain data that the disk never received and that the
        kernel will not write again. A later sync still succeeds.
        """
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)

    def make_directory(self, path: Path, like: Path | None = None) -> None:
        """Make a directory. It is durable once its parent is synced.

        If there is a directory ``like``, the new one gets its owner, group and permissions.
        """
        access = _find_access(like)
        path.mkdir(self._directory_mode if access is None else _PRIVATE_DIRECTORY)
        if access is not None:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                _set_access(descriptor, access)
            finally:
                os.close(descriptor)

    def append_to(self, path: Path, like: Path | None = None) -> AppendFile:
        """Open ``path`` for appending. Create it if it is missing.

        If there is a file ``like``, a new file gets its owner, group and permissions.
        """
        access = _find_access(like)
        if access is None:
            return _DiskFile(path, self._file_mode, self._append_flags)
        return _DiskFile(path, _PRIVATE_FILE, self._append_flags | os.O_EXCL, access)

    def truncate(self, path: Path, size: int) -> None:
        """Cut ``path`` to ``size`` bytes, durably."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Replace ``target`` by ``source``. The change is durable once the directory is synced."""
        source.replace(target)

    def exchange(self, first: Path, second: Path) -> None:
        """Exchange two files or directories of one file system in one step, so that no moment
        lacks either name. The change is durable once both parents are synced.

        The errno is in ``NO_EXCHANGE`` if the file system cannot do this.
        """
        # Python has no function for this system call. Do not import ctypes at the top: it allocates
        # executable memory, which a hardened service forbids (MemoryDenyWriteExecute=).
        try:
            import ctypes

            call = ctypes.CDLL(None, use_errno=True).renameat2
        except (ImportError, MemoryError, AttributeError) as error:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(second)) from error
        if call(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(second))

    def remove(self, path: Path) -> None:
        """Remove a file. The removal is durable once the directory is synced."""
        path.unlink()

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory. The removal is durable once its parent is synced."""
        path.rmdir()

    def open_directory(self, directory: Path) -> Directory:
        """Open ``directory`` for syncing."""
        return Directory(directory)

    def sync_directory(self, directory: Path) -> None:
        """Make the names in ``directory`` durable."""
        with closing(self.open_directory(directory)) as opened:
            opened.sync()


def _find_access(like: Path | None) -> os.stat_result | None:
    """Return the owner, group and permissions of a file or directory; None if there is none."""
    with suppress(FileNotFoundError):
        return None if like is None else like.stat()
    return None


def _set_access(descriptor: int, access: os.stat_result) -> None:
    """Give a new file or directory an owner, a group and permissions.

    If this process may not change the owner, only the file's own user gets permissions: permissions
    for group and others would apply to different users than before.
    """
    own = os.fstat(descriptor)
    mode = stat.S_IMODE(access.st_mode)
    if (own.st_uid, own.st_gid) != (access.st_uid, access.st_gid):
        try:
            os.fchown(descriptor, access.st_uid, access.st_gid)
        except PermissionError:
            mode &= stat.S_IRWXU
    os.fchmod(descriptor, mode)


def find_unused(path: Path, storage: Storage) -> Path:
    """Return ``path``, or if it exists, the first of ``path.2``, ``path.3``, … that is
    free.

    Raises:
        OSError: the folder cannot be read.
    """
    unused, number = path, 1
    while storage.exists(unused):
        number += 1
        unused = path.with_name(f"{path.name}.{number}")
    return unused


def _check_regular(descriptor: int, path: Path) -> None:
    # Check the open file: the path might name another file by the time it is opened.
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_small(storage: Storage, path: Path) -> bytes:
    """Return the contents of a file that has a few lines.

    Raises:
        OSError: the file cannot be read, or is too large.
    """
    with storage.open(path) as file:
        data = file.read(SMALL_FILE_BYTES_MAX + 1)
    if len(data) > SMALL_FILE_BYTES_MAX:
        reason = f"expected at most {SMALL_FILE_BYTES_MAX} bytes, found more"
        raise OSError(errno.EFBIG, reason, str(path))
    return data


DISK: Final = Storage()
"""New files and directories are closed to others: a log may have SCRAM credentials."""

PRIVATE_DISK: Final = Storage(file_mode=0o600, directory_mode=0o700)
"""The same, but other users cannot read the new files."""

PRIVATE_NEW_DISK: Final = Storage(file_mode=0o600, directory_mode=0o700, only_new=True)
"""The same for new files in other users' folders, where these may place files or links."""
