"""Errors of authentication at a Kafka listener."""

from __future__ import annotations

from authorizerd.daemon.errors import ClosingError


class AuthenticationError(Exception):
    """Authentication failed; the text may be sent to the client.

    Args:
        detail: more of the reason, for the log alone.
    """

    def __init__(self, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.detail = detail


class InvalidCredentialsError(AuthenticationError):
    """Authentication failed. The client does not learn why (for example, an unknown user)."""


class OutOfTurnError(ClosingError):
    """A request that does not fit the state of authentication; it ends the connection."""


class SessionExpiredError(ClosingError):
    """A request arrived after its session's end: the client did not log in again in time."""
