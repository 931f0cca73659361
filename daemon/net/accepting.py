"""Accept connections from one listener, even if the system runs short of resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

ACCEPT_DELAY_SECONDS_MIN: Final = 0.05
ACCEPT_DELAY_SECONDS_MAX: Final = 1.0
"""Delay before the next try after a failure; doubles each time."""


async def accept_all(
    listener: trio.abc.Listener[trio.abc.HalfCloseableStream],
    serve: Callable[[trio.abc.HalfCloseableStream], object],
    note_failure: Callable[[OSError], None],
) -> None:
    """Accept connections until cancelled; cancellation closes the listener.

    No system error ends it: a shortage of descriptors (EMFILE, ENFILE) or memory (ENOBUFS) may pass
    in a moment, and a firewall's rejection (EPERM) concerns one peer.
    """
    delay = ACCEPT_DELAY_SECONDS_MIN
    async with listener:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                note_failure(error)
                await trio.sleep(delay)
                delay = min(2 * delay, ACCEPT_DELAY_SECONDS_MAX)
            else:
                delay = ACCEPT_DELAY_SECONDS_MIN
                serve(stream)
