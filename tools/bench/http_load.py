"""Generate load over HTTP: several connections, each with one request in flight.

It runs as a separate process on non-blocking sockets, so that it uses another core than the server.

    python -m tools.bench.http_load HOST:PORT PATH BODIES CONNECTIONS SECONDS [--token FILE]
        [--ca FILE] [--first NUMBER] [--ids]

``BODIES`` is a file with one JSON text per line. The connections ask them in order, from line
``--first`` on, and begin again after the last one. The token's file contains the caller's token.
``--ca`` is the file of the server's CA, for a server with TLS. With ``--ids``, each request has an
X-Request-ID of its own.
"""

from __future__ import annotations

import argparse
import re
import select
import socket
import ssl
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import msgspec

from tools.bench.closed_loop import LoadError, LoadReport, Stopwatch

_RECEIVE_BYTES: Final = 256 * 1024
_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
STALLED_SECONDS: Final = 5.0


class Connection:
    """One connection; ``received`` is the part of an answer that has arrived.

    Args:
        tls: encrypts the connection; None for a server without TLS.
        is_secured: True to do the TLS handshake at once.
    """

    __slots__ = ("asked_ns", "received", "socket")

    def __init__(
        self,
        address: tuple[str, int],
        tls: ssl.SSLContext | None = None,
        *,
        is_secured: bool = True,
    ) -> None:
        plain = socket.create_connection(address, STALLED_SECONDS)
        # Nagle's algorithm would hold a request back and add to its latency.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = (
            plain
            if tls is None
            else tls.wrap_socket(
                plain, server_hostname=address[0], do_handshake_on_connect=is_secured
            )
        )
        self.socket.setblocking(False)
        self.received = b""
        self.asked_ns = 0

    def ask(self, request: bytes) -> None:
        """Send a request. It fits into the socket's buffer, because the buffer is empty."""
        self.asked_ns = time.perf_counter_ns()
        try:
            sent = self.socket.send(request)
            while sent < len(request):  # TLS sends a record of at most 16 KiB at a time
                sent += self.socket.send(request[sent:])
        except (BlockingIOError, ssl.SSLWantWriteError):
            raise LoadError(
                f"a request of {len(request)} bytes does not fit the socket's buffer"
            ) from None

    def is_answered(self) -> bool:
        """Receive; return True if the answer is complete.

        Raises:
            LoadError: the answer is not 200, or the server closed the connection.
        """
        try:
            data = self.socket.recv(_RECEIVE_BYTES)
        except ssl.SSLWantReadError:  # a part of a record, or a session ticket
            return False
        if not data:
            raise LoadError("the server closed a connection")
        # Most answers arrive at once, and then need no copy.
        received = self.received + data if self.received else data
        head_end = received.find(_HEAD_END)
        if head_end < 0 or len(received) < head_end + _size_after(received[:head_end]):
            self.received = received
            return False
        self.received = b""
        return True


# A server's heads repeat, and parsing each one would cost more than a request.
@lru_cache(maxsize=1024)
def _size_after(head: bytes) -> int:
    """Return how many bytes follow ``head``, including the blank line that ends it."""
    if not head.startswith(b"HTTP/1.1 200 "):
        raise LoadError(f"answered {head!r}")
    found = _LENGTH.search(head)
    if found is None:
        raise LoadError(f"an answer without Content-Length: {head!r}")
    return len(_HEAD_END) + int(found[1])


def drive(
    address: tuple[str, int],
    requests: Sequence[bytes],
    connections: int,
    seconds: float,
    tls: ssl.SSLContext | None = None,
    *,
    first: int = 0,
) -> LoadReport:
    """Send the requests in turn for ``seconds``; every answer must have status 200.

    Raises:
        LoadError, OSError: the server does not answer as it should.
    """
    # epoll rather than trio: a scheduler would need more CPU per request than the server.
    with ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        by_descriptor = {}
        for _ in range(connections):
            connection = Connection(address, tls)
            stack.enter_context(connection.socket)
            poll.register(connection.socket, select.EPOLLIN)
            by_descriptor[connection.socket.fileno()] = connection
        # One order for all connections, so that no question repeats before all were asked.
        following = islice(cycle(requests), first % len(requests), None)
        stopwatch = Stopwatch(seconds)
        for connection in by_descriptor.values():
            connection.ask(next(following))
        while stopwatch.is_running:
            ready = poll.poll(STALLED_SECONDS)
            if not ready:
                raise LoadError(f"no answer in {STALLED_SECONDS:.0f} s")
            for descriptor, _ in ready:
                connection = by_descriptor[descriptor]
                if not connection.is_answered():
                    continue
                stopwatch.tick()
                stopwatch.record(connection.asked_ns)
                connection.ask(next(following))
    return stopwatch.report()


def post(
    host: str, path: str, body: bytes, token: str | None = None, request_id: str | None = None
) -> bytes:
    """Return the bytes of a POST of JSON on a persistent connection."""
    authorization = "" if token is None else f"Authorization: Bearer {token}\r\n"
    authorization += "" if request_id is None else f"X-Request-ID: {request_id}\r\n"
    return (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"{authorization}Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.http_load")
    parser.add_argument("host")
    parser.add_argument("path")
    parser.add_argument("bodies", type=Path)
    parser.add_argument("connections", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--token", type=Path)
    parser.add_argument("--ca", type=Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--ids", action="store_true")
    given = parser.parse_args()
    token = None if given.token is None else given.token.read_text().strip()
    tls = None if given.ca is None else ssl.create_default_context(cafile=given.ca)
    name, _, port = given.host.rpartition(":")
    requests = [
        post(given.host, given.path, body, token, f"request-{number:08}" if given.ids else None)
        for number, body in enumerate(given.bodies.read_bytes().splitlines())
    ]
    report = drive(
        (name, int(port)), requests, given.connections, given.seconds, tls, first=given.first
    )
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    main()
