"""Accepting from one listener for as long as it is open, whatever the system has too little of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

ACCEPT_DELAY_SECONDS_MIN: Final = 0.05
ACCEPT_DELAY_SECONDS_MAX: Final = 1.0
"""How long before another try where one has failed: twice as long each time."""


async def accept_all(
    listener: trio.abc.Listener[trio.abc.HalfCloseableStream],
    serve: Callable[[trio.abc.HalfCloseableStream], object],
    note_failure: Callable[[OSError], None],
) -> None:
    """Accept until cancelled; the listener is closed then.

    No error of the system ends it: too few descriptors (EMFILE, ENFILE) or too little memory
    (ENOBUFS) may be over in a moment, and a firewall (EPERM) concerns one peer.
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
