"""The drain of an HTTP server: requests under way are answered, within a time limit."""

from __future__ import annotations

import os

import pytest
import trio
import trio.testing

from authorizerd.protocol.http.messages import Request, Response
from tests.daemon.http_service import (
    DRAIN_TIMEOUT_S,
    GET,
    MemoryListener,
    ask,
    connect,
    echo,
    new_server,
    receive_all,
    start,
    start_in_memory,
    until,
)


async def test_drain_answers_requests_under_way_and_closes_idle_connections(
    nursery: trio.Nursery,
) -> None:
    """A half-sent request is answered once complete, with Connection: close; no other begins."""
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


async def test_drain_answers_a_request_that_has_arrived_unread(nursery: trio.Nursery) -> None:
    server = new_server()
    async with await connect(await start(nursery, server)) as client:
        await ask(client, "/a")

        async def send_and_drain() -> None:
            os.write(client.socket.fileno(), GET)
            await server.drain()

        nursery.start_soon(send_and_drain)
        assert (await receive_all(client)).endswith(b"\r\nConnection: close\r\n\r\n/")


async def test_drain_ends_a_connection_after_the_answer_being_sent(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """The connection ends at once, although the answer did not say Connection: close."""
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


async def test_drain_cuts_requests_at_the_time_limit(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
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
    client = (await start_in_memory(nursery, server)).connect()
    await client.send_all(GET)
    await begun.wait()
    nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True), trio.fail_after(1):
        await ended.wait()
        assert await receive_all(client) == b""
    assert server.statistics.requests_failed == 0
