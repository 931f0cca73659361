"""Requests that the Selector, or a connection's task, answers at once, next to all others."""

import os
import random
import socket
import struct
from collections.abc import Awaitable, Sequence

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.config.bounds import FREE_BYTES
from authorizerd.daemon.http.server import HttpServer
from authorizerd.daemon.net import selector
from authorizerd.protocol.http.messages import Request, Response, text_response
from tests.daemon.http_service import connect, new_server, receive_all, receive_until, until
from tests.daemon.serving import send_pieces, serve_in_memory, serve_on_loopback, split_at
from tests.support.sizes import size

NO_MEMORY = b"memory limit reached: retry later, or send smaller requests\n"


def respond(body: bytes) -> Response:
    """Return the text backwards; ``!`` is refused, and ``?`` ends in a fault."""
    if body.startswith(b"!"):
        return text_response(403, "forbidden")
    if body.startswith(b"?"):
        raise ZeroDivisionError
    return Response(status=200, body=body[::-1], content_type="text/x")


async def answer_later(request: Request) -> Response:
    return respond(request.body)


def handle(request: Request) -> Response | Awaitable[Response]:
    """Answer POST at once, except bodies that begin with ``~``."""
    is_later = request.method != "POST" or request.body.startswith(b"~")
    return answer_later(request) if is_later else respond(request.body)


def post(
    body: bytes, *headers: bytes, version: bytes = b"1.1", host: bytes = b"localhost"
) -> bytes:
    lines = [b"POST / HTTP/" + version, b"Host: " + host, b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*lines, *headers, b"", body])


REQUESTS = st.one_of(
    st.builds(post, st.binary(max_size=30)),
    st.builds(post, st.sampled_from([b"a", b"", b"!x", b"~x", b"?x", bytes(900), bytes(1100)])),
    st.builds(
        lambda body, header, version, host: post(body, header, version=version, host=host),
        st.binary(max_size=5),
        st.sampled_from(
            [
                b"X: 1", b"Connection: close", b"Connection: keep-alive", b"Expect: 100-continue",
                b"Expect: x", b"X: " + bytes(20), b"Content-Length: 1", b"Upgrade: h2c",
                b"X: " + b"x" * 1024,
            ]
        ),
        st.sampled_from([b"1.1", b"1.0", b"2.0"]),
        st.sampled_from([b"localhost", b"127.0.0.1:80", b"evil.example"]),
    ),
    st.sampled_from(
        [
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\nab\r\n0\r\n\r\n",
            b"\r\n",
            b"\r\n\r\n",
            b"nonsense\r\n\r\n",
        ]
    ),
)  # fmt: skip


async def answers_to(server: HttpServer, pieces: Sequence[bytes], *, in_memory: bool) -> bytes:
    """Return all that a server of its own sends to a client that sends these pieces."""
    async with trio.open_nursery() as nursery:
        client: trio.abc.HalfCloseableStream
        if in_memory:
            client = (await serve_in_memory(nursery, server)).connect()
        else:
            client = await connect(await serve_on_loopback(nursery, server))
        received = await send_pieces(client, pieces, receive_all)
        nursery.cancel_scope.cancel()
    return received


@settings(max_examples=size(10, 60), deadline=None)
@given(requests=st.lists(REQUESTS, min_size=1, max_size=6), data=st.data())
async def test_answers_ignore_split_and_path(requests: list[bytes], data: st.DataObject) -> None:
    """The Selector, a task that answers at once, and one that waits give the same bytes."""
    stream = b"".join(requests)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=5))
    split = split_at(requests, cuts)
    servers = [new_server(handle) for _ in range(3)] + [new_server(answer_later)]
    asked = [(split, False), (split, True), ([stream], False), (split, False)]
    answers = [
        await answers_to(server, pieces, in_memory=in_memory)
        for server, (pieces, in_memory) in zip(servers, asked, strict=True)
    ]
    assert answers[0] == answers[1] == answers[2] == answers[3]
    counts = [
        (seen.requests, seen.requests_bad, seen.requests_failed)
        for seen in (server.statistics for server in servers)
    ]
    assert len(set(counts)) == 1


@pytest.mark.parametrize("in_memory", [False, True])
async def test_complete_request_needs_no_task(
    in_memory: bool, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the tests of equal answers would compare nothing."""

    async def never(_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("authorizerd.daemon.http.server._Conversation._answer_all", never)
    server = new_server(handle)
    client: trio.abc.Stream
    if in_memory:
        client = (await serve_in_memory(nursery, server)).connect()
    else:
        client = await connect(await serve_on_loopback(nursery, server))
    for body in (b"ab", b"!", b"cd"):
        await client.send_all(post(body))
        answer = await receive_until(client, b"forbidden\n" if body == b"!" else body[::-1])
        assert answer.startswith(b"HTTP/1.1 403" if body == b"!" else b"HTTP/1.1 200")
    assert server.statistics.requests == 3
    assert server._open.popitem()[0].is_established
    await client.aclose()


async def test_silent_connection_times_out_while_the_selector_has_it(nursery: trio.Nursery) -> None:
    """The idle time begins again with a request that is answered at once."""
    server = new_server(handle)
    port = await serve_on_loopback(nursery, server)
    async with await connect(port) as client:
        await client.send_all(post(b"a"))
        await receive_until(client, b"a")
        (connection,) = server._open
        assert connection.since == server.next_sweep
        connection.since -= 1000
        assert await receive_all(client) == b""
    assert server.statistics.connections_timed_out == 1


async def test_large_answers_respect_the_memory_limit(nursery: trio.Nursery) -> None:
    """A peer that does not read keeps the memory of its answer's rest; others are refused."""
    size = 16 * 1024 * 1024

    def answer(request: Request) -> Response:
        body = request.body
        return Response(200, bytes(size) if body == b"large" else body)

    server = new_server(answer, memory_bytes_max=FREE_BYTES)
    port = await serve_on_loopback(nursery, server)
    async with await connect(port) as slow, await connect(port) as other:
        await slow.send_all(post(b"large"))
        await until(lambda: server.memory.bytes_held > 0)
        await other.send_all(post(b"large"))
        refused = await receive_until(other, NO_MEMORY)
        assert refused.startswith(b"HTTP/1.1 503 ")
        await other.send_all(post(b"small"))
        await receive_until(other, b"small")
        received = 0
        while received < size:
            received += len(await slow.receive_some())
        await until(lambda: server.memory.bytes_held == 0)
        await slow.send_all(post(b"small"))
        await receive_until(slow, b"small")
    assert server.statistics.requests_refused == 1


class Crowd:
    """Clients that ask, leave and vanish at random moments."""

    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.random = random.Random(seed)
        self.is_draining = False
        self.answered = 0

    async def ask(self, client: socket.socket, *, was_answered: bool) -> bool:
        """Ask, and return False if no more answers come on this connection."""
        beginning = b"a" if self.random.random() < 0.8 else b"~"
        body = beginning + self.random.randbytes(self.random.choice([1, 100, 5000, 60_000]))
        must_answer = False
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(client))
        received = b""
        try:
            await stream.send_all(post(body))
            # Before its first answer, a connection may still wait to be accepted.
            must_answer = was_answered and not self.is_draining
            while not (received and received.endswith(respond(body).body)):
                data = await stream.receive_some()
                if not data:
                    break
                received += data
        except trio.BrokenResourceError:
            pass
        if not received:
            assert self.is_draining
            assert not must_answer
            return False
        assert received.endswith(b"\r\n\r\n" + respond(body).body)
        self.answered += 1
        return b"Connection: close" not in received

    async def live(self) -> None:
        """Be one client: ask several times, and end in one of several ways."""
        with socket.create_connection(("127.0.0.1", self.port)) as client:
            client.setblocking(False)
            for number in range(self.random.randrange(6)):
                if not await self.ask(client, was_answered=number > 0):
                    return
            way = self.random.randrange(4)
            if way:
                client.send(post(b"unread")[: self.random.choice([1, 30, 1000])])
            if way > 1:
                # Closing sends a reset.
                linger = struct.pack("ii", 1, 0)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            if way == 3:
                await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("seed", range(8))
async def test_no_answer_and_no_descriptor_is_lost(seed: int) -> None:
    """Clients reset, the server evicts and drains: each answer that begins is complete."""
    descriptors = len(os.listdir("/proc/self/fd"))
    server = new_server(handle, max_connections=100, body_bytes_max=100_000)
    async with trio.open_nursery() as nursery:
        crowd = Crowd(await serve_on_loopback(nursery, server), seed)
        async with trio.open_nursery() as clients:

            async def drain() -> None:
                await until(lambda: crowd.answered > 20)
                crowd.is_draining = True
                await server.drain()
                clients.cancel_scope.cancel()

            clients.start_soon(drain)
            for _ in range(60):
                clients.start_soon(crowd.live)
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert server.statistics.connections_open == 0
    assert server.memory.bytes_held == 0
    assert len(os.listdir("/proc/self/fd")) <= descriptors


async def test_drain_answers_what_has_arrived_at_the_selector(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many connections have sent a request, the drain ends none before its answer."""
    monkeypatch.setattr(selector, "TURN_NS_MAX", 0)  # one request in a turn
    server = new_server(handle, max_connections=200)
    port = await serve_on_loopback(nursery, server)
    clients = [await connect(port) for _ in range(150)]
    for client in clients:
        await client.send_all(post(b"ab"))
        await receive_until(client, b"ba")

    async def send_and_drain() -> None:
        for client in clients:
            os.write(client.socket.fileno(), post(b"cd"))
        await server.drain()

    nursery.start_soon(send_and_drain)
    for client in clients:
        assert (await receive_all(client)).endswith(b"Connection: close\r\n\r\ndc")
        await client.aclose()
