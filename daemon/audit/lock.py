"""The lock by which a daemon and its workers take turns to write to one audit output.

**Invariant:** only the daemon and its workers can hold it. A lock on the output itself could be
taken by anyone who may read it. Therefore the lock is on memory that only these processes have
open.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


class AuditLock:
    """A lock between processes. It does not exclude other threads of the same process.

    Args:
        descriptor: in a worker, the one inherited from the daemon. None creates a new lock.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = os.memfd_create("authorizerd audit")
        # Only workers inherit it, and only because the daemon passes it to them.
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
