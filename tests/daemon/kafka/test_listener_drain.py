"""The drain of a Kafka listener: requests under way are answered, within a time limit."""

from __future__ import annotations

import os

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.daemon.kafka_listener_service import ENOUGH_S, Echo, echoed, start, to_echo, until


async def test_drain_answers_requests_under_way(nursery: trio.Nursery) -> None:
    """Idle connections are closed at once, new ones refused; then serve returns."""
    echo = Echo()
    service = await start(nursery, echo)
    idle, busy = await service.connect(), await service.connect()
    await busy.send(to_echo(b"busy"))
    await until(lambda: echo.under_way == 1 and service.statistics[0] == 2)
    nursery.start_soon(service.listener.drain)
    assert await idle.is_closed()
    with pytest.raises(OSError, match="connect"):
        await service.connect()
    assert echo.under_way == 1
    echo.goes_on.set()
    assert await busy.receive() == echoed(b"busy")
    assert await busy.is_closed()
    with trio.fail_after(ENOUGH_S):
        await service.has_ended.wait()


async def test_drain_answers_a_request_that_has_arrived_unread(nursery: trio.Nursery) -> None:
    service = await start(nursery)
    client = await service.connect()
    await client.echo(b"idle from here")
    await wait_all_tasks_blocked()
    os.write(client.stream.socket.fileno(), to_echo(b"arrived"))
    with trio.fail_after(ENOUGH_S):
        await service.listener.drain()
    assert await client.receive() == echoed(b"arrived")
    assert await client.is_closed()


async def test_drain_cuts_requests_at_the_time_limit(nursery: trio.Nursery) -> None:
    echo = Echo()
    service = await start(nursery, echo, drain_timeout_ms=50)
    client = await service.connect()
    await client.send(to_echo(b"never"))
    await until(lambda: echo.under_way == 1)
    with trio.fail_after(ENOUGH_S):
        await service.listener.drain()
        assert await client.is_closed()
        await service.has_ended.wait()
    assert echo.under_way == 0


async def test_drain_without_connections_ends_at_once(nursery: trio.Nursery) -> None:
    service = await start(nursery)
    with trio.fail_after(ENOUGH_S / 2):
        await service.listener.drain()
        await service.has_ended.wait()
