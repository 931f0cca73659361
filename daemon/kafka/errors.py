"""Errors of log-ins at a Kafka listener."""

from __future__ import annotations

from authorizerd.daemon.errors import ClosingError


class AuthenticationError(Exception):
    """A failed log-in; the text may be sent to the client."""


class InvalidCredentialsError(AuthenticationError):
    """A failed log-in whose reason the client must not learn, such as whether the user exists."""


class OutOfTurnError(ClosingError):
    """A request that does not fit the state of the log-in; it closes the connection unanswered."""


class SessionExpiredError(ClosingError):
    """A request after the end of the session; the client should have logged in again before."""
