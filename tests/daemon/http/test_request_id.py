"""``X-Request-ID`` in the answers that the HTTP server itself gives."""

from __future__ import annotations

import trio
import trio.testing

from authorizerd.config.bounds import FREE_BYTES
from authorizerd.protocol.http.messages import Request, Response
from tests.daemon.http_service import (
    HEADER_TIMEOUT_S,
    new_server,
    receive_all,
    receive_until,
    start_in_memory,
)

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
    client = (await start_in_memory(nursery, server)).connect()
    await client.send_all(post(b"end"))
    at_once = await receive_until(client, b"end")
    await client.send_all(post(b"end")[:-1])
    await trio.testing.wait_all_tasks_blocked()
    await client.send_all(b"d")
    assert await receive_until(client, b"end") == at_once
    assert ECHO in at_once


async def test_refused_host_and_internal_error_have_the_id(nursery: trio.Nursery) -> None:
    for request, status in ((post(b"", host=b"evil.example"), b"403"), (post(b""), b"500")):
        client = (await start_in_memory(nursery, new_server(fail))).connect()
        await client.send_all(request)
        answer = await receive_all(client)
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert ECHO in answer


async def test_request_without_memory_has_the_id(nursery: trio.Nursery) -> None:
    """Also if the head of the refused request has not been read yet."""
    server = new_server(memory_bytes_max=0, body_bytes_max=4 * FREE_BYTES)
    client = (await start_in_memory(nursery, server)).connect()
    await client.send_all(post(b"a"))
    await receive_until(client, b"/")
    await client.send_all(post(bytes(2 * FREE_BYTES)).replace(b"r-17", b"r-18"))
    answer = await receive_all(client)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nX-Request-ID: r-18\r\n" in answer


async def test_request_that_times_out_has_the_id(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    listener = await start_in_memory(nursery, new_server())
    for request, has_id in ((post(b"a", length=2), True), (post(b"")[:-3], False)):
        client = listener.connect()
        await client.send_all(request)
        await trio.sleep(HEADER_TIMEOUT_S * 2)
        answer = await receive_all(client)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert (ECHO in answer) == has_id
