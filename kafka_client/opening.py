"""Open connections to nodes: connect, negotiate, log in."""

from __future__ import annotations

import trio

from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import CONNECTION_SETUP_TIMEOUT_MS, Node
from authorizerd.kafka_client.errors import ConnectionFailedError
from authorizerd.kafka_client.log_in import Credentials, log_in
from authorizerd.kafka_client.transport import OpenStream


async def open_node(
    address: Address, credentials: Credentials | None, client_id: str, open_stream: OpenStream
) -> Node:
    """Connect to a node and log in.

    Raises:
        ConnectionFailedError: it cannot be reached, or does not answer as a Kafka server.
        RequestFailedError: it rejects the log-in.
    """
    with trio.move_on_after(CONNECTION_SETUP_TIMEOUT_MS / 1000):
        node = Node(address, await open_stream(address), client_id)
        try:
            await node.negotiate()
            if credentials is not None:
                await log_in(node, credentials)
        except BaseException:
            await node.aclose()
            raise
        return node
    raise ConnectionFailedError(f"{address}: not connected within {CONNECTION_SETUP_TIMEOUT_MS} ms")
