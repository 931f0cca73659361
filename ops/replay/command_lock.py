"""The lock of a running command: the job ends with it, and a later command removes its files.

**Invariant:** the kernel releases the lock when the command ends, even after ``kill -9``.
"""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from pathlib import Path
from typing import BinaryIO, Final

LOCK_NAME: Final = "running.lock"
GRACE_SECONDS: Final = 15.0

_PRIVATE: Final = 0o600


def hold_lock(path: Path) -> None:
    """Create the file ``path``, and lock it until this process ends.

    Raises:
        OSError: the file cannot be created or locked.
    """
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    # Rename it only now, so that the file is never found unlocked.
    new.rename(path)


def is_held(path: Path) -> bool:
    """Return True if a command holds the lock.

    Raises:
        OSError: the file cannot be opened.
    """
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def end_with_command(path: Path) -> None:
    """End this process group as soon as the lock's command has ended.

    The group is that of spark-submit: its JVM, and this driver. If the file does not exist, this
    process does not depend on a command: it runs on another machine, or a user started it.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    threading.Thread(target=_end_when_free, args=(file,), daemon=True).start()


def _end_when_free(file: BinaryIO) -> None:
    with file:
        fcntl.flock(file, fcntl.LOCK_SH)
    group = os.getpgrp()
    # Another process, since SIGTERM ends this one, and may leave a JVM that waits for its cluster.
    if os.fork() == 0:
        os.setsid()
        try:
            os.killpg(group, signal.SIGTERM)
            time.sleep(GRACE_SECONDS)
            os.killpg(group, signal.SIGKILL)
        finally:
            os._exit(0)
