"""A decision stream server for one test: it gives one answer, and can stall or stop.

**Invariant:** it runs in its own threads, and has ended when its block ends.
"""

import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Self

from authorizerd.protocol.decisions import stream
from authorizerd.protocol.kafka.error_codes import ErrorCode


class TargetServer:
    """The server; ``asked`` lists (connection, principal) of each question, in order.

    Args:
        token: the token that a hello must contain; None accepts only a hello without one.
        dies_after: number of frames, over all connections, after which the server stops.
        tls: encrypts all connections; None for a server without TLS.
        stalls_at: number of the frame before which answers stop for ``stall_seconds``.
    """

    def __init__(
        self, *, token: str | None = None, tls: ssl.SSLContext | None = None,
        dies_after: int | None = None, stalls_at: int | None = None, stall_seconds: float = 0.0,
    ) -> None:  # fmt: skip
        self.asked: list[tuple[int, str]] = []
        self.frames = 0
        self.hellos = 0
        self._token = token
        self._tls = tls
        self._dies_after = dies_after
        self._stalls_at = stalls_at
        self._stall_seconds = stall_seconds
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _close(self) -> None:
        """Shut down all sockets, which wakes the threads that wait for them."""
        for each in (self._listener, *self._connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connected, _ = self._listener.accept()
                self._connections.append(connected)
                thread = threading.Thread(target=self._serve, args=(connected,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connected: socket.socket) -> None:
        number = len(self._connections)
        with suppress(OSError):
            if self._tls is not None:
                connected = self._tls.wrap_socket(connected, server_side=True)
                self._connections.append(connected)
            with connected:
                self._converse(number, connected)

    def _converse(self, number: int, connected: socket.socket) -> None:
        connection = stream.StreamServerConnection(1 << 20)
        while data := connected.recv(65536):
            connection.receive_data(data)
            while (asked := connection.next_frame()) is not None:
                if isinstance(asked, stream.Hello):
                    self.hellos += 1
                    is_known = asked.token == self._token
                    code = ErrorCode.NONE if is_known else ErrorCode.SASL_AUTHENTICATION_FAILED
                    connected.sendall(stream.encode_hello(code, 7 if is_known else -1))
                    if not is_known:
                        return
                elif isinstance(asked, stream.Ask):
                    connected.sendall(self._answer(number, asked))

    def _answer(self, number: int, asked: stream.Ask) -> bytes:
        is_probe = asked.questions[0][0] == "User:ANONYMOUS"
        with self._lock:
            if not is_probe:
                self.frames += 1
                self.asked += [(number, question[0]) for question in asked.questions]
                if self.frames == self._stalls_at:
                    time.sleep(self._stall_seconds)
                if self._dies_after is not None and self.frames > self._dies_after:
                    self._close()
        return stream.encode_answer(asked.correlation_id, 0, 7, b"\1" * len(asked.questions))
