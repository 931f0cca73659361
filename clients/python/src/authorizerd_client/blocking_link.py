"""One connection of the blocking client: its socket, its TLS and its time limits."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from authorizerd_client.daemons import Daemon
from authorizerd_client.errors import ConnectionLostError, TimedOutError, TlsError
from authorizerd_client.protocol import RECEIVE_BYTES, Connection, Request
from authorizerd_client.tls import TlsSession
from authorizerd_client.values import Address, Decisions


class Deadline:
    """The end of a time limit, in seconds of the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def shorten(self, seconds: float) -> Deadline:
        """Return this deadline, or the one in ``seconds`` if it is earlier."""
        return Deadline(min(seconds, self.remaining))

    @property
    def remaining(self) -> float:
        """Return the seconds that remain, or 0 if the limit is over."""
        return max(0.0, self._end - time.monotonic())


class BlockingLink:
    """A connection and its socket. Any error closes both, except an answer with an error code.

    Attributes:
        daemon: the peer.
        offset: the log offset in the answer to the hello; -1 if the ACLs are not loaded.
    """

    def __init__(
        self,
        daemon: Daemon,
        connected: socket.socket,
        tls: TlsSession | None,
        frame_bytes_max: int,
    ) -> None:
        self.daemon: Final = daemon
        self.offset = -1
        self._socket = connected
        self._tls = tls
        self._connection = Connection(frame_bytes_max)

    @property
    def has_ended(self) -> bool:
        return self._connection.has_ended

    def greet(self, token: str | None, deadline: Deadline) -> None:
        """Do the TLS handshake if any, send the hello, and wait for its answer."""
        with self._closed_by_errors():
            if self._tls is not None:
                self._shake_hands(self._tls, deadline)
            self._send(self._connection.encode_hello(token), deadline)
            while self._connection.offset is None:
                self._receive(deadline)
        self.offset = self._connection.offset

    def ask(self, request: Request, deadline: Deadline) -> Decisions:
        """Return the decisions about the questions of one request."""
        with self._closed_by_errors():
            exchange, frame = self._connection.ask(request)
            self._send(frame, deadline)
            while not exchange.is_settled:
                self._receive(deadline)
        return exchange.get_decisions()

    def shut_down(self) -> None:
        """End the connection while another thread may be using it."""
        try:
            # Closing it would not wake a thread that is receiving.
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the socket is closed or disconnected already

    def close(self) -> None:
        self._connection.end(lambda: ConnectionLostError("the connection was closed"))
        self._socket.close()

    @contextmanager
    def _closed_by_errors(self) -> Iterator[None]:
        """Close the connection if the block raises.

        A frame may have been sent in part, or its answer may still arrive.
        """
        try:
            yield
        except TimeoutError as error:
            self.close()
            raise TimedOutError("the daemon did not answer in time") from error
        except OSError as error:
            self.close()
            raise ConnectionLostError(f"the connection broke: {error}") from error
        except BaseException:
            self.close()
            raise

    def _shake_hands(self, tls: TlsSession, deadline: Deadline) -> None:
        try:
            to_send = tls.start_handshake()
            while not tls.is_established:
                self._limit(deadline)
                self._socket.sendall(to_send)
                to_send = tls.shake_hands(self._socket.recv(RECEIVE_BYTES))
            self._socket.sendall(to_send)
        except ConnectionError as error:
            raise tls.new_closed_error() from error
        except TlsError:
            with suppress(OSError):
                self._socket.sendall(tls.encode_alert())
            raise
        if data := tls.decrypt_pending():
            self._connection.receive_data(data)

    def _send(self, data: bytes, deadline: Deadline) -> None:
        self._limit(deadline)
        if self._tls is None:
            self._socket.sendall(data)
            return
        try:
            self._socket.sendall(self._tls.encrypt(data))
        except ConnectionError as error:
            # If the daemon refused the client's certificate and closed, its alert has arrived.
            self._receive(deadline)
            raise self._tls.new_closed_error() from error

    def _receive(self, deadline: Deadline) -> None:
        self._limit(deadline)
        if self._tls is None:
            self._connection.receive_data(self._socket.recv(RECEIVE_BYTES))
            return
        try:
            received = self._socket.recv(RECEIVE_BYTES)
        except ConnectionError as error:
            raise self._tls.new_closed_error() from error
        if data := self._tls.decrypt(received):
            self._connection.receive_data(data)

    def _limit(self, deadline: Deadline) -> None:
        limit(self._socket, deadline)


def limit(connected: socket.socket, deadline: Deadline) -> None:
    """Limit the socket's next call to the deadline.

    Raises:
        TimeoutError: the deadline is over.
    """
    remaining = deadline.remaining
    if remaining <= 0:  # a timeout of 0 would make the socket non-blocking
        raise TimeoutError
    connected.settimeout(remaining)


def open_socket(address: Address, deadline: Deadline) -> socket.socket:
    """Connect to ``address``.

    Raises:
        OSError: the daemon could not be reached in time.
    """
    if address.path is None:
        place = (address.host, address.port)
        # Never 0, which would make the socket non-blocking.
        connected = socket.create_connection(place, max(deadline.remaining, 0.001))
        # Otherwise a small frame may wait until the peer has acknowledged the one before.
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.settimeout(max(deadline.remaining, 0.001))
        connected.connect(address.path)
    except BaseException:
        connected.close()
        raise
    return connected
