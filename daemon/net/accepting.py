"""Accept connections from one listener, even if the system runs short of resources.

**Invariant:** other tasks run after each ACCEPTS_PER_TURN connections, however many wait.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

ACCEPTS_PER_TURN: Final = 8
"""About half a millisecond's work. Why not one? If the kernel's queue is full, it drops newcomers,
and these try again only after a second."""
ACCEPT_DELAY_SECONDS_MIN: Final = 0.05
ACCEPT_DELAY_SECONDS_MAX: Final = 1.0
"""Delay before the next try after a failure; doubles each time."""

Accepted = socket.socket | trio.abc.HalfCloseableStream


async def accept_all(
    listener: trio.abc.Listener[trio.abc.HalfCloseableStream],
    reserve: Callable[[], float],
    take: Callable[[Accepted], object],
    note_failure: Callable[[OSError], None],
) -> None:
    """Accept connections until cancelled; cancellation closes the listener.

    Each connection is taken after the delay that ``reserve`` returns, in seconds. Until then the
    listener accepts no other connection; they wait in the socket's queue. A listener of sockets
    gives sockets, because most of a flood's are closed again before a stream would pay.

    No system error ends it: a shortage of descriptors (EMFILE, ENFILE) or memory (ENOBUFS) may pass
    in a moment, and a firewall's rejection (EPERM) concerns one peer.
    """
    delay = ACCEPT_DELAY_SECONDS_MIN
    async with listener:
        with _open_queue(listener) as queue:
            while True:
                try:
                    if queue is None:
                        await _take_one(await listener.accept(), reserve, take)
                    else:
                        await trio.lowlevel.wait_readable(queue)
                        for _ in range(ACCEPTS_PER_TURN):
                            accepted, _ = queue.accept()
                            await _take_one(accepted, reserve, take)
                except BlockingIOError:
                    delay = ACCEPT_DELAY_SECONDS_MIN  # no other connection waits
                except OSError as error:
                    note_failure(error)
                    await trio.sleep(delay)
                    delay = min(2 * delay, ACCEPT_DELAY_SECONDS_MAX)
                else:
                    delay = ACCEPT_DELAY_SECONDS_MIN


@contextmanager
def _open_queue(
    listener: trio.abc.Listener[trio.abc.HalfCloseableStream],
) -> Iterator[socket.socket | None]:
    """Yield a plain socket of the listener, or None if it has none.

    trio's own accept yields to other tasks after each connection.
    """
    if not isinstance(listener, trio.SocketListener):
        yield None
        return
    with socket.socket(fileno=os.dup(listener.socket.fileno())) as queue:
        queue.setblocking(False)
        yield queue


async def _take_one(
    accepted: Accepted, reserve: Callable[[], float], take: Callable[[Accepted], object]
) -> None:
    pause = reserve()
    if pause > 0:
        await _wait_or_close(accepted, pause)
    take(accepted)


async def _wait_or_close(accepted: Accepted, seconds: float) -> None:
    try:
        await trio.sleep(seconds)
    except trio.Cancelled:
        if isinstance(accepted, socket.socket):
            accepted.close()
        else:
            await trio.aclose_forcefully(accepted)
        raise
