"""A decision stream's server over memory or loopback, and a client that a test controls."""

import math
from collections.abc import Callable, Sequence

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
from tests.daemon.serving import MemoryListener, StreamPair, serve_in_memory, serve_on_loopback

FRAME_BYTES_MAX = 128 * 1024
LOGIN_TIMEOUT_S = 20
OFFSET_TIMEOUT_S, IDLE_TIMEOUT_S, DRAIN_TIMEOUT_S = 30, 600, 10
ENOUGH_S = 1000


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


class Listener(MemoryListener):
    """Accepts connections, whose peers are clients."""

    def connect_client(self) -> Client:
        return Client(self.connect())


async def start(
    nursery: trio.Nursery, server: StreamServer, pair: Callable[[], StreamPair] = memory_stream_pair
) -> Listener:
    listener = Listener(pair)
    await serve_in_memory(nursery, server, listener)
    return listener


async def start_on_loopback(nursery: trio.Nursery, server: StreamServer) -> str:
    """Return the address on which ``server`` serves."""
    return f"127.0.0.1:{await serve_on_loopback(nursery, server)}"


async def connected(
    nursery: trio.Nursery, place: Place, token: str | None = None
) -> tuple[StreamServer, Client]:
    """Return a server and a client that it has greeted."""
    server = new_server(place)
    client = (await start(nursery, server)).connect_client()
    assert (await client.greet(token)).error_code == 0
    return server, client


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(ENOUGH_S):
        while not condition():
            await wait_all_tasks_blocked(0.001)
