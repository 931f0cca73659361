"""Follow the ACLs of a daemon from a thread.

with watch("http://127.0.0.1:8181", token="ID.SECRET") as events:
    for event in events:
        match event:
            case Listing(offset, acls): ...      # replace your copy
            case Changes(offset, changes): ...   # apply them in order
"""

from __future__ import annotations

import math
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from authorizerd_client.blocking_link import Deadline, limit, open_socket
from authorizerd_client.daemons import Daemon
from authorizerd_client.errors import AuthorizerdError, ConnectionLostError, TimedOutError
from authorizerd_client.following import Follower, new_silence_error
from authorizerd_client.protocol import RECEIVE_BYTES
from authorizerd_client.tls import TlsSession
from authorizerd_client.watch_attempts import Attempts, to_lost
from authorizerd_client.watch_values import AclEvent

SILENCE_SECONDS: Final = 30.0
"""The daemon sends a heartbeat every 10 seconds."""


class AclWatch:
    """An iterator of events: a ``Listing`` first, then every change. Make it with ``watch``.

    It reconnects by itself, and continues where it was. If the daemon no longer has the changes
    in between, or another daemon answers, it yields a new ``Listing``. ``close`` may be called from
    another thread, and ends the iteration.
    """

    def __init__(
        self,
        attempts: Attempts,
        follower: Follower,
        *,
        connect_timeout_seconds: float,
        silence_seconds: float,
    ) -> None:
        self._attempts: Final = attempts
        self._follower: Final = follower
        self._connect_timeout: Final = connect_timeout_seconds
        self._silence_seconds: Final = silence_seconds
        self._events: deque[AclEvent] = deque()
        self._daemon: Daemon | None = None
        self._socket: socket.socket | None = None
        self._tls: TlsSession | None = None
        self._answer_deadline = Deadline(silence_seconds)
        self._closing = threading.Event()

    def close(self) -> None:
        """End the watch."""
        self._closing.set()
        connected = self._socket
        if connected is not None:
            with suppress(OSError):
                # Closing would not wake a thread that is receiving.
                connected.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        self._drop()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> AclEvent:
        """Wait for the next event.

        Raises:
            TokenRefusedError, ForbiddenError, InvalidRequestError, ProtocolError, TlsError: the
                watch cannot go on.
            ConnectionLostError: no daemon has answered for ``retry_seconds``.
        """
        while not self._events:
            if self._closing.is_set():
                self._drop()
                raise StopIteration
            try:
                self._advance()
            except AuthorizerdError:
                self._drop()
                if self._closing.is_set():
                    raise StopIteration from None
                raise
        return self._events.popleft()

    def _advance(self) -> None:
        """Take one step: wait, connect, or receive."""
        now = time.monotonic()
        if self._socket is None:
            daemon = self._attempts.choose(now)
            if daemon is None:
                self._closing.wait(max(0.0, self._attempts.next_attempt - now))
                return
            if daemon is not self._daemon:
                self._follower.forget()
            self._daemon = daemon
        daemon = self._daemon
        assert daemon is not None, "chosen with the first connection"
        try:
            if self._socket is None:
                self._connect(daemon)
            found = self._follower.receive_data(self._receive())
            if self._follower.is_answered:
                self._attempts.succeed(daemon, time.monotonic())
            self._events += found
            if self._follower.needs_connection:
                self._drop()
                if not found:
                    raise ConnectionLostError("the daemon has ended the watch")
        except (OSError, AuthorizerdError) as error:
            self._drop()
            self._attempts.fail(daemon, to_lost(error), time.monotonic())

    def _connect(self, daemon: Daemon) -> None:
        deadline = Deadline(self._connect_timeout)
        try:
            self._open(daemon, deadline)
        except TimeoutError as error:
            raise TimedOutError("the daemon did not answer in time") from error
        self._answer_deadline = Deadline(self._silence_seconds)

    def _open(self, daemon: Daemon, deadline: Deadline) -> None:
        request = self._follower.begin(daemon.address)
        self._socket = connected = open_socket(daemon.address, deadline)
        self._tls = tls = None if daemon.tls is None else daemon.tls.new_session()
        if tls is not None:
            to_send = tls.start_handshake()
            while not tls.is_established:
                limit(connected, deadline)
                connected.sendall(to_send)
                to_send = tls.shake_hands(connected.recv(RECEIVE_BYTES))
            connected.sendall(to_send)
            request = tls.encrypt(request)
        limit(connected, deadline)
        connected.sendall(request)

    def _receive(self) -> bytes:
        """Return the next bytes of the answer; empty at its end."""
        assert self._socket is not None, "connected"
        deadline = self._answer_deadline
        if self._follower.is_answered:
            deadline = Deadline(self._silence_seconds)
        while True:
            try:
                limit(self._socket, deadline)
                received = self._socket.recv(RECEIVE_BYTES)
            except TimeoutError as error:
                raise new_silence_error(self._follower, self._silence_seconds) from error
            if self._tls is None or not received:
                return received
            if data := self._tls.decrypt(received):
                return data

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def watch(
    address: str | Sequence[str],
    *,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    connect_timeout_seconds: float = 5.0,
    silence_seconds: float = SILENCE_SECONDS,
    retry_seconds: float = math.inf,
) -> AclWatch:
    """Return an iterator over the ACLs of a daemon and all their changes.

    Args:
        address: ``http://HOST:PORT`` or ``https://HOST:PORT`` of the decision port; or a list of
            these, in order of preference.
        token: ``ID.SECRET`` of a principal in the daemon's ``authorizerd.callers.read``, unless the
            client has a certificate.
        tls: how to check the daemon's certificate, and which certificate to present.
        connect_timeout_seconds: time limit of one attempt to connect.
        silence_seconds: how long the daemon may be silent before the watch connects again. The
            head of its answer must arrive within this time.
        retry_seconds: how long to try without an answer before an error is raised.

    Raises:
        ValueError: an address is invalid, or ``tls`` is given for one without TLS.
    """
    return AclWatch(
        Attempts(address, tls, retry_seconds),
        Follower(token),
        connect_timeout_seconds=connect_timeout_seconds,
        silence_seconds=silence_seconds,
    )
