"""Kafka's own lock on a log directory, so that a broker and this daemon exclude each other."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from authorizerd.metadata.errors import LogDirectoryError, LogLockedError, naming

LOCK_NAME: Final = ".lock"


@contextmanager
def locked(log_dir: Path) -> Iterator[None]:
    """Hold ``<log_dir>/.lock`` until the block ends. The file stays, as with Kafka.

    Raises:
        LogLockedError: another process holds the lock.
        LogDirectoryError: the file cannot be opened for writing, or cannot be locked.

    Source: Kafka 4.3 FileLock (java.nio FileChannel.tryLock, a POSIX record lock).
    """
    path = log_dir / LOCK_NAME
    with naming(path):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        try:
            # Java takes POSIX record locks, which flock would not exclude.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:  # POSIX allows EAGAIN and EACCES
            raise LogLockedError(
                f"{log_dir}: in use by another process (a broker or another authorizerd), "
                f"which has locked {path}: end it, or use another directory"
            ) from error
        except OSError as error:
            raise LogDirectoryError(f"{path}: {error.strerror or error}") from error
        yield
    finally:
        os.close(file)


def is_locked(log_dir: Path) -> bool:
    """Return True if another process holds the directory's lock.

    This takes and releases a reader's lock, which also releases any lock that this process itself
    holds. Return False if the file cannot be opened.
    """
    try:
        file = os.open(log_dir / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # LOCK_EX would require a file that is open for writing.
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError | PermissionError)
    finally:
        os.close(file)
    return False
