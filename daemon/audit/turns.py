"""The turns that a daemon and its workers take to write to one audit output.

**Invariant:** nobody else can hold them up. A lock on the output itself could be taken by whoever
may read it, so the lock is on memory that only these processes have open.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


class AuditTurns:
    """A lock between processes; threads of one process take turns by themselves.

    Args:
        descriptor: the daemon's, in a worker that inherits it; None: a new one.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = os.memfd_create("authorizerd audit")
        os.set_inheritable(descriptor, False)
        self.descriptor: Final = descriptor

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Keep the other processes from writing meanwhile; blocks until it is our turn."""
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self.descriptor)
