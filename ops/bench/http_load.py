"""A load generator for HTTP: so many connections, each with one request under way.

It is a process of its own on non-blocking sockets, so that it takes nothing from what it measures
but the other core. A connection that is answered asks again at once: what is measured is the
most that the server can do, and how long an answer takes then.

    python -m ops.bench.http_load HOST:PORT PATH BODIES CONNECTIONS SECONDS [TOKEN]

``BODIES`` is a file of JSON texts, one a line; the connections share them out. ``TOKEN`` is a file
that contains the caller's token.
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

from ops.bench.figures import percentile

WARM_UP_SHARE: Final = 0.2
"""How much of the time goes by before answers are timed."""

_RECEIVE_BYTES: Final = 256 * 1024
_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
STALLED_SECONDS: Final = 5.0


class LoadError(Exception):
    """The server did not answer, or not with 200."""


class LoadReport(msgspec.Struct, frozen=True):
    """``requests`` counts all, the other figures what came after the warm-up."""

    requests: int
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    max_ms: float


class _Connection:
    """One connection; ``received`` holds an answer that has come in part."""

    __slots__ = ("asked_ns", "next_request", "received", "socket")

    def __init__(self, address: tuple[str, int], first_request: int) -> None:
        self.socket = socket.create_connection(address, STALLED_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.received = b""
        self.next_request = first_request
        self.asked_ns = 0

    def ask(self, requests: Sequence[bytes]) -> None:
        """Send the next request; it fits the socket's buffer, since nothing else is under way."""
        request = requests[self.next_request % len(requests)]
        self.next_request += 1
        self.asked_ns = time.perf_counter_ns()
        sent = self.socket.send(request)
        if sent != len(request):
            raise LoadError(f"a request of {len(request)} bytes does not fit the socket's buffer")

    def is_answered(self) -> bool:
        """Take what has come; say whether it is the whole answer.

        Raises:
            LoadError: the answer is not 200, or the server closed the connection.
        """
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise LoadError("the server closed a connection")
        received = self.received + data if self.received else data
        head_end = received.find(_HEAD_END)
        if head_end < 0 or len(received) < head_end + _size_after(received[:head_end]):
            self.received = received
            return False
        self.received = b""
        return True


@lru_cache(maxsize=1024)
def _size_after(head: bytes) -> int:
    """Return how many bytes follow a head, the end of the head among them."""
    if not head.startswith(b"HTTP/1.1 200 "):
        raise LoadError(f"answered {head!r}")
    found = _LENGTH.search(head)
    if found is None:
        raise LoadError(f"an answer without Content-Length: {head!r}")
    return len(_HEAD_END) + int(found[1])


def drive(
    address: tuple[str, int], requests: Sequence[bytes], connections: int, seconds: float
) -> LoadReport:
    """Ask for so many seconds; every answer must be a 200.

    Raises:
        LoadError, OSError: the server does not answer as it should.
    """
    with ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        by_descriptor = {}
        for number in range(connections):
            connection = _Connection(address, number * len(requests) // connections)
            stack.enter_context(connection.socket)
            poll.register(connection.socket, select.EPOLLIN)
            by_descriptor[connection.socket.fileno()] = connection
        start_ns = time.perf_counter_ns()
        timed_from_ns = start_ns + int(seconds * WARM_UP_SHARE * 1e9)
        end_ns = start_ns + int(seconds * 1e9)
        for connection in by_descriptor.values():
            connection.ask(requests)
        latencies_ns: list[int] = []
        answered, now_ns = 0, start_ns
        while now_ns < end_ns or not latencies_ns:
            ready = poll.poll(STALLED_SECONDS)
            if not ready:
                raise LoadError(f"no answer in {STALLED_SECONDS:.0f} s")
            for descriptor, _ in ready:
                connection = by_descriptor[descriptor]
                if not connection.is_answered():
                    continue
                now_ns = time.perf_counter_ns()
                answered += 1
                if connection.asked_ns >= timed_from_ns:
                    latencies_ns.append(now_ns - connection.asked_ns)
                connection.ask(requests)
    latencies_ns.sort()
    return LoadReport(
        requests=answered,
        requests_per_second=len(latencies_ns) / ((now_ns - timed_from_ns) / 1e9),
        p50_ms=percentile(latencies_ns, 50) / 1e6,
        p99_ms=percentile(latencies_ns, 99) / 1e6,
        max_ms=latencies_ns[-1] / 1e6,
    )


def post(host: str, path: str, body: bytes, token: str | None = None) -> bytes:
    """Return the bytes of a POST of JSON on a connection that is kept."""
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
