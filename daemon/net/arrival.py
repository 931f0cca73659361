"""A connection that was accepted, and has not sent enough to be served yet."""

from __future__ import annotations

import socket
from typing import Final

from authorizerd.daemon.net.connection import Ending, peer_address
from authorizerd.daemon.net.connection_limits import ConnectionLimits, network_of
from authorizerd.tls.server import RetriedHello


class Arrival:
    """The socket of a connection that is not served yet: it has no task and no buffers."""

    __slots__ = ("accepted_at", "address", "network", "retried", "socket", "source")

    def __init__(self, accepted: socket.socket, limits: ConnectionLimits, now: float) -> None:
        """Find out who the peer is.

        Raises:
            BrokenResourceError: the peer has already disconnected.
        """
        self.socket: Final = accepted
        self.accepted_at: Final = now
        self.address: Final = peer_address(accepted)
        self.network: Final = network_of(self.address)
        self.source: Final = limits.source_of(self.address)
        self.retried: RetriedHello | None = None  # the peer was asked for another TLS hello

    def end(self, _: Ending) -> None:
        self.socket.close()
