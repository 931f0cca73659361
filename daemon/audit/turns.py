"""The lock with which a daemon and its workers take turns to write to one audit output.

**Invariant:** no other process can hold it. A lock on the output itself could be taken by anyone
who may read it, so the lock is on memory that only these processes have open.
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
        descriptor: inherited from the daemon, in a worker; None creates a new one.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = os.memfd_create("authorizerd audit")
        os.set_inheritable(descriptor, False)
        self.descriptor: Final = descriptor

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Keep other processes from writing until the block ends; block until the lock is free."""
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self.descriptor)
