"""The errors of the Kafka client: what may be tried again, and what ends a request."""

from __future__ import annotations

from enum import Enum, auto

from authorizerd.kafka_client.address import Address
from authorizerd.protocol.kafka.error_codes import ApiError


class Cause(Enum):
    """Why a request failed, where the user's settings decide."""

    UNREACHABLE = auto()
    """Every server refused the connection, closed it, or is not a Kafka server."""
    LOG_IN_REQUIRED = auto()
    """The listener requires a log-in, and there are no credentials."""
    LOG_IN_UNEXPECTED = auto()
    """The listener has no log-in, and there are credentials."""
    MECHANISM = auto()
    """The listener does not enable the mechanism."""
    CREDENTIALS = auto()
    """The server rejects the credentials."""
    IMPOSTOR = auto()
    """The server does not prove that it knows the credentials, or asks for too little or much."""


class RequestFailedError(Exception):
    """A request that was rejected, or not answered in time.

    Args:
        cause: the reason, if the settings can remedy it.
    """

    def __init__(self, error: ApiError, cause: Cause | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.cause = cause


class ConnectionFailedError(Exception):
    """A connection failed or broke; the text names the address."""


class UnservedError(ConnectionFailedError):
    """The server refused or closed the connection, or its answer was not a Kafka response.

    Waiting rarely helps.

    Args:
        address: the server's.
        is_closed_later: True if the server answered ApiVersions, then closed the connection.
    """

    def __init__(self, text: str, address: Address, *, is_closed_later: bool = False) -> None:
        super().__init__(text)
        self.address = address
        self.is_closed_later = is_closed_later
