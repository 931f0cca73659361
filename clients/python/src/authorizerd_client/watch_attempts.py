"""Choose the daemon that a watch follows next, when to try it, and when to give up.

Nothing here has a clock or a socket. All times are seconds of one clock, which the caller chooses.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Final, TypeAlias

from authorizerd_client.daemons import FAILOVER_SECONDS, Daemon, Daemons
from authorizerd_client.errors import (
    AuthorizerdError,
    ConnectionLostError,
    OverloadedError,
    TimedOutError,
)

TransientError: TypeAlias = ConnectionLostError | TimedOutError | OverloadedError
"""After these errors, the watch connects again."""
_STREAM_SCHEMES: Final = {"http://": "tcp://", "https://": "tls://"}


def to_stream_address(text: str) -> str:
    """Return the address of an HTTP port in the form that the other clients use.

    Raises:
        ValueError: it is not ``http://HOST:PORT`` or ``https://HOST:PORT``.
    """
    for scheme, stream_scheme in _STREAM_SCHEMES.items():
        if text.startswith(scheme):
            return stream_scheme + text.removeprefix(scheme).removesuffix("/")
    raise ValueError(f"invalid address {text!r}: expected http://HOST:PORT or https://HOST:PORT")


class Attempts:
    """Choose the daemon of each connection.

    Args:
        retry_seconds: how long to try without an answer before giving up.
    """

    def __init__(
        self, addresses: str | Sequence[str], tls: ssl.SSLContext | None, retry_seconds: float
    ) -> None:
        texts = [addresses] if isinstance(addresses, str) else addresses
        self._daemons: Final = Daemons(
            [to_stream_address(text) for text in texts], tls, FAILOVER_SECONDS
        )
        self._retry_seconds: Final = retry_seconds
        self._answered_at: float | None = None

    @property
    def next_attempt(self) -> float:
        """Return the first time at which a daemon may be tried."""
        return self._daemons.next_attempt

    def choose(self, now: float) -> Daemon | None:
        """Return the daemon to connect to, or None if it is too early."""
        if self._answered_at is None:
            self._answered_at = now
        return self._daemons.choose(now)

    def succeed(self, daemon: Daemon, now: float) -> None:
        """Record that the daemon sends what was asked for."""
        self._answered_at = now
        daemon.backoff.succeed()

    def fail(self, daemon: Daemon, error: TransientError, now: float) -> None:
        """Record a failure.

        Raises:
            AuthorizerdError: it is time to give up.
        """
        daemon.backoff.fail(now)
        daemon.error = str(error)
        assert self._answered_at is not None, "a daemon was chosen"
        if now - self._answered_at >= self._retry_seconds:
            raise ConnectionLostError(self._daemons.explain()) from error


def to_lost(error: Exception) -> TransientError:
    """Return the error for a connection that failed.

    Raises:
        AuthorizerdError: ``error`` itself, if it is not temporary.
    """
    if isinstance(error, TransientError):
        return error
    if isinstance(error, AuthorizerdError):
        raise error
    return ConnectionLostError(f"the connection broke: {error}")
