"""Why an actor ends the daemon."""

from __future__ import annotations

from authorizerd.image.errors import ChangeError


class UnfitChangeError(Exception):
    """A committed batch does not fit the ACLs before it; no snapshot is better than a wrong one."""

    def __init__(self, offset: int, error: ChangeError) -> None:
        super().__init__(f"the batch that ends at log offset {offset} does not fit: {error}")
        self.offset = offset


class UpdateRefusedError(Exception):
    """An update that was not done, and never will be."""


class LogWriteError(Exception):
    """The log could not be written, so it is not known what of it is durable."""


class SecurityDisabledError(Exception):
    """There is no authorizer, so there are no ACLs (SECURITY_DISABLED); the text is Kafka's."""


class AuthorizerFaultError(Exception):
    """An authorizer that is not the built-in one has failed, or broken the protocol."""


class EndpointStartError(Exception):
    """The authorizer could not start an endpoint, which therefore never opens."""
