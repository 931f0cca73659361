"""The HTTP server: real sockets for what they do, memory streams where time passes."""

from __future__ import annotations

import errno
import logging
import math
import os
import socket
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
import trio.testing

from daemon.http_server import (
    ANSWER_BYTES_IN_A_TURN_MAX,
    ANSWERS_IN_A_TURN_MAX,
    Handler,
    HttpServer,
)
from protocol.http_head import HttpLimits
from protocol.http_messages import LOOPBACK_HOSTS, Request, Response

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEADER_TIMEOUT_S = 10
ROOM_BYTES = 1 << 20
IDLE_TIMEOUT_S = 60
DRAIN_TIMEOUT_S = 5
TICK_S = 0.5

StreamPair = tuple[trio.abc.HalfCloseableStream, trio.abc.HalfCloseableStream]


async def echo(request: Request) -> Response:
    """Answer with the request's path."""
    return Response(status=200, body=request.path.encode())


def new_server(
    handler: Handler = echo,
    *,
    max_connections: int = 10,
    body_bytes_max: int = 1000,
    room_bytes: int = ROOM_BYTES,
    turn_ms_max: float = math.inf,
) -> HttpServer:
    return HttpServer(
        name="decision HTTP",
        handler=handler,
        limits=HttpLimits(body_bytes_max=body_bytes_max),
        room_bytes=room_bytes,
        turn_ms_max=turn_ms_max,
        max_connections=max_connections,
        header_timeout_ms=HEADER_TIMEOUT_S * 1000,
        idle_timeout_ms=IDLE_TIMEOUT_S * 1000,
        drain_timeout_ms=DRAIN_TIMEOUT_S * 1000,
        allowed_hosts=LOOPBACK_HOSTS,
    )


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


async def start_in_memory(
    nursery: trio.Nursery, server: HttpServer, listener: MemoryListener | None = None
) -> MemoryListener:
    listener = listener or MemoryListener()
    await nursery.start(lambda task_status: server.serve([listener], task_status=task_status))
    return listener


async def start(nursery: trio.Nursery, server: HttpServer) -> int:
    """Return the port on which ``server`` serves."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listeners[0].socket.getsockname()[1]
    await nursery.start(lambda task_status: server.serve(listeners, task_status=task_status))
    return port


async def connect(port: int) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", port)


async def receive_until(stream: trio.abc.ReceiveStream, ending: bytes) -> bytes:
    data = b""
    with trio.fail_after(1000):
        while not data.endswith(ending):
            piece = await stream.receive_some()
            assert piece, f"ended after {data!r}"
            data += piece
    return data


async def receive_all(stream: trio.abc.ReceiveStream) -> bytes:
    with trio.fail_after(1000):
        return b"".join([piece async for piece in stream])


async def ask(stream: trio.abc.Stream, path: str) -> bytes:
    await stream.send_all(GET.replace(b"/", path.encode(), 1))
    return await receive_until(stream, b"\r\n\r\n" + path.encode())


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(5):
        while not condition():
            await trio.testing.wait_all_tasks_blocked(0.001)


async def test_a_connection_serves_one_request_after_another(nursery: trio.Nursery) -> None:
    """Keep-alive over a real socket, and the counters that tell of it."""
    server = new_server()
    async with await connect(await start(nursery, server)) as client:
        assert (await ask(client, "/a")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert (await ask(client, "/b")).endswith(b"/b")
        assert server.statistics.connections_open == 1
    await until(lambda: server.statistics.connections_open == 0)
    assert server.statistics.connections_accepted == 1
    assert server.statistics.requests == 2
    nursery.cancel_scope.cancel()


async def test_answers_leave_without_waiting_for_company(nursery: trio.Nursery) -> None:
    """TCP_NODELAY is set on what was accepted: a small answer is not held back."""
    handled = trio.Event()
    accepted: list[trio.SocketStream] = []

    class Listener(trio.abc.Listener[trio.SocketStream]):
        def __init__(self, listener: trio.SocketListener) -> None:
            self._listener = listener

        async def accept(self) -> trio.SocketStream:
            accepted.append(await self._listener.accept())
            handled.set()
            return accepted[-1]

        async def aclose(self) -> None:
            await self._listener.aclose()

    [inner] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(new_server().serve, [Listener(inner)])
    async with await connect(inner.socket.getsockname()[1]):
        await handled.wait()
        assert accepted[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    nursery.cancel_scope.cancel()


async def test_a_body_larger_than_any_buffer_arrives_and_leaves_whole(
    nursery: trio.Nursery,
) -> None:
    """Reads and writes go on where the kernel took or gave only a part."""
    size = 8_000_000

    async def reverse(request: Request) -> Response:
        return Response(status=200, body=request.body[::-1])

    server = HttpServer(
        name="big",
        handler=reverse,
        limits=HttpLimits(body_bytes_max=size),
        room_bytes=4 * size,
        turn_ms_max=math.inf,
        max_connections=1,
        header_timeout_ms=60_000,
        idle_timeout_ms=60_000,
        drain_timeout_ms=1,
        allowed_hosts=None,
    )
    body = bytes(range(250)) * (size // 250)
    async with await connect(await start(nursery, server)) as client:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        await client.send_all(head % size + body)
        assert (await receive_all(client)).endswith(b"\r\n\r\n" + body[::-1])
    nursery.cancel_scope.cancel()


def recorded_pair(sends: list[bytes]) -> StreamPair:
    """Return a pair whose second stream notes what each of its sends sent."""
    ours, theirs = trio.testing.memory_stream_pair()

    async def record() -> None:
        sends.append(bytes(theirs.send_stream.get_data_nowait()))

    theirs.send_stream.send_all_hook = record
    return ours, theirs


async def test_pipelined_requests_are_answered_in_one_send(nursery: trio.Nursery) -> None:
    """What came together is answered together, in order; a turn's worth at a time."""
    sends: list[bytes] = []
    listener = MemoryListener(partial(recorded_pair, sends))
    await start_in_memory(nursery, new_server(), listener)
    count = ANSWERS_IN_A_TURN_MAX + 3
    requests = [GET.replace(b"/", b"/%d" % number, 1) for number in range(count)]
    await listener.connect().send_all(b"".join(requests))
    await trio.testing.wait_all_tasks_blocked()
    assert [data.count(b"HTTP/1.1 200 OK") for data in sends] == [ANSWERS_IN_A_TURN_MAX, 3]
    bodies = [answer.split(b"\r\n\r\n")[1] for answer in b"".join(sends).split(b"HTTP")[1:]]
    assert bodies == [b"/%d" % number for number in range(count)]
    nursery.cancel_scope.cancel()


async def test_large_answers_do_not_wait_for_each_other(nursery: trio.Nursery) -> None:
    """What is held for one peer is bounded in bytes too."""

    async def answer_at_length(request: Request) -> Response:
        return Response(status=200, body=bytes(ANSWER_BYTES_IN_A_TURN_MAX // 2))

    sends: list[bytes] = []
    listener = MemoryListener(partial(recorded_pair, sends))
    await start_in_memory(nursery, new_server(answer_at_length), listener)
    await listener.connect().send_all(GET * 5)
    await trio.testing.wait_all_tasks_blocked()
    assert [data.count(b"HTTP/1.1 200 OK") for data in sends] == [2, 2, 1]
    nursery.cancel_scope.cancel()


async def test_others_have_their_turn_between_many_pipelined_requests(
    nursery: trio.Nursery,
) -> None:
    """One peer's requests hold the loop for a turn's worth of them at most."""
    count = 1000
    handled = longest = 0
    all_handled = trio.Event()

    async def count_request(request: Request) -> Response:
        nonlocal handled
        handled += 1
        if handled == count:
            all_handled.set()
        return Response(status=200, body=b"")

    async def watch() -> None:
        nonlocal longest
        while True:
            before = handled
            await trio.lowlevel.checkpoint()
            longest = max(longest, handled - before)

    async with await connect(await start(nursery, new_server(count_request))) as client:
        nursery.start_soon(watch)
        await client.send_all(GET * count)
        with trio.fail_after(5):
            await all_handled.wait()
    # The loop shuffles its tasks, so two turns of one may come between two of another.
    assert 1 < longest <= 2 * ANSWERS_IN_A_TURN_MAX
    nursery.cancel_scope.cancel()


async def test_a_fault_in_a_handler_is_told_to_the_log_alone(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """The peer gets a plain 500 and the end; the daemon and other connections go on."""

    async def fail(request: Request) -> Response:
        if request.path == "/good":
            return await echo(request)
        raise RuntimeError("secret")

    server = new_server(fail)
    port = await start(nursery, server)
    async with await connect(port) as other, await connect(port) as client:
        await client.send_all(GET + GET)
        answer = await receive_all(client)
        assert answer == (
            b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\n"
            b"Content-Length: 15\r\nConnection: close\r\n\r\ninternal error\n"
        )
        assert await ask(other, "/good")
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "decision HTTP: no answer to GET /"
    assert server.statistics.requests_failed == 1
    nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("caplog")
async def test_a_header_that_would_break_its_line_is_a_fault_of_the_handler(
    nursery: trio.Nursery,
) -> None:
    """Nothing of such a response is sent."""

    async def split(request: Request) -> Response:
        return Response(status=200, body=b"", headers=((b"X", b"a\r\nSet-Cookie: b"),))

    async with await connect(await start(nursery, new_server(split))) as client:
        await client.send_all(GET)
        answer = await receive_all(client)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"Set-Cookie" not in answer
    nursery.cancel_scope.cancel()


async def test_a_bad_request_is_answered_and_ends_the_connection(nursery: trio.Nursery) -> None:
    """After the answers to the good ones before it, and though its body is still being sent."""
    server = new_server()
    async with await connect(await start(nursery, server)) as client:
        too_large = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n" + b"a" * 1001
        await client.send_all(GET + too_large + GET)
        answer = await receive_all(client)
    first, second = answer.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200 OK")
    assert second.startswith(b"413 ")
    assert second.endswith(b"Connection: close\r\n\r\nrequest body too large\n")
    assert (server.statistics.requests, server.statistics.requests_bad) == (1, 1)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("host", [b"Host: evil.example\r\n", b"Host:\r\n", b""])
async def test_a_host_that_is_not_allowed_is_refused(nursery: trio.Nursery, host: bytes) -> None:
    """A page of evil.example, resolved to 127.0.0.1, gets nothing out of a reader's daemon."""
    server = new_server()
    async with await connect(await start(nursery, server)) as client:
        version = b"1.1" if host else b"1.0"
        await client.send_all(b"GET /secret HTTP/%b\r\n%b\r\n" % (version, host))
        answer = await receive_all(client)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert answer.endswith(b"Connection: close\r\n\r\nhost not allowed\n")
    nursery.cancel_scope.cancel()


async def test_leave_to_send_a_body_is_given_before_it_comes(nursery: trio.Nursery) -> None:
    """Expect: 100-continue."""
    async with await connect(await start(nursery, new_server())) as client:
        await client.send_all(
            b"POST /p HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            b"Content-Length: 3\r\n\r\n"
        )
        assert await receive_until(client, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send_all(b"abc")
        assert (await receive_until(client, b"/p")).startswith(b"HTTP/1.1 200 ")
    nursery.cancel_scope.cancel()


async def test_too_many_connections_are_refused_at_once(nursery: trio.Nursery) -> None:
    """The one above the bound gets 503 without being read; a place that falls free is given."""
    server = new_server(max_connections=2)
    port = await start(nursery, server)
    async with await connect(port) as first:
        async with await connect(port) as second:
            await ask(first, "/a")
            await ask(second, "/b")
            async with await connect(port) as third:
                await third.send_all(GET)
                answer = await receive_all(third)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert answer.endswith(b"Connection: close\r\n\r\ntoo many connections\n")
        await until(lambda: server.statistics.connections_open == 1)
        async with await connect(port) as fourth:
            await ask(fourth, "/d")
    assert server.statistics.connections_refused == 1
    nursery.cancel_scope.cancel()


async def test_a_flood_of_connections_is_refused(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Each is told; how many of them, and how long, are waited for is bounded."""
    server = new_server(max_connections=0)
    listener = await start_in_memory(nursery, server)
    clients = [listener.connect() for _ in range(100)]
    await trio.testing.wait_all_tasks_blocked()
    started = trio.current_time()
    answers = [await receive_all(client) for client in clients]
    assert [answer[:12] for answer in answers] == [b"HTTP/1.1 503"] * 100
    assert trio.current_time() - started < 2
    assert server.statistics.connections_refused == 100
    await trio.sleep(2)
    assert (await receive_all(listener.connect())).startswith(b"HTTP/1.1 503 ")
    nursery.cancel_scope.cancel()


async def test_a_request_that_takes_too_long_to_arrive_is_given_up(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """A byte now and then does not keep it alive: the time is the whole request's."""
    server = new_server()
    client = (await start_in_memory(nursery, server)).connect()
    await trio.sleep(HEADER_TIMEOUT_S * 2)
    started = trio.current_time()

    async def drip() -> None:
        for byte in GET * 100:
            await client.send_all(bytes([byte]))
            await trio.sleep(1)

    async with trio.open_nursery() as dripping:
        dripping.start_soon(drip)
        answer = await receive_until(client, b"request timed out\n")
        dripping.cancel_scope.cancel()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"\r\nConnection: close\r\n" in answer
    assert HEADER_TIMEOUT_S <= trio.current_time() - started <= HEADER_TIMEOUT_S + TICK_S
    await trio.sleep(2)
    assert server.statistics.connections_timed_out == 1
    assert server.statistics.connections_open == 0
    nursery.cancel_scope.cancel()


async def test_time_spent_before_a_request_does_not_count_for_the_next(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """The clock of a request starts with its own first byte, even if that came with another."""
    client = (await start_in_memory(nursery, new_server())).connect()
    for _ in range(5):
        await client.send_all(GET[:10])
        await trio.sleep(HEADER_TIMEOUT_S - 1)
        await client.send_all(GET[10:] + GET[:10])
        await receive_until(client, b"/")
        await trio.sleep(HEADER_TIMEOUT_S - 1)
        await client.send_all(GET[10:])
        await receive_until(client, b"/")
    nursery.cancel_scope.cancel()


async def test_an_idle_connection_is_closed_without_a_word(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """A client that is between requests would take a 408 for the answer to its next."""
    server = new_server()
    client = (await start_in_memory(nursery, server)).connect()
    await trio.sleep(IDLE_TIMEOUT_S - 1)
    await ask(client, "/a")
    started = trio.current_time()
    assert await receive_all(client) == b""
    assert IDLE_TIMEOUT_S <= trio.current_time() - started <= IDLE_TIMEOUT_S + TICK_S
    assert server.statistics.connections_timed_out == 1
    nursery.cancel_scope.cancel()


async def test_a_handler_takes_the_time_it_takes(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Only the peer's slowness is timed."""

    async def sleep(request: Request) -> Response:
        await trio.sleep(IDLE_TIMEOUT_S * 10)
        return await echo(request)

    client = (await start_in_memory(nursery, new_server(sleep))).connect()
    assert await ask(client, "/a")
    nursery.cancel_scope.cancel()


async def test_a_peer_that_does_not_read_is_not_read_from_and_is_dropped(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Answers do not pile up: the server waits with them, reads no more, then closes."""
    server = new_server()
    listener = await start_in_memory(
        nursery, server, MemoryListener(trio.testing.lockstep_stream_pair)
    )
    client = listener.connect()
    await client.send_all(GET)
    with trio.move_on_after(IDLE_TIMEOUT_S / 2) as waited:
        await client.send_all(GET)
    assert waited.cancelled_caught
    assert server.statistics.requests == 1
    await trio.sleep(IDLE_TIMEOUT_S)
    assert server.statistics.connections_open == 0
    assert server.statistics.connections_timed_out == 1
    nursery.cancel_scope.cancel()


async def test_draining_finishes_what_is_under_way_and_closes_the_rest(
    nursery: trio.Nursery,
) -> None:
    """Half a request is answered once whole, and told that it was the last; nothing new begins."""
    release = trio.Event()

    async def wait(request: Request) -> Response:
        if request.path == "/slow":
            await release.wait()
        return await echo(request)

    server = new_server(wait)
    port = await start(nursery, server)
    async with (
        await connect(port) as idle,
        await connect(port) as half,
        await connect(port) as slow,
    ):
        await ask(idle, "/a")
        await half.send_all(GET[:10])
        await slow.send_all(GET.replace(b"/", b"/slow", 1))
        await until(lambda: server.statistics.requests == 2)
        async with trio.open_nursery() as drains:
            drains.start_soon(server.drain)
            assert await receive_all(idle) == b""
            with pytest.raises(OSError, match="127"):
                await connect(port)
            await half.send_all(GET[10:])
            assert (await receive_all(half)).endswith(b"\r\nConnection: close\r\n\r\n/")
            release.set()
            assert (await receive_all(slow)).endswith(b"\r\nConnection: close\r\n\r\n/slow")
            for client in (half, slow):
                await client.aclose()
    assert server.statistics.connections_open == 0


async def test_a_request_that_had_arrived_is_under_way_when_draining_begins(
    nursery: trio.Nursery,
) -> None:
    """Though the server has not looked at it yet."""
    server = new_server()
    async with await connect(await start(nursery, server)) as client:
        await ask(client, "/a")

        async def send_and_drain() -> None:
            os.write(client.socket.fileno(), GET)
            await server.drain()

        nursery.start_soon(send_and_drain)
        assert (await receive_all(client)).endswith(b"\r\nConnection: close\r\n\r\n/")


async def test_an_answer_being_sent_when_draining_begins_is_the_last(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """It went without saying so; the connection ends all the same, at once."""
    server = new_server()
    listener = await start_in_memory(
        nursery, server, MemoryListener(trio.testing.lockstep_stream_pair)
    )
    client = listener.connect()
    await client.send_all(GET)
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(server.drain)
    await trio.testing.wait_all_tasks_blocked()
    started = trio.current_time()
    assert (await receive_all(client)).endswith(b"\r\n\r\n/")
    assert trio.current_time() - started < 1


async def test_draining_ends_in_time(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """A handler or a peer that never ends is cut, and ``serve`` returns."""
    cancelled = trio.Event()

    async def hang(request: Request) -> Response:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    server = new_server(hang)
    listener = await start_in_memory(nursery, server)
    half, hanging = listener.connect(), listener.connect()
    await half.send_all(GET[:10])
    await hanging.send_all(GET)
    await trio.testing.wait_all_tasks_blocked()
    started = trio.current_time()
    await server.drain()
    assert trio.current_time() - started == pytest.approx(DRAIN_TIMEOUT_S)
    assert await receive_all(half) == b""
    assert await receive_all(hanging) == b""
    assert cancelled.is_set()
    await trio.testing.wait_all_tasks_blocked()
    assert nursery.child_tasks == frozenset()


async def test_a_server_that_never_served_is_drained_already() -> None:
    """A daemon told to stop while it loads does not wait for its servers."""
    server = new_server()
    with trio.fail_after(1):
        await server.drain()
        await server.serve([MemoryListener()])


async def test_cancelling_the_server_cancels_its_handlers(nursery: trio.Nursery) -> None:
    """Cancellation is no fault of the handler: it passes, and nothing is answered."""
    ended = trio.Event()
    begun = trio.Event()

    async def hang(request: Request) -> Response:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    server = new_server(hang)
    client = (await start_in_memory(nursery, server)).connect()
    await client.send_all(GET)
    await begun.wait()
    nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True), trio.fail_after(1):
        await ended.wait()
        assert await receive_all(client) == b""
    assert server.statistics.requests_failed == 0


async def test_running_out_of_descriptors_does_not_end_the_server(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """EMFILE is waited out."""
    listener = await start_in_memory(nursery, new_server())
    listener.fail(OSError(errno.EMFILE, "too many open files"))
    assert await ask(listener.connect(), "/a")
    nursery.cancel_scope.cancel()


async def test_a_peer_that_resets_its_connection_harms_nobody(nursery: trio.Nursery) -> None:
    """A reset while an answer is under way ends that connection alone."""
    begun = trio.Event()
    release = trio.Event()

    async def wait(request: Request) -> Response:
        if request.path == "/gone":
            begun.set()
            await release.wait()
        return await echo(request)

    server = new_server(wait)
    port = await start(nursery, server)
    async with await connect(port) as other:
        gone = await connect(port)
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await gone.send_all(GET.replace(b"/", b"/gone", 1))
        await begun.wait()
        await gone.aclose()
        release.set()
        await until(lambda: server.statistics.connections_open == 1)
        assert await ask(other, "/a")
    nursery.cancel_scope.cancel()


def test_a_handler_is_any_async_callable() -> None:
    """An object with ``async __call__`` serves as well as a function."""

    class Handles:
        def __call__(self, request: Request) -> Awaitable[Response]:
            return echo(request)

    assert new_server(Handles()).statistics.requests == 0
