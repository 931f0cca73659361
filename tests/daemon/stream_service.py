"""A decision stream's server over memory or loopback, and a client that a test controls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from authorizerd.daemon.decisions.stream_server import StreamServer
from authorizerd.daemon.net.connection_limits import ConnectionLimits
from authorizerd.protocol.decisions.stream import (
    Answer,
    Greeting,
    StreamClientConnection,
    StreamQuestion,
)
from tests.daemon.decision_place import Place

FRAME_BYTES_MAX = 128 * 1024
LOGIN_TIMEOUT_S = 20
OFFSET_TIMEOUT_S, IDLE_TIMEOUT_S, DRAIN_TIMEOUT_S = 30, 600, 10
ENOUGH_S = 1000

StreamPair: TypeAlias = tuple[trio.abc.Stream, trio.abc.Stream]


def new_server(
    place: Place,
    *,
    max_connections: int = 10,
    memory_bytes_max: int = 4 * FRAME_BYTES_MAX,
    turn_ms_max: float = math.inf,
) -> StreamServer:
    return StreamServer(
        name="decision_stream",
        authorizer=place.authorizer,
        callers=place.callers,
        frame_bytes_max=FRAME_BYTES_MAX,
        memory_bytes_max=memory_bytes_max,
        turn_ms_max=turn_ms_max,
        offset_timeout_ms=OFFSET_TIMEOUT_S * 1000,
        limits=ConnectionLimits(
            connections_max=max_connections,
            login_timeout_s=LOGIN_TIMEOUT_S,
            request_timeout_s=IDLE_TIMEOUT_S,
            idle_timeout_s=IDLE_TIMEOUT_S,
            drain_timeout_s=DRAIN_TIMEOUT_S,
        ),
    )


class Client:
    """One connection; ``greet`` exchanges the hellos."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.frames = StreamClientConnection(1 << 24)

    async def greet(self, token: str | None = None) -> Greeting:
        await self.stream.send_all(self.frames.hello(token))
        return await self.greeting()

    async def greeting(self) -> Greeting:
        while (greeting := self.frames.next_greeting()) is None:
            await self._receive()
        return greeting

    async def answer(self) -> Answer:
        while (answer := self.frames.next_answer()) is None:
            await self._receive()
        return answer

    async def _receive(self) -> None:
        with trio.fail_after(ENOUGH_S):
            data = await self.stream.receive_some(65536)
        assert data, "closed"
        self.frames.receive_data(bytes(data))

    async def ask(
        self, questions: Sequence[StreamQuestion], number: int = 1, min_offset: int = -1
    ) -> Answer:
        await self.stream.send_all(self.frames.ask(number, list(questions), min_offset))
        answer = await self.answer()
        assert answer.correlation_id == number
        return answer

    async def is_closed(self) -> bool:
        """Wait for the end of the stream; return True if nothing was sent before it."""
        with trio.fail_after(ENOUGH_S):
            try:
                assert self.frames.next_answer() is None
                return await self.stream.receive_some(1) == b""
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return True


class MemoryListener(trio.abc.Listener[trio.SocketStream]):
    """Accepts streams without sockets, so that a test's clock may jump."""

    def __init__(self) -> None:
        self._backlog, self._accepted = trio.open_memory_channel[trio.abc.Stream](10)

    def connect(self, pair: Callable[[], StreamPair] = memory_stream_pair) -> Client:
        ours, theirs = pair()
        self._backlog.send_nowait(theirs)
        return Client(ours)

    async def accept(self) -> trio.SocketStream:
        return cast(trio.SocketStream, await self._accepted.receive())

    async def aclose(self) -> None:
        await self._accepted.aclose()


async def start(nursery: trio.Nursery, server: StreamServer) -> MemoryListener:
    listener = MemoryListener()
    await nursery.start(lambda task_status: server.serve([listener], task_status=task_status))
    return listener


async def start_on_loopback(nursery: trio.Nursery, server: StreamServer) -> str:
    """Return the address on which ``server`` serves."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listeners[0].socket.getsockname()[1]
    await nursery.start(lambda task_status: server.serve(listeners, task_status=task_status))
    return f"127.0.0.1:{port}"


async def connected(
    nursery: trio.Nursery, place: Place, token: str | None = None
) -> tuple[StreamServer, Client]:
    """Return a server and a client that it has greeted."""
    server = new_server(place)
    client = (await start(nursery, server)).connect()
    assert (await client.greet(token)).error_code == 0
    return server, client


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(ENOUGH_S):
        while not condition():
            await wait_all_tasks_blocked(0.001)
