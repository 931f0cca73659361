"""Errors of authentication at a Kafka listener."""

from __future__ import annotations

from authorizerd.daemon.errors import ClosingError


class AuthenticationError(Exception):
    """Failed authentication; the text may be sent to the client."""


class InvalidCredentialsError(AuthenticationError):
    """Failed authentication. The client does not learn why, such as that the user is unknown."""


class OutOfTurnError(ClosingError):
    """A request that does not fit the state of authentication; it ends the connection."""


class SessionExpiredError(ClosingError):
    """A request after the end of the session; the client should have logged in again before."""
