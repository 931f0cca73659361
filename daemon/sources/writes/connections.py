"""Connections to the nodes that accept changes, kept for a short time between requests.

**Invariant:** a connection carries one request at a time. It is not reused after a failure, or if
its peer has closed it: a request lost on a dead connection would have an unknown outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import trio

from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Node, OpenNode

AGE_SECONDS_MAX: Final = 30.0
"""The maximum age of a connection, so that new certificates and credentials take effect soon."""
IDLE_MAX: Final = 16


@dataclass(slots=True)
class Connection:
    """A connection in use. ``opened_at`` is in trio's time."""

    node: Node
    opened_at: float


class Connections:
    """Idle connections. The most recently used one is reused first."""

    def __init__(self, open_node: OpenNode) -> None:
        self._open_node = open_node
        self._idle: list[Connection] = []

    async def take(self, address: Address) -> Connection:
        """Return a connection to ``address`` for one request, an idle one if possible.

        Raises:
            ConnectionFailedError: the node cannot be reached or used.
        """
        while self._idle:
            connection = self._idle.pop()
            if connection.node.address == address and _is_usable(connection):
                return connection
            await connection.node.aclose()
        node = await self._open_node(address.host, address.port)
        return Connection(node, trio.current_time())

    async def give_back(self, connection: Connection) -> None:
        """Keep a connection whose request was answered, unless there are already enough."""
        if len(self._idle) < IDLE_MAX:
            self._idle.append(connection)
        else:
            await connection.node.aclose()

    async def run(self) -> None:
        """Close connections that have become too old. If cancelled, close all."""
        try:
            while True:
                await trio.sleep(AGE_SECONDS_MAX / 2)
                # Do not iterate over the list: while one connection closes, others come and go, and
                # this may be cancelled.
                while (old := self._find_old()) is not None:
                    self._idle.remove(old)
                    await old.node.aclose()
        finally:
            with trio.CancelScope(shield=True):
                while self._idle:
                    await self._idle.pop().node.aclose()

    def _find_old(self) -> Connection | None:
        return next((each for each in self._idle if not _is_usable(each)), None)


def _is_usable(connection: Connection) -> bool:
    end = min(connection.opened_at + AGE_SECONDS_MAX, connection.node.renewal_time)
    return connection.node.is_silent and trio.current_time() < end
