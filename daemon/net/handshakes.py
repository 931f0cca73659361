"""The TLS handshakes of one server: when they may begin, and how they end.

**Invariant:** no handshake begins while HANDSHAKES_STARTED_MAX others wait for a thread or run in
one. For a while after that, a new client must answer once before its handshake gets a thread.
"""

from __future__ import annotations

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
from authorizerd.tls.client_hello import is_whole_record
from authorizerd.tls.errors import NotTlsError, TlsError
from authorizerd.tls.server import TlsServer
from authorizerd.tls.stream import HANDSHAKES_AT_ONCE_MAX

HANDSHAKES_STARTED_MAX: Final = 2 * HANDSHAKES_AT_ONCE_MAX
PRESSED_SECONDS: Final = 1.0


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
        self.started = 0  # handshakes that wait for a thread, or run in one

    def may_start(self) -> bool:
        """Return True if another handshake may begin; otherwise, note that there is pressure."""
        if self.started < HANDSHAKES_STARTED_MAX:
            return True
        self._pressed_until = self._server.next_sweep + PRESSED_SECONDS
        return False

    def classify(self, arrival: Arrival, opening: bytes) -> Opening:
        """Find out whether a whole hello has arrived. Under load, ask for a second hello."""
        if not is_whole_record(opening):
            return Opening.PARTIAL
        if arrival.retried is not None or self._server.next_sweep >= self._pressed_until:
            return Opening.READY
        retried = self._tls.retry(opening)
        if retried is None:
            return Opening.DOUBTFUL
        arrival.retried, size, answer = retried
        arrival.socket.recv(size, socket.MSG_DONTWAIT)
        arrival.socket.send(answer, socket.MSG_DONTWAIT)  # a new connection's buffer is empty
        return Opening.PARTIAL

    async def secure(self, connection: Connection) -> None:
        """Do the handshake of a new connection. A client's certificate sets its principal.

        Raises:
            ClosingError: the handshake failed, or the certificate gives no principal.
        """
        try:
            connection.stream, identity = await self._tls.accept(
                connection.stream, partial(self._working, connection), retried=connection.retried
            )
        except TlsError as error:
            self._server.statistics.handshakes_failed += 1
            if isinstance(error, NotTlsError):
                await send_last(connection.stream, self._tls_expected)
            peer = connection.address or "the client"
            raise ClosingError(f"TLS handshake with {peer} failed: {error}") from None
        self._server.statistics.handshakes += 1
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
