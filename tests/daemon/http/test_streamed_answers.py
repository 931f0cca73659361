"""Answers in parts, over connections: order, limits, slow and lost peers, and the drain."""

import logging
import math
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from trio.testing import lockstep_stream_pair

from authorizerd.config.bounds import FREE_BYTES
from authorizerd.daemon.http.server import HttpServer
from authorizerd.daemon.net.connection_server import SWEEP_SECONDS
from authorizerd.protocol.http.messages import Request, Response
from authorizerd.protocol.http.streamed import Send, StreamedResponse
from tests.daemon.http_service import (
    DRAIN_TIMEOUT_S,
    GET,
    IDLE_TIMEOUT_S,
    ROOM_BYTES,
    ask,
    connect,
    echo,
    new_server,
    receive_all,
    receive_until,
    until,
)
from tests.daemon.serving import MemoryListener, StreamPair, serve_in_memory, serve_on_loopback

STREAM = GET.replace(b"/", b"/stream", 1)
STALL_S = 7.0
HEAD_END = b"\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
virtual_time = pytest.mark.usefixtures("autojump_clock")


class Streamer:
    """A handler that streams what ``write`` sends, for the path ``/stream``."""

    def __init__(self, write: Callable[[Send], Awaitable[None]], *, is_live: bool = False) -> None:
        self._write = write
        self._is_live = is_live
        self.closed = 0
        self.is_cancelled = False

    async def __call__(self, request: Request) -> Response | StreamedResponse:
        if request.path != "/stream":
            return await echo(request)
        return StreamedResponse(
            write=self._run,
            close=self._close,
            is_live=self._is_live,
            stall_seconds=STALL_S if self._is_live else math.inf,
        )

    async def _run(self, send: Send) -> None:
        try:
            await self._write(send)
        except trio.Cancelled:
            self.is_cancelled = True
            raise

    def _close(self) -> None:
        self.closed += 1


async def write_two_parts(send: Send) -> None:
    await send(b"one")
    await send(b"")
    await trio.lowlevel.checkpoint()
    await send(b"two!")


async def write_one_and_wait(send: Send) -> None:
    await send(b"one")
    await trio.sleep_forever()


async def begin_stream(
    nursery: trio.Nursery,
    server: HttpServer,
    seen: bytes = b"one\r\n",
    new_pair: Callable[[], StreamPair] = trio.testing.memory_stream_pair,
) -> trio.abc.HalfCloseableStream:
    """Start the server, ask for the stream, and return the client once it has received this."""
    client = (await serve_in_memory(nursery, server, MemoryListener(new_pair))).connect()
    await client.send_all(STREAM)
    await receive_until(client, seen)
    return client


async def test_streamed_answer_keeps_the_order_of_pipelined_requests(nursery: trio.Nursery) -> None:
    streamer = Streamer(write_two_parts)
    server = new_server(streamer)
    async with await connect(await serve_on_loopback(nursery, server)) as client:
        await client.send_all(GET.replace(b"/", b"/a", 1) + STREAM + GET.replace(b"/", b"/b", 1))
        data = await receive_until(client, b"/b")
        first, second, third = data.split(b"HTTP/1.1 200 OK\r\n")[1:]
        assert first.endswith(HEAD_END + b"/a")
        assert second.endswith(HEAD_END + b"3\r\none\r\n4\r\ntwo!\r\n" + LAST_CHUNK)
        assert third.endswith(HEAD_END + b"/b")
    assert streamer.closed == 1


async def test_answer_to_head_is_not_written(nursery: trio.Nursery) -> None:
    async def fail(send: Send) -> None:
        raise AssertionError("HEAD has no body")

    streamer = Streamer(fail)
    async with await connect(await serve_on_loopback(nursery, new_server(streamer))) as client:
        await client.send_all(STREAM.replace(b"GET", b"HEAD"))
        assert b"Transfer-Encoding: chunked\r\n" in await receive_until(client, HEAD_END)
        assert (await ask(client, "/next")).endswith(b"/next")
    assert streamer.closed == 1


@virtual_time
async def test_live_answer_outlives_every_timeout(nursery: trio.Nursery) -> None:
    """An idle connection beside it is closed."""

    async def write(send: Send) -> None:
        await send(b"one")
        await trio.sleep(10 * IDLE_TIMEOUT_S)
        await send(b"two")

    listener = await serve_in_memory(nursery, server := new_server(Streamer(write, is_live=True)))
    idle, client = listener.connect(), listener.connect()
    await ask(idle, "/a")
    await client.send_all(STREAM)
    assert await receive_all(idle) == b""
    assert (await receive_until(client, LAST_CHUNK)).endswith(b"3\r\ntwo\r\n" + LAST_CHUNK)
    assert server.statistics.connections_timed_out == 1


@virtual_time
async def test_live_answer_is_not_evicted_for_a_new_connection(nursery: trio.Nursery) -> None:
    server = new_server(Streamer(write_one_and_wait, is_live=True), max_connections=1)
    listener = await serve_in_memory(nursery, server)
    client = listener.connect()
    await client.send_all(STREAM)
    await receive_until(client, b"one\r\n")
    await trio.sleep(10 * IDLE_TIMEOUT_S)
    newcomer = listener.connect()
    assert (await receive_all(newcomer)).startswith(b"HTTP/1.1 503")
    assert server.statistics.connections_open == 1
    assert server.statistics.connections_evicted == 0


@virtual_time
async def test_slow_reader_is_dropped_and_holds_one_part(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """The budget counts the part that waits, until the connection ends with a reason."""
    size, sent = 100_000, 0

    async def write(send: Send) -> None:
        nonlocal sent
        while True:
            await send(bytes(size))
            sent += 1

    caplog.set_level(logging.INFO)
    streamer = Streamer(write, is_live=True)
    server = new_server(streamer)
    await begin_stream(nursery, server, HEAD_END, lockstep_stream_pair)
    await trio.sleep(STALL_S / 2)
    assert server.memory.bytes_held == size - FREE_BYTES
    await trio.sleep(STALL_S)
    assert sent == 0
    assert server.memory.bytes_held == 0
    assert server.statistics.connections_broken == 1
    assert server.statistics.connections_open == 0
    assert streamer.closed == 1
    assert "has not read its answer for 7 s" in caplog.text


@virtual_time
async def test_part_without_memory_ends_its_connection(nursery: trio.Nursery) -> None:
    """One answer may exceed the budget, but then nobody else gets memory."""
    big = ROOM_BYTES + FREE_BYTES

    async def write(send: Send) -> None:
        await send(bytes(big))

    server = new_server(Streamer(write, is_live=True))
    listener = await serve_in_memory(nursery, server, MemoryListener(lockstep_stream_pair))
    clients = [listener.connect() for _ in range(3)]
    for client in clients:
        await client.send_all(STREAM)
        await receive_until(client, HEAD_END)
    assert await receive_all(clients[-1]) == b""
    assert server.statistics.requests_refused == 1


@pytest.mark.parametrize("more", [b"", GET])
async def test_lost_peer_ends_an_idle_live_answer(nursery: trio.Nursery, more: bytes) -> None:
    """The connection's place is free soon, even if the peer has sent another request."""
    streamer = Streamer(write_one_and_wait, is_live=True)
    server = new_server(streamer)
    client = await connect(await serve_on_loopback(nursery, server))
    await client.send_all(STREAM + more)
    await receive_until(client, b"one\r\n")
    await client.aclose()
    await until(lambda: server.statistics.connections_open == 0)
    assert streamer.is_cancelled
    assert streamer.closed == 1


@virtual_time
async def test_certificate_that_ends_also_ends_a_live_answer(nursery: trio.Nursery) -> None:
    streamer = Streamer(write_one_and_wait, is_live=True)
    server = new_server(streamer)
    client = await begin_stream(nursery, server)
    (connection,) = server._open
    connection.expires_at = -math.inf
    await trio.sleep(3 * SWEEP_SECONDS)
    assert await receive_all(client) == b""
    assert server.statistics.connections_expired == 1
    assert streamer.closed == 1


@virtual_time
async def test_drain_completes_a_live_answer(nursery: trio.Nursery) -> None:
    """The client gets the end of the body at once, and then the end of the connection."""
    streamer = Streamer(write_one_and_wait, is_live=True)
    server = new_server(streamer)
    client = await begin_stream(nursery, server)
    started = trio.current_time()
    await server.drain()
    assert await receive_all(client) == LAST_CHUNK
    assert trio.current_time() - started < 1
    assert streamer.closed == 1


@virtual_time
async def test_drain_does_not_cut_a_part(nursery: trio.Nursery) -> None:
    """The part that is being sent is completed, and then the body."""

    async def write(send: Send) -> None:
        while True:
            await send(b"one")

    server = new_server(Streamer(write, is_live=True))
    client = await begin_stream(nursery, server, HEAD_END, lockstep_stream_pair)
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(server.drain)
    await trio.testing.wait_all_tasks_blocked()
    assert await receive_all(client) == b"3\r\none\r\n" + LAST_CHUNK


@virtual_time
async def test_drain_waits_for_an_answer_that_has_an_end(nursery: trio.Nursery) -> None:
    async def write(send: Send) -> None:
        await send(b"one")
        await trio.sleep(DRAIN_TIMEOUT_S / 2)
        await send(b"two")

    server = new_server(Streamer(write))
    client = await begin_stream(nursery, server)
    await server.drain()
    assert await receive_all(client) == b"3\r\ntwo\r\n" + LAST_CHUNK


@virtual_time
async def test_answer_that_fails_is_cut_off(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """The client notices, because the end of the body is missing."""

    async def write(send: Send) -> None:
        await send(b"one")
        raise RuntimeError("a defect")

    for is_live in (False, True):
        streamer = Streamer(write, is_live=is_live)
        server = new_server(streamer)
        client = (await serve_in_memory(nursery, server)).connect()
        await client.send_all(STREAM)
        assert (await receive_all(client)).endswith(HEAD_END + b"3\r\none\r\n")
        assert server.statistics.connections_broken == 1
        assert streamer.closed == 1
    assert "a defect" in caplog.text


@virtual_time
async def test_server_that_is_cancelled_reports_no_fault(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    server = new_server(Streamer(write_one_and_wait, is_live=True))
    async with trio.open_nursery() as serving:
        await begin_stream(serving, server)
        serving.cancel_scope.cancel()
    assert caplog.text == ""
    assert server.statistics.connections_broken == 0


async def test_empty_part_waits_for_the_turn_of_the_next(nursery: trio.Nursery) -> None:
    """Of many answers that go on at the same moment, only some are in one turn of the loop."""
    goes_on, begun = trio.Event(), 0

    async def write(send: Send) -> None:
        nonlocal begun
        await send(b"one")
        await goes_on.wait()
        await send(b"")
        begun += 1
        await trio.lowlevel.checkpoint()
        await send(b"two")

    count = 40
    server = new_server(Streamer(write, is_live=True), max_connections=count)
    port = await serve_on_loopback(nursery, server)
    clients = [await connect(port) for _ in range(count)]
    for client in clients:
        await client.send_all(STREAM)
        await receive_until(client, b"one\r\n")
    goes_on.set()
    await trio.lowlevel.checkpoint()
    await trio.lowlevel.checkpoint()
    assert begun < count
    for client in clients:
        await receive_until(client, LAST_CHUNK)
        await client.aclose()
    assert begun == count


async def test_answer_that_cannot_begin_is_a_fault(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    closed = 0

    def close() -> None:
        nonlocal closed
        closed += 1

    async def handle(request: Request) -> StreamedResponse:
        return StreamedResponse(write=write_two_parts, close=close, headers=((b"A", b"\n"),))

    async with await connect(
        await serve_on_loopback(nursery, server := new_server(handle))
    ) as client:
        await client.send_all(STREAM)
        assert (await receive_all(client)).startswith(b"HTTP/1.1 500")
    assert server.statistics.requests_failed == 1
    assert closed == 1
