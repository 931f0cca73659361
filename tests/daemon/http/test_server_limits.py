"""The limits of the HTTP server, its drain, and ``X-Request-ID`` in its own answers."""

import pytest
import trio
import trio.testing
from trio.testing import lockstep_stream_pair

from authorizerd.config.bounds import FREE_BYTES
from authorizerd.protocol.http.messages import Request, Response
from tests.daemon.http_service import (
    DRAIN_TIMEOUT_S,
    GET,
    HEADER_TIMEOUT_S,
    IDLE_TIMEOUT_S,
    LOGIN_TIMEOUT_S,
    TICK_S,
    ask,
    echo,
    new_server,
    receive_all,
    receive_until,
)
from tests.daemon.serving import MemoryListener, serve_in_memory, with_listener

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def test_flood_of_connections_is_refused(nursery: trio.Nursery) -> None:
    """Each connection gets an answer. The server waits for few clients to read it, and briefly."""
    server, listener = await with_listener(nursery, new_server(max_connections=0))
    clients = [listener.connect() for _ in range(100)]
    await trio.testing.wait_all_tasks_blocked()
    started = trio.current_time()
    answers = [await receive_all(client) for client in clients]
    assert [answer[:12] for answer in answers] == [b"HTTP/1.1 503"] * 100
    assert trio.current_time() - started < 2
    assert server.statistics.connections_refused == 100
    await trio.sleep(2)
    assert (await receive_all(listener.connect())).startswith(b"HTTP/1.1 503 ")


async def test_request_that_arrives_too_slowly_times_out(nursery: trio.Nursery) -> None:
    """Single bytes do not extend the limit."""
    server = new_server()
    client = (await serve_in_memory(nursery, server)).connect()
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


async def test_request_time_starts_with_its_first_byte(nursery: trio.Nursery) -> None:
    """This holds even if that byte came together with the previous request."""
    client = (await serve_in_memory(nursery, new_server())).connect()
    for _ in range(5):
        await client.send_all(GET[:10])
        await trio.sleep(HEADER_TIMEOUT_S - 1)
        await client.send_all(GET[10:] + GET[:10])
        await receive_until(client, b"/")
        await trio.sleep(HEADER_TIMEOUT_S - 1)
        await client.send_all(GET[10:])
        await receive_until(client, b"/")


async def test_idle_connection_is_closed_unanswered(nursery: trio.Nursery) -> None:
    """A client would take a 408 for the answer to its next request."""
    server = new_server()
    client = (await serve_in_memory(nursery, server)).connect()
    await trio.sleep(IDLE_TIMEOUT_S - 1)
    await ask(client, "/a")
    started = trio.current_time()
    assert await receive_all(client) == b""
    assert IDLE_TIMEOUT_S <= trio.current_time() - started <= IDLE_TIMEOUT_S + TICK_S
    assert server.statistics.connections_timed_out == 1


async def test_handler_time_is_not_limited(nursery: trio.Nursery) -> None:

    async def sleep(request: Request) -> Response:
        await trio.sleep(IDLE_TIMEOUT_S * 10)
        return await echo(request)

    client = (await serve_in_memory(nursery, new_server(sleep))).connect()
    assert await ask(client, "/a")


async def test_peer_that_does_not_read_is_left_unread_and_closed(nursery: trio.Nursery) -> None:
    server = new_server()
    listener = await serve_in_memory(nursery, server, MemoryListener(lockstep_stream_pair))
    client = listener.connect()
    await client.send_all(GET)
    with trio.move_on_after(IDLE_TIMEOUT_S / 2) as waited:
        await client.send_all(GET)
    assert waited.cancelled_caught
    assert server.statistics.requests == 1
    await trio.sleep(IDLE_TIMEOUT_S)
    assert server.statistics.connections_open == 0
    assert server.statistics.connections_timed_out == 1


async def test_connection_without_good_answer_has_the_login_timeout(nursery: trio.Nursery) -> None:
    """The client may be silent or repeatedly refused: an error does not establish a connection."""

    async def refuse(request: Request) -> Response:
        return Response(
            status=401 if request.path == "/refused" else 200, body=request.path.encode()
        )

    server, listener = await with_listener(nursery, new_server(refuse))
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


async def test_drain_ends_a_connection_after_the_answer_being_sent(nursery: trio.Nursery) -> None:
    """The connection ends at once, although the answer did not say Connection: close."""
    server = new_server()
    listener = await serve_in_memory(nursery, server, MemoryListener(lockstep_stream_pair))
    client = listener.connect()
    await client.send_all(GET)
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(server.drain)
    await trio.testing.wait_all_tasks_blocked()
    started = trio.current_time()
    assert (await receive_all(client)).endswith(b"\r\n\r\n/")
    assert trio.current_time() - started < 1


async def test_drain_cuts_requests_at_the_time_limit(nursery: trio.Nursery) -> None:
    cancelled = trio.Event()

    async def hang(request: Request) -> Response:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    server, listener = await with_listener(nursery, new_server(hang))
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


async def test_server_that_never_served_drains_at_once() -> None:
    server = new_server()
    with trio.fail_after(1):
        await server.drain()
        await server.serve([MemoryListener()])


async def test_cancelling_the_server_cancels_its_handlers(nursery: trio.Nursery) -> None:
    """A cancellation is not a handler's fault: it propagates, and nothing is answered."""
    ended = trio.Event()
    begun = trio.Event()

    async def hang(request: Request) -> Response:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    server = new_server(hang)
    client = (await serve_in_memory(nursery, server)).connect()
    await client.send_all(GET)
    await begun.wait()
    nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True), trio.fail_after(1):
        await ended.wait()
        assert await receive_all(client) == b""
    assert server.statistics.requests_failed == 0


ID = b"X-Request-ID: r-17\r\n"
ECHO = b"\r\n" + ID


def post(body: bytes, *, host: bytes = b"localhost", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return b"POST / HTTP/1.1\r\nHost: %b\r\n%bContent-Length: %d\r\n\r\n%b" % (host, ID, size, body)


async def fail(request: Request) -> Response:
    raise ZeroDivisionError


async def test_both_ways_to_answer_repeat_the_id(nursery: trio.Nursery) -> None:
    """A request in two pieces is answered by a task, which sends the same bytes."""
    server = new_server(lambda request: Response(200, request.body))
    client = (await serve_in_memory(nursery, server)).connect()
    await client.send_all(post(b"end"))
    at_once = await receive_until(client, b"end")
    await client.send_all(post(b"end")[:-1])
    await trio.testing.wait_all_tasks_blocked()
    await client.send_all(b"d")
    assert await receive_until(client, b"end") == at_once
    assert ECHO in at_once


async def test_refused_host_and_internal_error_have_the_id(nursery: trio.Nursery) -> None:
    for request, status in ((post(b"", host=b"evil.example"), b"403"), (post(b""), b"500")):
        client = (await serve_in_memory(nursery, new_server(fail))).connect()
        await client.send_all(request)
        answer = await receive_all(client)
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert ECHO in answer


async def test_request_without_memory_has_the_id(nursery: trio.Nursery) -> None:
    """Also if the head of the refused request has not been read yet."""
    server = new_server(memory_bytes_max=0, body_bytes_max=4 * FREE_BYTES)
    client = (await serve_in_memory(nursery, server)).connect()
    await client.send_all(post(b"a"))
    await receive_until(client, b"/")
    await client.send_all(post(bytes(2 * FREE_BYTES)).replace(b"r-17", b"r-18"))
    answer = await receive_all(client)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nX-Request-ID: r-18\r\n" in answer


async def test_request_that_times_out_has_the_id(nursery: trio.Nursery) -> None:
    listener = await serve_in_memory(nursery, new_server())
    for request, has_id in ((post(b"a", length=2), True), (post(b"")[:-3], False)):
        client = listener.connect()
        await client.send_all(request)
        await trio.sleep(HEADER_TIMEOUT_S * 2)
        answer = await receive_all(client)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert (ECHO in answer) == has_id
