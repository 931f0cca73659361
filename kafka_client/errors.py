"""The errors of the Kafka client: which can be retried, and which end a request."""

from __future__ import annotations

from enum import Enum, auto

from authorizerd.kafka_client.address import Address
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode


class Cause(Enum):
    """The reason of a failed request, if the user's settings can remedy it."""

    UNREACHABLE = auto()
    """Every server refused the connection, closed it, or is not a Kafka server."""
    LOG_IN_REQUIRED = auto()
    """The listener requires authentication, but no credentials are configured."""
    LOG_IN_UNEXPECTED = auto()
    """The listener has no authentication, but credentials are configured."""
    MECHANISM = auto()
    """The listener does not enable the mechanism."""
    CREDENTIALS = auto()
    """The server rejects the credentials."""
    ISSUER = auto()
    """The issuer of tokens gives none."""
    TICKET = auto()
    """Kerberos gives no ticket for this client or for the server."""
    IMPOSTOR = auto()
    """The server does not prove that it knows the credentials, or has a bad iteration count."""
    TLS_REQUIRED = auto()
    """The listener speaks TLS, but the client does not."""
    TLS_UNEXPECTED = auto()
    """The client speaks TLS, but the listener does not."""
    CERTIFICATE_EXPIRED = auto()
    """The server's certificate has expired, or is not valid yet."""
    UNKNOWN_CA = auto()
    """The server's certificate is self-signed, or its CA is unknown."""
    WRONG_HOST = auto()
    """The server's certificate is for other hosts."""
    CERTIFICATE_INVALID = auto()
    """The server's certificate is rejected for another reason."""
    CLIENT_CERTIFICATE_REQUIRED = auto()
    """The server requires a client certificate, but none is configured."""
    CLIENT_CERTIFICATE_REJECTED = auto()
    """The server rejects the client's certificate."""
    TLS_PARAMETERS = auto()
    """Client and server have no TLS version or no cipher suite in common."""


class Stage(Enum):
    """How far a connection got before the server ended it."""

    REFUSED = auto()
    """The server refused the connection."""
    HANDSHAKE = auto()
    """The server ended the TLS handshake, or does not speak TLS."""
    NEGOTIATION = auto()
    """The server did not answer ApiVersions."""
    REQUEST = auto()
    """The server answered ApiVersions, but not a request."""
    RESPONSE = auto()
    """The server answered a request with something other than a Kafka response."""


class RequestFailedError(Exception):
    """A request was rejected, or not answered in time.

    Args:
        cause: the reason, if the settings can remedy it.
    """

    def __init__(self, error: ApiError, cause: Cause | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.cause = cause


class HandshakeFailedError(RequestFailedError):
    """One side rejected the other in a TLS handshake.

    Args:
        is_late: True if the server rejects the client after the handshake, as in TLS 1.3.
    """

    def __init__(self, text: str, cause: Cause, *, is_late: bool = False) -> None:
        super().__init__(ApiError(ErrorCode.NETWORK_EXCEPTION, text), cause)
        self.text = text
        self.is_late = is_late


class ConnectionFailedError(Exception):
    """A connection failed or broke; the text names the address."""


class UnservedError(ConnectionFailedError):
    """The server refused or closed the connection, or its answer was not a Kafka response.

    Retrying later rarely helps.

    Args:
        address: the server's.
        stage: how far the connection got.
    """

    def __init__(self, text: str, address: Address, stage: Stage) -> None:
        super().__init__(text)
        self.address = address
        self.stage = stage


class UnusableNodeError(ConnectionFailedError):
    """A node cannot be used with these settings. The text names it, the reason and a remedy.

    Retrying helps only after a change, here or on the node.

    Args:
        cause: None if the settings offer no remedy.
    """

    def __init__(self, text: str, cause: Cause | None) -> None:
        super().__init__(text)
        self.cause = cause


class UnknownOutcomeError(Exception):
    """A request was sent, but no valid answer came: it may have been, or may yet be, carried out.

    The text names the address.
    """
