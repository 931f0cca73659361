"""What a Kafka listener bounds: connections, idleness, and peers that do not read."""

from __future__ import annotations

import trio

from tests.daemon.kafka_listener_service import Echo, echoed, free_echo, start, to_echo, until

LARGE_BODY = bytes(64 * 1024 * 1024)
"""More than two sockets hold."""


async def test_connections_beyond_the_most_are_closed(nursery: trio.Nursery) -> None:
    """And counted; as one ends another is taken."""
    service = await start(nursery, max_connections=2)
    first, second = await service.connect(), await service.connect()
    await first.echo(b"1")
    await second.echo(b"2")
    assert await (await service.connect()).is_closed()
    assert service.listener.statistics.connections_refused == 1
    await first.stream.aclose()
    await until(lambda: service.statistics[0] == 1)
    await (await service.connect()).echo(b"3")
    nursery.cancel_scope.cancel()


async def test_an_idle_connection_is_closed(nursery: trio.Nursery) -> None:
    """Between requests, within one, and before the log-in."""
    service = await start(nursery, idle_timeout_ms=50)
    for sent in (b"", to_echo(b"cut")[:-1]):
        client = await service.connect()
        if sent:
            await client.send(sent)
        assert await client.is_closed()
    await until(lambda: service.statistics[0] == 0)
    nursery.cancel_scope.cancel()


async def test_a_slow_answer_is_not_idleness(nursery: trio.Nursery) -> None:
    """A connection is not closed while its request is under way."""
    echo = Echo()
    service = await start(nursery, echo, idle_timeout_ms=50)
    client = await service.connect()
    await client.send(to_echo(b"slow"))
    await trio.sleep(0.1)
    echo.goes_on.set()
    assert await client.receive() == echoed(b"slow")
    nursery.cancel_scope.cancel()


async def test_a_client_that_does_not_read_is_closed(nursery: trio.Nursery) -> None:
    """It would hold its connection, and its answer's memory, for ever."""
    echo = free_echo()
    echo.answers = lambda body: LARGE_BODY
    service = await start(nursery, echo, idle_timeout_ms=100)
    client = await service.connect()
    await client.send(to_echo(b""))
    await until(lambda: service.statistics == (0, 1))
    nursery.cancel_scope.cancel()


async def test_a_large_answer_comes_whole(nursery: trio.Nursery) -> None:
    """In pieces, to whoever reads it."""
    echo = free_echo()
    echo.answers = lambda body: LARGE_BODY[: 8 * 1024 * 1024] + body
    client = await (await start(nursery, echo)).connect()
    await client.send(to_echo(b"end"), to_echo(b"2", 2))
    held = await client.receive()
    assert len(held) == 4 + 8 * 1024 * 1024 + 3
    assert held.endswith(b"end")
    assert (await client.receive()).endswith(b"2")
    nursery.cancel_scope.cancel()
