"""The load generator counts complete answers with status 200."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest

from ops.bench.closed_loop import LoadError
from ops.bench.http_load import drive, post

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\ntrue"
REQUESTS = [post("localhost", "/path", b'{"number":%d}' % number) for number in range(8)]


@contextmanager
def server(
    connections: int, answer: Callable[[socket.socket, bytes], None]
) -> Iterator[tuple[tuple[str, int], list[bytes]]]:
    """Serve ``connections`` with ``answer``; yield the address and the received requests."""
    received: list[bytes] = []

    def serve(peer: socket.socket) -> None:
        # A finished load leaves answers unread, which resets its connections.
        with peer, suppress(OSError):
            while request := peer.recv(65536):
                received.append(request)
                answer(peer, request)

    def accept() -> None:
        for _ in range(connections):
            thread = threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True)
            threads.append(thread)
            thread.start()

    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield listener.getsockname(), received
        accepting.join(5)
        for thread in threads:
            thread.join(5)


def send(*pieces: bytes) -> Callable[[socket.socket, bytes], None]:
    def answer(peer: socket.socket, request: bytes) -> None:
        for piece in pieces:
            peer.sendall(piece)

    return answer


def heads_and_bodies(requests: Sequence[bytes]) -> set[bytes]:
    return {request.partition(b"\r\n\r\n")[2] for request in requests}


def test_every_answer_on_every_connection_is_counted() -> None:
    """The last request of each connection may still be in flight."""
    with server(4, send(ANSWER)) as (address, received):
        report = drive(address, REQUESTS, 4, 0.05)
    assert len(received) - 4 <= report.requests <= len(received)
    assert heads_and_bodies(received) == heads_and_bodies(REQUESTS)
    assert report.requests_per_second > 0
    assert 0 < report.p50_ms <= report.p99_ms <= report.max_ms


def test_answer_may_arrive_in_pieces() -> None:
    pieces = (ANSWER[:7], ANSWER[7:60], ANSWER[60:-1], ANSWER[-1:])
    with server(1, send(*pieces)) as (address, received):
        report = drive(address, REQUESTS, 1, 0.05)
    assert len(received) - 1 <= report.requests <= len(received)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", "answered .*503"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "without Content-Length"),
    ],
)
def test_anything_but_a_whole_200_ends_the_load(answer: bytes, complaint: str) -> None:
    with (
        server(1, send(answer)) as (address, _),
        pytest.raises(LoadError, match=complaint),
    ):
        drive(address, REQUESTS, 1, 0.05)


def test_closed_connection_ends_the_load() -> None:

    def hang_up(peer: socket.socket, request: bytes) -> None:
        peer.shutdown(socket.SHUT_RDWR)

    with (
        server(1, hang_up) as (address, _),
        pytest.raises(LoadError, match="closed"),
    ):
        drive(address, REQUESTS, 1, 0.05)
