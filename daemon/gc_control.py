"""The garbage collector, run when we choose: by itself it would pause decisions.

A collection looks at every container made since the last freeze and at all that it refers to. One
change of an ACL makes some fifteen map nodes with hundreds of references, so after 100,000 changes
the collector by itself would stop the loop for a third of a second. Here what is new is collected
and then frozen, never to be looked at again, after each slice of changes, and once a second for
what else may have left cycles behind.

What is frozen and becomes part of a cycle later is lost; requests and connections leave no cycles.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

COLLECT_SECONDS: Final = 1.0
CONTAINERS_MIN: Final = 1000
"""How many must have been made, and not been freed, for a collection to be worth its time."""


@contextmanager
def automatic_collection_off() -> Iterator[None]:
    """Keep the collector from running by itself until the block ends."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Collector:
    """Collects once the ACLs are loaded; before that there would be everything to look at."""

    def __init__(self) -> None:
        self._loaded = False

    def settle(self) -> None:
        """Freeze what there is; from the second call on, collect before."""
        if self._loaded:
            gc.collect()
        gc.freeze()
        self._loaded = True

    async def run(self) -> None:
        """Settle once a second, where enough is new."""
        while True:
            await trio.sleep(COLLECT_SECONDS)
            if self._loaded and gc.get_count()[0] >= CONTAINERS_MIN:
                self.settle()
