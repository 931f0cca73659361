"""The TLS handshakes of one server: when they may begin, and how they end.

**Invariant:** no handshake begins while HANDSHAKES_STARTED_MAX others wait for a thread or run in
one. If more than UNANSWERED_MAX hellos were answered in vain, a new client must answer once before
its handshake costs a key exchange and a signature. Clients that complete their handshakes cause no
such delay, however many connect at once.
"""

from __future__ import annotations

import logging
import math
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from authorizerd.daemon.errors import ClosingError
from authorizerd.daemon.net.arrivals import Arrival, Ending, Opening
from authorizerd.daemon.net.connection import Connection, Owner, Phase
from authorizerd.daemon.net.socket_stream import send_last
from authorizerd.tls.client_hello import QUICK_BYTES_MAX, is_whole_record
from authorizerd.tls.errors import NotTlsError, TlsError
from authorizerd.tls.server import TlsServer
from authorizerd.tls.stream import HANDSHAKES_AT_ONCE_MAX

HANDSHAKES_STARTED_MAX: Final = 2 * HANDSHAKES_AT_ONCE_MAX
PRESSED_SECONDS: Final = 1.0
UNANSWERED_MAX: Final = 64
"""Their number is halved at each sweep, so about 128 unanswered hellos per second exceed it."""

_logger = logging.getLogger(__name__)


class Handshakes:
    """Performs the handshakes of one server.

    Args:
        tls_expected: sent unencrypted to a peer that does not speak TLS.
        wake: called when another handshake may begin.
    """

    def __init__(
        self, server: Owner, tls: TlsServer, tls_expected: bytes, wake: Callable[[], None]
    ) -> None:
        self._server: Final = server
        self._tls: Final = tls
        self._tls_expected: Final = tls_expected
        self._wake: Final = wake
        self._pressed_until = -math.inf
        self._unanswered, self._halved_at = 0, -math.inf
        self.started = 0  # handshakes that wait for a thread, or run in one

    def may_start(self) -> bool:
        """Return True if another handshake may begin; otherwise, note that there is pressure."""
        if self.started < HANDSHAKES_STARTED_MAX:
            return True
        self._pressed_until = self._server.next_sweep + PRESSED_SECONDS
        return False

    def classify(self, arrival: Arrival, opening: bytes) -> Opening:
        """Find out whether a whole hello has arrived. In a flood, ask for a second hello."""
        if not is_whole_record(opening):
            return Opening.PARTIAL
        if arrival.answered is not None or not self._is_flooded:
            return Opening.READY
        if self._answer(arrival, opening, is_retried=True):
            return Opening.PARTIAL
        return Opening.DOUBTFUL

    @property
    def _is_flooded(self) -> bool:
        is_pressed = self._server.next_sweep < self._pressed_until or self._tls.begins_quickly
        return is_pressed and self._unanswered > UNANSWERED_MAX

    def begin(self, arrival: Arrival) -> bool:
        """Answer the hello of an arrival, if that is quick. Return True if the client must answer.

        Otherwise the connection must be served now, also if it is broken.
        """
        if arrival.answered is not None or not self._tls.begins_quickly:
            return False
        try:
            opening = arrival.socket.recv(QUICK_BYTES_MAX, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            return self._answer(arrival, opening, is_retried=False)
        except OSError:  # the peer may reset the connection at any time
            return False

    def note_end(self, arrival: Arrival) -> None:
        """Count the handshake of an arrival whose client did not complete it.

        A client that was asked for a second hello is not counted: a flood has thousands of these.
        """
        if arrival.answered is not None and not arrival.answered[2].is_retried:
            self._server.statistics.handshakes_failed += 1
            peer = arrival.address or "the client"
            _logger.info("%s: TLS handshake with %s was not completed", self._server.name, peer)

    def _answer(self, arrival: Arrival, opening: bytes, *, is_retried: bool) -> bool:
        answered = self._tls.answer(opening, is_retried=is_retried)
        if answered is None:
            return False
        arrival.answered, size = answered
        self._count_hello()
        arrival.socket.recv(size, socket.MSG_DONTWAIT)
        outgoing = arrival.answered[2].outgoing
        answer = outgoing.read()
        # The buffer of a new connection is empty, and most chains of certificates fit into it.
        sent = arrival.socket.send(answer, socket.MSG_DONTWAIT)
        outgoing.write(answer[sent:])  # the connection's task sends the rest
        return sent == len(answer)

    def _count_hello(self) -> None:
        if self._halved_at != self._server.next_sweep:
            self._halved_at = self._server.next_sweep
            self._unanswered //= 2
        self._unanswered += 1

    async def secure(self, connection: Connection) -> None:
        """Do the handshake of a new connection. A client's certificate sets its principal.

        Raises:
            ClosingError: the handshake failed, or the certificate gives no principal.
        """
        if connection.answered is None:
            self._count_hello()
        try:
            connection.stream, identity = await self._tls.accept(
                connection.stream, partial(self._working, connection), answered=connection.answered
            )
        except TlsError as error:
            self._server.statistics.handshakes_failed += 1
            if isinstance(error, NotTlsError):
                await send_last(connection.stream, self._tls_expected)
            peer = connection.address or "the client"
            raise ClosingError(f"TLS handshake with {peer} failed: {error}") from None
        self._server.statistics.handshakes += 1
        self._unanswered = max(0, self._unanswered - 1)
        if identity is not None:
            connection.principal = identity.principal
            connection.valid_from = identity.not_before
            connection.expires_at = identity.not_after

    @contextmanager
    def _working(self, connection: Connection) -> Iterator[None]:
        """Protect a connection while its handshake waits for a thread: its peer is not to blame.

        Otherwise a flood would evict each client before its turn comes.
        """
        connection.phase = Phase.ANSWERING
        self.started += 1
        try:
            yield
        finally:
            self.started -= 1
            self._wake()
            connection.enter(Phase.IDLE)
            if self._server.is_draining:
                connection.end(Ending.DRAINED)
