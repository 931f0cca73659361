"""Servers over memory or loopback, for tests of any protocol."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import TypeVar

import trio
import trio.testing

from authorizerd.daemon.net.connection_server import ConnectionServer

AnyServer = TypeVar("AnyServer", bound=ConnectionServer)
StreamPair = tuple[trio.abc.HalfCloseableStream, trio.abc.HalfCloseableStream]


class MemoryListener(trio.abc.Listener[trio.abc.HalfCloseableStream]):
    """Accepts streams without sockets, so that a test's clock may jump."""

    def __init__(self, pair: Callable[[], StreamPair] = trio.testing.memory_stream_pair) -> None:
        self._pair = pair
        self._backlog, self._accepted = trio.open_memory_channel[
            trio.abc.HalfCloseableStream | OSError
        ](100)

    def fail(self, error: OSError) -> None:
        self._backlog.send_nowait(error)

    def connect(self) -> trio.abc.HalfCloseableStream:
        ours, theirs = self._pair()
        self._backlog.send_nowait(theirs)
        return ours

    async def accept(self) -> trio.abc.HalfCloseableStream:
        accepted = await self._accepted.receive()
        if isinstance(accepted, OSError):
            raise accepted
        return accepted

    async def aclose(self) -> None:
        await self._accepted.aclose()


async def serve_in_memory(
    nursery: trio.Nursery, server: ConnectionServer, listener: MemoryListener | None = None
) -> MemoryListener:
    listener = listener or MemoryListener()
    await nursery.start(lambda task_status: server.serve([listener], task_status=task_status))
    return listener


async def with_listener(
    nursery: trio.Nursery, server: AnyServer
) -> tuple[AnyServer, MemoryListener]:
    return server, await serve_in_memory(nursery, server)


async def serve_on_loopback(nursery: trio.Nursery, server: ConnectionServer) -> int:
    """Return the port on which ``server`` serves."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listeners[0].socket.getsockname()[1]
    await nursery.start(lambda task_status: server.serve(listeners, task_status=task_status))
    return port


async def send_pieces(
    client: trio.abc.HalfCloseableStream,
    pieces: Sequence[bytes],
    receive_all: Callable[[trio.abc.HalfCloseableStream], Awaitable[bytes]],
) -> bytes:
    """Send pieces, a few turns apart, then the end; return what the server sends, or ``reset``."""
    received: list[bytes] = []

    async def receive() -> None:
        try:
            received.append(await receive_all(client))
        except trio.BrokenResourceError:
            received.append(b"reset")

    async with trio.open_nursery() as receiving:
        receiving.start_soon(receive)
        try:
            for piece in pieces:
                await client.send_all(piece)
                for _ in range(4):
                    await trio.lowlevel.checkpoint()
            await client.send_eof()
        except trio.BrokenResourceError:
            pass  # the server has closed the connection after an error
    await client.aclose()
    return received[0]


def split_at(requests: Sequence[bytes], cuts: Sequence[int]) -> list[bytes]:
    """Return the requests as one text that is cut between them, and at some other places."""
    stream = b"".join(requests)
    starts = (len(b"".join(requests[:number])) for number in range(len(requests)))
    ends = [0, *sorted({*cuts, *starts}), len(stream)]
    return [stream[start:end] for start, end in pairwise(ends)]
