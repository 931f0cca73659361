"""Connections to ZooKeeper, with a size limit for answers, and our own TLS contexts.

kazoo itself reads keys only from PEM files, and does not say why a connection failed.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from kazoo.handlers.threading import SequentialThreadingHandler

RESPONSE_BYTES_MAX: Final = 64 * 1024 * 1024
"""The maximum size of an answer; a larger one ends the connection. ZooKeeper sends the names of all
children in one answer.
"""


class ConnectionHandler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """Opens kazoo's connections.

    Attributes:
        failure: why the latest connection failed.
    """

    def __init__(self, context: ssl.SSLContext | None, servers: int, timeout: float) -> None:
        super().__init__()
        self._context = context
        self._servers = servers
        self._timeout = timeout
        self._rejected: set[tuple[str, int]] = set()
        self._is_broken = False
        self._socket: socket.socket | None = None
        self.failure = ""
        if context is not None:
            context.sslsocket_class = _BoundedTlsSocket

    @property
    def is_hopeless(self) -> bool:
        """True if kazoo has given up, or no server has a trusted certificate."""
        return self._is_broken or len(self._rejected) >= self._servers

    def create_connection(self, **given: Any) -> socket.socket:  # noqa: ANN401 - as kazoo's
        """Return a connection to ``address``, a pair of IP address and port."""
        address, host = given["address"], given["hostname"]
        timeout = min(given["timeout"] or self._timeout, self._timeout)
        try:
            self._socket = self._connect(address, host, timeout)
        except OSError as error:
            self.failure = _describe(error, host, address[1])
            if isinstance(error, ssl.SSLCertVerificationError):
                self._rejected.add((host, address[1]))
            raise
        self.failure = f"{host}:{address[1]} does not answer, or has closed the connection"
        return self._socket

    def _connect(self, address: tuple[str, int], host: str, timeout: float) -> socket.socket:
        plain = socket.create_connection(address, timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is None:
                bounded = _BoundedSocket(fileno=plain.detach())
                bounded.settimeout(timeout)
                return bounded
            return self._context.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise

    def abort(self) -> None:
        """Break the connection, so that kazoo's thread stops waiting for an answer."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def spawn(self, func: Callable[..., None], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as kazoo's
        """Run a function in a thread, and keep its error, whose traceback Python would print."""

        def run() -> None:
            try:
                func(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - kazoo raises what a malformed answer causes
                self.failure = f"the answer is not ZooKeeper's: {type(error).__name__}"
                self._is_broken = True

        return super().spawn(run)


def _describe(error: OSError, host: str, port: int) -> str:
    place = f"{host}:{port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{place}: TLS: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"{place}: TLS: {error.reason or error}"
    if isinstance(error, TimeoutError):
        return f"{place}: timed out"
    return f"{place}: {error.strerror or error}"


def _check_size(size: int) -> None:
    """Reject an answer before its memory is allocated; kazoo allocates all of it at once."""
    if size > RESPONSE_BYTES_MAX:
        raise OSError(errno.EMSGSIZE, f"an answer of more than {RESPONSE_BYTES_MAX} bytes")


class _BoundedSocket(socket.socket):
    """A connection that rejects answers above the limit."""

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        _check_size(bufsize)
        return super().recv(bufsize, flags)


class _BoundedTlsSocket(ssl.SSLSocket):
    """The same with TLS."""

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        _check_size(buflen)
        return super().recv(buflen, flags)
