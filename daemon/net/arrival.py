"""A connection that was accepted, and has not sent enough to be served yet."""

from __future__ import annotations

import socket
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import trio

from authorizerd.acl.hosts import host_address
from authorizerd.daemon.net.connection_limits import ConnectionLimits, network_of

if TYPE_CHECKING:  # commands that open no port need no TLS
    from authorizerd.tls.server import RetriedHello


class Ending(Enum):
    """Why a server ended a connection."""

    TIMED_OUT = auto()
    EXPIRED = auto()
    EVICTED = auto()
    DRAINED = auto()


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


def peer_address(connected: trio.socket.SocketType | socket.socket) -> str | None:
    """Return the peer's address in the form that Kafka compares, None if the peer has none.

    A link-local address ends with the number of its zone.

    Raises:
        BrokenResourceError: the peer has already disconnected.
    """
    if connected.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        text, _, *flow_and_zone = connected.getpeername()
    except OSError as error:
        raise trio.BrokenResourceError(str(error)) from error
    if any(flow_and_zone[1:]):
        text = f"{text}%{flow_and_zone[1]}"
    host = host_address(text)
    return text if host is None else host
