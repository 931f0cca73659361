"""Connections that are kept between requests, over real sockets."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from authorizerd.daemon.sources.writes.connections import AGE_SECONDS_MAX, Connection, Connections
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Node
from authorizerd.kafka_client.log_in import open_node
from authorizerd.kafka_client.transport import open_tcp
from tests.daemon.kafka_cluster import KafkaNode
from tests.daemon.kafka_listener_service import until

Close: TypeAlias = Callable[[], Awaitable[None]]


class Server:
    """A node on a port. ``streams`` are its ends of the connections."""

    def __init__(self) -> None:
        self.node = KafkaNode()
        self.streams: list[trio.SocketStream] = []

    async def start(self, nursery: trio.Nursery) -> Address:
        listeners = await nursery.start(partial(trio.serve_tcp, self._serve, 0, host="127.0.0.1"))
        return Address("127.0.0.1", listeners[0].socket.getsockname()[1])

    async def _serve(self, stream: trio.SocketStream) -> None:
        self.streams.append(stream)
        await self.node.serve(stream)


def new_connections() -> Connections:
    return Connections(open_tcp_node)


async def open_tcp_node(host: str, port: int) -> Node:
    return await open_node(Address(host, port), None, "tests", open_tcp)


async def test_idle_connection_is_used_again_for_the_same_address(nursery: trio.Nursery) -> None:
    address, elsewhere = await Server().start(nursery), await Server().start(nursery)
    connections = new_connections()
    first = await connections.take(address)
    second = await connections.take(address)
    assert second is not first
    await connections.give_back(first)
    assert await connections.take(address) is first
    await connections.give_back(first)
    third = await connections.take(elsewhere)
    assert third is not first
    for connection in (first, second, third):
        await connection.node.aclose()


@pytest.mark.parametrize("writes", [False, True])
async def test_ended_connection_is_not_used_again(nursery: trio.Nursery, writes: bool) -> None:
    """Nor is one on which the node has written something that nobody asked for."""
    server = Server()
    address = await server.start(nursery)
    connections = new_connections()
    first = await connections.take(address)
    assert first.node.is_silent
    await connections.give_back(first)
    (stream,) = server.streams
    await wait_all_tasks_blocked()
    if writes:
        await stream.send_all(b"?")
    else:
        await stream.send_eof()
    await until(lambda: not first.node.is_silent)
    second = await connections.take(address)
    assert second is not first
    await second.node.aclose()


async def test_connection_is_replaced_at_the_end_of_its_session(nursery: trio.Nursery) -> None:
    """The node would close it without an answer (KIP-368)."""
    address = await Server().start(nursery)
    connections = new_connections()
    first = await connections.take(address)
    first.node.renewal_time = trio.current_time()
    await connections.give_back(first)
    second = await connections.take(address)
    assert second is not first
    await second.node.aclose()


async def test_cancellation_closes_every_connection(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    """Also those that were about to be closed because of their age."""
    address = await Server().start(nursery)
    connections, closed = new_connections(), []
    taken = [await connections.take(address) for _ in range(3)]
    for connection in taken:
        close = connection.node.aclose

        async def close_later(connection: Connection = connection, close: Close = close) -> None:
            closed.append(connection)
            try:
                await trio.lowlevel.checkpoint()
            finally:
                await close()

        connection.node.aclose = close_later  # type: ignore[method-assign] # a slow peer's
        await connections.give_back(connection)
    async with trio.open_nursery() as services:
        services.start_soon(connections.run)
        await wait_all_tasks_blocked()
        mock_clock.jump(AGE_SECONDS_MAX)
        while not closed:
            await trio.lowlevel.checkpoint()
        services.cancel_scope.cancel()
    assert len(closed) == len(taken)
