"""A server on a thread that answers every request."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.sockets import accepting

Answer = Callable[[socket.socket, bytes], None]


@contextmanager
def serving(
    answer: Answer, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[tuple[str, int], list[bytes]]]:
    """Answer each request, perhaps over TLS; yield the address and the received requests."""
    received: list[bytes] = []

    def serve(peer: socket.socket) -> None:
        # A finished load leaves answers unread, which resets its connections.
        with peer if tls is None else tls.wrap_socket(peer, server_side=True) as secured:
            while request := secured.recv(65536):
                received.append(request)
                answer(secured, request)

    with accepting(serve) as address:
        host, _, port = address.rpartition(":")
        yield (host, int(port)), received


def send(*pieces: bytes) -> Answer:
    """Return an answer in several pieces."""

    def answer(peer: socket.socket, request: bytes) -> None:
        for piece in pieces:
            peer.sendall(piece)

    return answer


def send_and_close(data: bytes) -> Answer:
    """Return an answer after which the connection ends."""

    def answer(peer: socket.socket, request: bytes) -> None:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_RDWR)

    return answer
