"""The HTTP server over its connections: which requests are answered, and when."""

import logging
import math
import socket
from functools import partial

import pytest
import trio
import trio.testing

from authorizerd.daemon.http.server import ANSWER_BYTES_IN_A_TURN_MAX, REQUEST_NS
from authorizerd.daemon.net.connection_server import SWEEP_SECONDS
from authorizerd.daemon.net.turns import WORK_NS
from authorizerd.protocol.http.messages import Request, Response
from tests.daemon.http_service import (
    GET,
    ask,
    connect,
    echo,
    new_server,
    receive_all,
    receive_until,
    until,
)
from tests.daemon.serving import MemoryListener, StreamPair, serve_in_memory, serve_on_loopback

ANSWERS_IN_A_TURN_MAX = WORK_NS // REQUEST_NS


@pytest.mark.usefixtures("autojump_clock")
async def test_client_that_never_pauses_ends_with_its_certificate(nursery: trio.Nursery) -> None:
    """The daemon first sends the answers to requests that it has judged before."""
    goes_on = trio.Event()

    async def wait(request: Request) -> Response:
        await goes_on.wait()
        return await echo(request)

    server = new_server(wait)
    stream = (await serve_in_memory(nursery, server)).connect()
    await stream.send_all(3 * ANSWERS_IN_A_TURN_MAX * GET)
    await trio.testing.wait_all_tasks_blocked()
    (connection,) = server._open
    connection.expires_at = -math.inf
    await trio.sleep(3 * SWEEP_SECONDS)
    goes_on.set()
    answers = await receive_all(stream)
    assert [answers.count(b"HTTP/1.1 %d" % status) for status in (200, 401)] == [1, 1]
    assert server.statistics.connections_expired == 1


async def test_connection_is_kept_alive_between_requests(nursery: trio.Nursery) -> None:
    server = new_server()
    async with await connect(await serve_on_loopback(nursery, server)) as client:
        assert (await ask(client, "/a")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert (await ask(client, "/b")).endswith(b"/b")
        assert server.statistics.connections_open == 1
    await until(lambda: server.statistics.connections_open == 0)
    assert server.statistics.connections_accepted == 1
    assert server.statistics.requests == 2


async def test_small_answers_are_sent_at_once(nursery: trio.Nursery) -> None:
    """TCP_NODELAY is set on accepted sockets."""
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


async def test_body_larger_than_a_buffer_is_received_and_sent_whole(nursery: trio.Nursery) -> None:
    size = 8_000_000

    async def reverse(request: Request) -> Response:
        return Response(status=200, body=request.body[::-1])

    server = new_server(reverse, body_bytes_max=size, memory_bytes_max=4 * size)
    body = bytes(range(250)) * (size // 250)
    async with await connect(await serve_on_loopback(nursery, server)) as client:
        head = b"Host: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size
        await client.send_all(b"POST / HTTP/1.1\r\n" + head + body)
        assert (await receive_all(client)).endswith(b"\r\n\r\n" + body[::-1])


def recorded_pair(sends: list[bytes]) -> StreamPair:
    """Return a pair of streams; the second one records each of its sends."""
    ours, theirs = trio.testing.memory_stream_pair()

    async def record() -> None:
        sends.append(bytes(theirs.send_stream.get_data_nowait()))

    theirs.send_stream.send_all_hook = record
    return ours, theirs


async def test_pipelined_requests_are_answered_in_one_send(nursery: trio.Nursery) -> None:
    """One send has at most as many answers as one turn allows, in order."""
    sends: list[bytes] = []
    listener = MemoryListener(partial(recorded_pair, sends))
    await serve_in_memory(nursery, new_server(), listener)
    count = ANSWERS_IN_A_TURN_MAX + 3
    requests = [GET.replace(b"/", b"/%d" % number, 1) for number in range(count)]
    await listener.connect().send_all(b"".join(requests))
    await trio.testing.wait_all_tasks_blocked()
    assert [data.count(b"HTTP/1.1 200 OK") for data in sends] == [ANSWERS_IN_A_TURN_MAX, 3]
    bodies = [answer.split(b"\r\n\r\n")[1] for answer in b"".join(sends).split(b"HTTP")[1:]]
    assert bodies == [b"/%d" % number for number in range(count)]


async def test_large_answers_are_sent_one_by_one(nursery: trio.Nursery) -> None:
    """The memory held for one peer is bounded in bytes too."""

    async def answer_at_length(request: Request) -> Response:
        return Response(status=200, body=bytes(ANSWER_BYTES_IN_A_TURN_MAX // 2))

    sends: list[bytes] = []
    listener = MemoryListener(partial(recorded_pair, sends))
    await serve_in_memory(nursery, new_server(answer_at_length), listener)
    await listener.connect().send_all(GET * 5)
    await trio.testing.wait_all_tasks_blocked()
    assert [data.count(b"HTTP/1.1 200 OK") for data in sends] == [2, 2, 1]


async def test_many_pipelined_requests_yield_to_other_tasks(nursery: trio.Nursery) -> None:
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

    async with await connect(await serve_on_loopback(nursery, new_server(count_request))) as client:
        nursery.start_soon(watch)
        await client.send_all(GET * count)
        with trio.fail_after(5):
            await all_handled.wait()
    # trio shuffles its tasks, so a task may get two turns between two turns of another.
    assert 1 < longest <= 2 * ANSWERS_IN_A_TURN_MAX


async def test_handler_fault_is_logged_and_answered_with_500(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """Only that connection ends."""

    async def fail(request: Request) -> Response:
        if request.path == "/good":
            return await echo(request)
        raise RuntimeError("secret")

    server = new_server(fail)
    port = await serve_on_loopback(nursery, server)
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


async def test_bad_request_is_answered_and_ends_the_connection(nursery: trio.Nursery) -> None:
    """Earlier valid requests are answered first; the rest of the body is not awaited."""
    server = new_server()
    async with await connect(await serve_on_loopback(nursery, server)) as client:
        too_large = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n" + b"a" * 1001
        await client.send_all(GET + too_large + GET)
        answer = await receive_all(client)
    first, second = answer.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200 OK")
    assert second.startswith(b"413 ")
    assert second.endswith(b"Connection: close\r\n\r\nrequest body too large\n")
    assert (server.statistics.requests, server.statistics.requests_bad) == (1, 1)


@pytest.mark.parametrize("host", [b"Host: evil.example\r\n", b"Host:\r\n", b""])
async def test_host_that_is_not_allowed_is_refused(nursery: trio.Nursery, host: bytes) -> None:
    """A page of evil.example, which resolves to 127.0.0.1, cannot use its visitor's daemon."""
    server = new_server()
    async with await connect(await serve_on_loopback(nursery, server)) as client:
        version = b"1.1" if host else b"1.0"
        await client.send_all(b"GET /secret HTTP/%b\r\n%b\r\n" % (version, host))
        answer = await receive_all(client)
    assert answer.startswith(b"HTTP/1.1 403 ")
    found = b"evil.example" if b"evil" in host else b""
    assert answer.endswith(
        b"Connection: close\r\n\r\nhost not allowed: authorizerd.decision HTTP: expected a request "
        b"for localhost, 127.0.0.1 or [::1] on any port, found Host '%b': use one of these in the "
        b"URL, or let the proxy set it\n" % found
    )


async def test_expect_100_continue_is_answered(nursery: trio.Nursery) -> None:
    async with await connect(await serve_on_loopback(nursery, new_server())) as client:
        await client.send_all(
            b"POST /p HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            b"Content-Length: 3\r\n\r\n"
        )
        assert await receive_until(client, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send_all(b"abc")
        assert (await receive_until(client, b"/p")).startswith(b"HTTP/1.1 200 ")


async def test_connection_above_the_limit_gets_503_unread(nursery: trio.Nursery) -> None:
    server = new_server(max_connections=2)
    port = await serve_on_loopback(nursery, server)
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


async def test_drain_answers_requests_under_way_and_closes_others(nursery: trio.Nursery) -> None:
    """A half-sent request is answered once complete, with Connection: close; no other begins."""
    release = trio.Event()

    async def wait(request: Request) -> Response:
        if request.path == "/slow":
            await release.wait()
        return await echo(request)

    server = new_server(wait)
    port = await serve_on_loopback(nursery, server)
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
