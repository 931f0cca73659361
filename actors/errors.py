"""The errors of actors, several of which end the daemon."""

from __future__ import annotations

from authorizerd.image.errors import ChangeError


class UnfitChangeError(Exception):
    """A batch contradicts the state before it. The daemon ends: it never serves a wrong state."""

    def __init__(self, offset: int, error: ChangeError) -> None:
        super().__init__(f"the batch that ends at log offset {offset} does not fit: {error}")
        self.offset = offset


class UpdateRefusedError(Exception):
    """An update was refused. Nothing was written, and nothing will be."""


class RejectedUpdateError(Exception):
    """An update was rejected by the followed cluster, or by the daemon's configuration.

    Args:
        code: the number of Kafka's error. text: the text for the client.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class LogWriteError(Exception):
    """The log could not be written, so it is not known how much of it is durable."""


class SecurityDisabledError(Exception):
    """No authorizer is configured, so there are no ACLs (SECURITY_DISABLED), in Kafka's words."""


class AuthorizerFaultError(Exception):
    """A plugged-in authorizer failed, or violated the interface."""


class EndpointStartError(Exception):
    """The authorizer could not start an endpoint, so the endpoint never opens."""
