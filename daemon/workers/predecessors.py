"""Worker processes of earlier daemons on a log directory, which may outlive their daemon.

**Invariant:** a daemon begins only once no worker of an earlier daemon answers any more. While such
a worker lives, it holds the directory's lock, which it inherited. A worker that outlives its daemon
was paused; its lease expires before the new daemon begins.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from authorizerd.actors.boot_clock import Clock, boot_time

LEASE_SECONDS_MAX: Final = 20.0
"""How long a worker answers without an order from its daemon, whatever its configuration.

A later version must not wait for a shorter time: it may replace a daemon of this version.
"""
_LOOK_SECONDS: Final = 0.05

_logger = logging.getLogger("authorizerd")


class WorkersLock:
    """The lock of a log directory that all its daemons' workers share, until they end.

    The daemon itself also has it, and each worker inherits ``descriptor``. ``flock`` belongs to the
    open file, so the kernel unlocks it only when the last of these processes has ended.
    """

    def __init__(self, log_dir: Path) -> None:
        """Open the directory.

        Raises:
            OSError: it cannot be opened.
        """
        self._log_dir = log_dir
        self.descriptor: Final = os.open(log_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def take(
        self, *, clock: Clock = boot_time, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Block until no worker of an earlier daemon can answer, then take the lock.

        This usually returns at once, because workers end with their daemon. The caller holds the
        directory's lock, which keeps other daemons out.
        """
        ends_at = clock() + LEASE_SECONDS_MAX
        has_told = False
        while not self._try(fcntl.LOCK_EX) and (left := ends_at - clock()) > 0:
            if not has_told:
                has_told = True
                _logger.warning(
                    "%s: waiting up to %.0f s for worker processes of an earlier daemon to end",
                    self._log_dir,
                    LEASE_SECONDS_MAX,
                )
            sleep(min(left, _LOOK_SECONDS))
        # A shared lock: workers of an earlier daemon, with expired leases, may still hold it.
        self._try(fcntl.LOCK_SH)

    def _try(self, mode: int) -> bool:
        """Return False if the lock is not free, or if the file system has no such locks."""
        try:
            fcntl.flock(self.descriptor, mode | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
