"""Addresses taken at start, accepted from later.

A port that is in use is found out before anything is loaded. Until its endpoint opens the socket
is bound but does not listen, so that who comes early is refused rather than left to wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from daemon.errors import StartError

BACKLOG: Final = 1024


class BoundEndpoint:
    """Sockets bound for one endpoint; ``listen`` turns them, once, into listeners."""

    def __init__(self, key: str, sockets: Sequence[trio.socket.SocketType]) -> None:
        self._key = key
        self._sockets = sockets

    @property
    def address(self) -> str:
        """The first address as ``host:port``, an IPv6 host in brackets."""
        host, port = self._sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def port(self) -> int:
        return int(self._sockets[0].getsockname()[1])

    def listen(self) -> list[trio.SocketListener]:
        """Start listening; the listeners own the sockets from here on.

        Raises:
            StartError: another process has begun to listen there meanwhile.
        """
        try:
            for bound in self._sockets:
                bound.listen(BACKLOG)
        except OSError as error:
            raise StartError(f"{self._key}: {self.address}: {error.strerror}") from error
        return [trio.SocketListener(bound) for bound in self._sockets]

    def close(self) -> None:
        for bound in self._sockets:
            bound.close()


async def bind(host: str | None, port: int, key: str) -> BoundEndpoint:
    """Bind every address of ``host`` (None: every interface), all to one port.

    Raises:
        StartError: an address is in use, or is none of this machine; it names ``key``.
    """
    sockets: list[trio.socket.SocketType] = []
    wanted = port
    try:
        found = await trio.socket.getaddrinfo(
            host, port, type=trio.socket.SOCK_STREAM, flags=trio.socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in found:
            bound = trio.socket.socket(family, kind, protocol)
            sockets.append(bound)
            bound.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_REUSEADDR, 1)
            if family == trio.socket.AF_INET6:
                bound.setsockopt(trio.socket.IPPROTO_IPV6, trio.socket.IPV6_V6ONLY, 1)
            await bound.bind((address[0], port, *address[2:]))
            port = bound.getsockname()[1]
    except OSError as error:
        for bound in sockets:
            bound.close()
        raise StartError(f"{key}: {host or '*'}:{wanted}: {error.strerror or error}") from error
    return BoundEndpoint(key, sockets)
