"""Generate load over HTTP: several connections, each with one request in flight.

It runs as a separate process on non-blocking sockets, so that it uses another core than the server.

    python -m ops.bench.http_load HOST:PORT PATH BODIES CONNECTIONS SECONDS [TOKEN]

``BODIES`` is a file with one JSON text per line; each connection starts at another line. ``TOKEN``
is a file that contains the caller's token.
"""

from __future__ import annotations

import re
import select
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from ops.bench.closed_loop import LoadError, LoadReport, Stopwatch

_RECEIVE_BYTES: Final = 256 * 1024
_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
STALLED_SECONDS: Final = 5.0


class _Connection:
    """One connection; ``received`` is the part of an answer that has arrived."""

    __slots__ = ("asked_ns", "next_request", "received", "socket")

    def __init__(self, address: tuple[str, int], first_request: int) -> None:
        self.socket = socket.create_connection(address, STALLED_SECONDS)
        # Nagle's algorithm would hold a request back and add to its latency.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.received = b""
        self.next_request = first_request
        self.asked_ns = 0

    def ask(self, requests: Sequence[bytes]) -> None:
        """Send the next request. It fits into the socket's buffer, because the buffer is empty."""
        request = requests[self.next_request % len(requests)]
        self.next_request += 1
        self.asked_ns = time.perf_counter_ns()
        sent = self.socket.send(request)
        if sent != len(request):
            raise LoadError(f"a request of {len(request)} bytes does not fit the socket's buffer")

    def is_answered(self) -> bool:
        """Receive; return True if the answer is complete.

        Raises:
            LoadError: the answer is not 200, or the server closed the connection.
        """
        data = self.socket.recv(_RECEIVE_BYTES)
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
    address: tuple[str, int], requests: Sequence[bytes], connections: int, seconds: float
) -> LoadReport:
    """Send requests for ``seconds``; every answer must have status 200.

    Raises:
        LoadError, OSError: the server does not answer as it should.
    """
    # epoll rather than trio: a scheduler would need more CPU per request than the server.
    with ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        by_descriptor = {}
        for number in range(connections):
            connection = _Connection(address, number * len(requests) // connections)
            stack.enter_context(connection.socket)
            poll.register(connection.socket, select.EPOLLIN)
            by_descriptor[connection.socket.fileno()] = connection
        stopwatch = Stopwatch(seconds)
        for connection in by_descriptor.values():
            connection.ask(requests)
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
                connection.ask(requests)
    return stopwatch.report()


def post(host: str, path: str, body: bytes, token: str | None = None) -> bytes:
    """Return the bytes of a POST of JSON on a persistent connection."""
    authorization = "" if token is None else f"Authorization: Bearer {token}\r\n"
    return (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"{authorization}Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def main() -> None:
    host, path, bodies, connections, seconds, *token_file = sys.argv[1:]
    token = Path(token_file[0]).read_text().strip() if token_file else None
    name, _, port = host.rpartition(":")
    requests = [post(host, path, body, token) for body in Path(bodies).read_bytes().splitlines()]
    report = drive((name, int(port)), requests, int(connections), float(seconds))
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    main()
