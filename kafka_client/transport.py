"""Open the streams that carry Kafka connections."""

from __future__ import annotations

import os
import select
from collections.abc import Awaitable, Callable, Sequence
from socket import AddressFamily, SocketKind
from typing import TypeAlias

import trio

from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.errors import ConnectionFailedError, Stage, UnservedError
from authorizerd.tls.stream import TlsStream

OpenStream: TypeAlias = Callable[[Address], Awaitable[trio.abc.HalfCloseableStream]]
"""Connect to an address, or raise ConnectionFailedError."""

SocketAddress: TypeAlias = tuple[
    AddressFamily,
    SocketKind,
    int,
    str,
    tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes],
]


async def find_addresses(address: Address) -> Sequence[SocketAddress]:
    """Return the addresses of a host, IPv4 and IPv6.

    Raises:
        ConnectionFailedError: the host name cannot be resolved.
    """
    try:
        return await trio.socket.getaddrinfo(
            address.host, address.port, type=trio.socket.SOCK_STREAM
        )
    except OSError as error:
        raise ConnectionFailedError(f"{address}: {error.strerror or error}") from error
    except UnicodeError as error:  # a label that is too long for a name
        raise ConnectionFailedError(f"{address}: {error}") from error


async def open_tcp(address: Address) -> trio.abc.HalfCloseableStream:
    """Connect over TCP. All addresses of the host are tried, and the first connection is used.

    Raises:
        UnservedError: every address refuses the connection.
        ConnectionFailedError: the host name cannot be resolved, or no address accepts.
    """
    try:
        return await trio.open_tcp_stream(address.host, address.port)
    except UnicodeError as error:  # a label that is too long for a name
        raise ConnectionFailedError(f"{address}: {error}") from error
    except OSError as error:
        # trio raises a single OSError without an errno; its cause is the group of actual errors.
        attempts = error.__cause__
        failures = attempts.exceptions if isinstance(attempts, ExceptionGroup) else (error,)
        reasons = dict.fromkeys(map(_describe_failure, failures))
        text = f"{address}: {'; '.join(reasons)}"
        if all(isinstance(failure, ConnectionRefusedError) for failure in failures):
            raise UnservedError(text, address, Stage.REFUSED) from error
        raise ConnectionFailedError(text) from error


def _describe_failure(error: Exception) -> str:
    """Return the system's text for an error, without trio's wrapping."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(getattr(error, "strerror", None) or error)  # gaierror has negative numbers


def is_readable(stream: trio.abc.Stream) -> bool:
    """Return True if bytes, or the end of the connection, have arrived and were not read."""
    while isinstance(stream, TlsStream):
        stream = stream.transport
    if not isinstance(stream, trio.SocketStream):
        return False
    waiting = select.poll()  # unlike select(), it accepts any descriptor
    waiting.register(stream.socket.fileno(), select.POLLIN)
    return bool(waiting.poll(0))
