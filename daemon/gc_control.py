"""Run the garbage collector at chosen times; automatic collections would pause decisions.

A collection scans every container created since the last freeze and everything that it refers to.
One ACL change creates about fifteen map nodes with hundreds of references, so after 100,000 changes
an automatic collection would stop the loop for a third of a second. Instead, garbage is collected
before each slice of changes, when few objects are new, and what the slice creates is frozen without
a look at it. Between two turns of other long work, and every 50 ms, garbage is collected if there
are many new objects: so one collection scans little more than a turn creates. Frozen objects are
never scanned again.

A frozen object that becomes part of a cycle later is leaked. Requests and connections leave no
cycles, so such leaks do not add up. Errors of threads would leave some: see ``daemon.threads``.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

COLLECT_SECONDS: Final = 0.05
CONTAINERS_MIN: Final = 250
"""So one takes about 0.3 ms: a container with objects that are in no cache costs a microsecond. The
count leaves out tuples of which Python reuses the memory, so one may take three times as long."""


@contextmanager
def automatic_collection_off() -> Iterator[None]:
    """Disable automatic collections until the block ends."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Collector:
    """Collect garbage once the ACLs are loaded; earlier, each collection would scan everything.

    It is the ``Heap`` of the actors that change the state.
    """

    def __init__(self) -> None:
        self._loaded = False

    def collect(self) -> None:
        """Freeze all objects; from the second call on, collect garbage first."""
        if self._loaded:  # the first would scan all loaded ACLs and find little garbage
            gc.collect()
        gc.freeze()
        self._loaded = True

    def keep(self) -> None:
        """Freeze all objects without looking at them."""
        gc.freeze()

    def collect_if_many(self) -> bool:
        """Collect garbage if enough objects are new for a collection to be worth its time.

        Return True if it did.
        """
        is_due = self._loaded and gc.get_count()[0] >= CONTAINERS_MIN
        if is_due:
            self.collect()
        return is_due

    async def run(self) -> None:
        """Collect every 50 ms if enough objects are new."""
        while True:
            await trio.sleep(COLLECT_SECONDS)
            self.collect_if_many()
