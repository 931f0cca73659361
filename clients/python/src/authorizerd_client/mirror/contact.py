"""Ask daemons for their state at ``/v1/state``, over one connection at a time."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final

from authorizerd_client.errors import AuthorizerdError, ConnectionLostError, ProtocolError
from authorizerd_client.mirror.state import STATE_BYTES_MAX, DaemonState, read_state
from authorizerd_client.values import Address, parse_address
from authorizerd_client.watch_attempts import to_stream_address

STATE_PATH: Final = "/v1/state"
_OK: Final = 200
_TEXT_MAX: Final = 300


class Contact:
    """Asks the first daemon that answers, and another one after each failure.

    Args:
        timeout_seconds: time limit of connecting, and of a request.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        token: str | None,
        tls: ssl.SSLContext | None,
        *,
        timeout_seconds: float,
    ) -> None:
        self._addresses: Final = [parse_address(to_stream_address(each)) for each in addresses]
        self._tls: Final = tls
        self._headers: Final = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout: Final = timeout_seconds
        self._next = 0
        self._connection: HTTPConnection | None = None

    def ask(self) -> DaemonState:
        """Return the state of a daemon; wait at most for the time limit.

        Raises:
            AuthorizerdError: it has not answered, or cannot decide. The next call asks another one.
        """
        timer = threading.Timer(self._timeout, self._abort)  # a peer may send byte by byte
        timer.daemon = True
        timer.start()
        try:
            return self._ask()
        except BaseException as error:
            self.close()
            self._next = (self._next + 1) % len(self._addresses)
            if isinstance(error, OSError | HTTPException):
                raise ConnectionLostError(
                    f"/v1/state: {str(error) or type(error).__name__}"
                ) from error
            raise
        finally:
            timer.cancel()

    def _abort(self) -> None:
        """End a request that takes too long; called by another thread."""
        connected = None if self._connection is None else self._connection.sock
        if connected is not None:
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _ask(self) -> DaemonState:
        if self._connection is None:
            self._connection = self._connect(self._addresses[self._next])
        self._connection.request("GET", STATE_PATH, headers=self._headers)
        response = self._connection.getresponse()
        body = response.read(STATE_BYTES_MAX + 1)
        if response.status != _OK:
            text = body[:_TEXT_MAX].decode(errors="replace").strip()
            raise AuthorizerdError(f"/v1/state: status {response.status}: {text}")
        if len(body) > STATE_BYTES_MAX:
            raise ProtocolError(f"/v1/state: more than {STATE_BYTES_MAX} bytes")
        return read_state(body)

    def _connect(self, address: Address) -> HTTPConnection:
        if not address.is_tls:
            return HTTPConnection(address.host, address.port, timeout=self._timeout)
        context = self._tls or ssl.create_default_context()
        return HTTPSConnection(address.host, address.port, timeout=self._timeout, context=context)
