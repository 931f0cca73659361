"""The limits of the HTTP server: connections, and the time that a peer may take."""

from __future__ import annotations

import errno

import trio
import trio.testing

from authorizerd.protocol.http.messages import Request, Response
from tests.daemon.http_service import (
    GET,
    HEADER_TIMEOUT_S,
    IDLE_TIMEOUT_S,
    LOGIN_TIMEOUT_S,
    TICK_S,
    MemoryListener,
    ask,
    connect,
    echo,
    new_server,
    receive_all,
    receive_until,
    start,
    start_in_memory,
    until,
)


async def test_connection_above_the_limit_gets_503_unread(nursery: trio.Nursery) -> None:
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


async def test_flood_of_connections_is_refused(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Each connection gets an answer. The server waits for few clients to read it, and briefly."""
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


async def test_request_that_arrives_too_slowly_times_out(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Single bytes do not extend the limit."""
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


async def test_request_time_starts_with_its_first_byte(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """This holds even if that byte came together with the previous request."""
    client = (await start_in_memory(nursery, new_server())).connect()
    for _ in range(5):
        await client.send_all(GET[:10])
        await trio.sleep(HEADER_TIMEOUT_S - 1)
        await client.send_all(GET[10:] + GET[:10])
        await receive_until(client, b"/")
        await trio.sleep(HEADER_TIMEOUT_S - 1)
        await client.send_all(GET[10:])
        await receive_until(client, b"/")


async def test_idle_connection_is_closed_unanswered(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """A client would take a 408 for the answer to its next request."""
    server = new_server()
    client = (await start_in_memory(nursery, server)).connect()
    await trio.sleep(IDLE_TIMEOUT_S - 1)
    await ask(client, "/a")
    started = trio.current_time()
    assert await receive_all(client) == b""
    assert IDLE_TIMEOUT_S <= trio.current_time() - started <= IDLE_TIMEOUT_S + TICK_S
    assert server.statistics.connections_timed_out == 1


async def test_handler_time_is_not_limited(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:

    async def sleep(request: Request) -> Response:
        await trio.sleep(IDLE_TIMEOUT_S * 10)
        return await echo(request)

    client = (await start_in_memory(nursery, new_server(sleep))).connect()
    assert await ask(client, "/a")


async def test_peer_that_does_not_read_is_not_read_from_and_is_closed(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
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


async def test_accept_is_retried_when_descriptors_run_out(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    listener = await start_in_memory(nursery, new_server())
    listener.fail(OSError(errno.EMFILE, "too many open files"))
    assert await ask(listener.connect(), "/a")


async def test_connection_without_a_successful_answer_has_the_login_timeout(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """The client may be silent or repeatedly refused: an error does not establish a connection."""

    async def refuse(request: Request) -> Response:
        return Response(
            status=401 if request.path == "/refused" else 200, body=request.path.encode()
        )

    server = new_server(refuse)
    listener = await start_in_memory(nursery, server)
    silent, refused, answered = listener.connect(), listener.connect(), listener.connect()
    started = trio.current_time()
    await ask(answered, "/answered")
    for _ in range(3):
        await ask(refused, "/refused")
        await trio.sleep(LOGIN_TIMEOUT_S / 4)
    for client in (silent, refused):
        assert await receive_all(client) == b""
    assert trio.current_time() - started <= LOGIN_TIMEOUT_S + TICK_S
    assert server.statistics.connections_timed_out == 3
