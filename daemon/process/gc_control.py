"""Run the garbage collector at chosen times; automatic collections would pause decisions.

A collection scans every container created since the last freeze and everything that it refers to.
One ACL change creates about fifteen map nodes with hundreds of references, so after 100,000
changes, an automatic collection would stop the loop for a fifth of a second, even if all loaded
objects are frozen. Instead, garbage is collected every 50 ms, and between two turns of long work
(``actors.steps``), if there are many new objects. The survivors are frozen: they are never scanned
again.

A frozen object that becomes part of a cycle later is leaked. Requests and connections leave no
cycles, so such leaks do not add up. Errors in threads would leave cycles: see
``daemon.process.threads``.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from authorizerd.actors.steps import collect_if_many

COLLECT_SECONDS: Final = 0.05


@contextmanager
def automatic_collection_off() -> Iterator[None]:
    """Disable automatic collections until the block ends, and freeze all objects."""
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.enable()


async def collect_regularly() -> None:
    """Collect every 50 ms if there are enough new objects."""
    while True:
        await trio.sleep(COLLECT_SECONDS)
        collect_if_many()
