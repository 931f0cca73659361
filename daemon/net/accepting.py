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
    reserve: Callable[[], float],
    serve: Callable[[trio.abc.HalfCloseableStream], object],
    note_failure: Callable[[OSError], None],
) -> None:
    """Accept connections until cancelled; cancellation closes the listener.

    Each connection is served after the delay that ``reserve`` returns, in seconds. Until then the
    listener accepts no other connection; they wait in the socket's queue.

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
                pause = reserve()
                if pause > 0:
                    await _wait_or_close(stream, pause)
                serve(stream)


async def _wait_or_close(stream: trio.abc.HalfCloseableStream, seconds: float) -> None:
    try:
        await trio.sleep(seconds)
    except trio.Cancelled:
        await trio.aclose_forcefully(stream)
        raise
