"""A server on a thread that answers every request."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

Answer = Callable[[socket.socket, bytes], None]


@contextmanager
def serving(
    answer: Answer, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[tuple[str, int], list[bytes]]]:
    """Answer each request of each connection; yield the address and the received requests.

    Args:
        tls: encrypts all connections.
    """
    received: list[bytes] = []
    threads: list[threading.Thread] = []

    def serve(peer: socket.socket) -> None:
        # A finished load leaves answers unread, which resets its connections.
        with suppress(OSError), peer if tls is None else _secure(peer, tls) as secured:
            while request := secured.recv(65536):
                received.append(request)
                answer(secured, request)

    def accept() -> None:
        with suppress(OSError):  # the listener is shut down
            while True:
                thread = threading.Thread(target=serve, args=(listener.accept()[0],))
                threads.append(thread)
                thread.start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield listener.getsockname(), received
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *threads):
                thread.join(5)


def _secure(peer: socket.socket, tls: ssl.SSLContext) -> ssl.SSLSocket:
    with ExitStack() as stack:
        stack.enter_context(peer)
        secured = tls.wrap_socket(peer, server_side=True)
        stack.pop_all()
        return secured


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
