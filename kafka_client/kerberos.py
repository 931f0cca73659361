"""Log in by Kerberos (GSSAPI), with tickets that are got with a keytab.

**Invariant:** the server proves who it is, too. Only authentication is agreed on: no layer of
integrity or confidentiality, as in Kafka.

The library python-gssapi is in the extra ``kerberos``. Its calls ask the KDC, so they run in
threads.

Source: RFC 4752; Kafka 4.3 SaslClientAuthenticator, KerberosLogin; MIT Kerberos, credential stores.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

import trio

from authorizerd.config.kerberos import TicketLogIn
from authorizerd.kafka_client.errors import Cause, RequestFailedError
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

if TYPE_CHECKING:
    import gssapi

_NO_LAYER: Final = 1
_LAYERS_BYTES: Final = 4
"""A byte of layers, and three of the maximum size of a message."""
_SECONDS_WITHOUT_END: Final = 10 * 3600


class TicketSource:
    """Gets a ticket, and keeps it until it is time for another.

    Raises:
        RequestFailedError: the library is not installed.
    """

    def __init__(self, settings: TicketLogIn) -> None:
        self.settings: Final = settings
        self._ticket: gssapi.Credentials | None = None
        self._replaced_at = 0.0
        self._lock = trio.Lock()

    @property
    def username(self) -> str:
        """The name that the servers give to this client."""
        return self.settings.username

    async def new_context(self, host: str) -> TicketContext:
        """Return the state of a login to the service on ``host``.

        Raises:
            RequestFailedError: the KDC gives no ticket. The text names the principal.
        """
        async with self._lock:
            ticket = self._ticket
            if ticket is None or time.monotonic() >= self._replaced_at:
                ticket, lifetime_s = await trio.to_thread.run_sync(
                    self._acquire, abandon_on_cancel=True
                )
                chance = random.random()  # noqa: S311 - it spreads requests over time
                replaced_in_s = self.settings.refresh.find_time(lifetime_s, chance)
                self._ticket, self._replaced_at = ticket, time.monotonic() + replaced_in_s
        return TicketContext(ticket, self.settings, host)

    def discard(self) -> None:
        """Get a new ticket next time: a server has refused the present one."""
        self._ticket = None

    def _acquire(self) -> tuple[gssapi.Credentials, float]:
        """Return a new ticket, and for how many seconds it is valid. Asks the KDC."""
        try:
            import gssapi
        except ImportError:
            text = "GSSAPI requires the library gssapi: install authorizerd[kerberos]"
            raise _failure(text) from None
        settings = self.settings
        try:
            name = gssapi.Name(settings.principal, gssapi.NameType.kerberos_principal)
            # A cache of our own: the user's tickets stay as they are.
            store = {"client_keytab": f"FILE:{settings.keytab}", "ccache": "MEMORY:"}
            ticket = gssapi.Credentials(name=name, store=store, usage="initiate")
            lifetime_s = ticket.lifetime
        except gssapi.exceptions.GSSError as error:
            raise _failure(f"no ticket for {settings.principal}: {error}") from None
        return ticket, _SECONDS_WITHOUT_END if lifetime_s is None else float(lifetime_s)


class TicketContext:
    """The client's side of one login."""

    def __init__(self, ticket: gssapi.Credentials, settings: TicketLogIn, host: str) -> None:
        self._ticket = ticket
        self._service = f"{settings.service_name}@{host}"
        self._context: gssapi.SecurityContext | None = None

    async def answer(self, challenge: bytes | None) -> bytes:
        """Return the answer to the server's token; its first one is None.

        Raises:
            RequestFailedError: the KDC has no ticket for the service, or the server cannot prove
                who it is.
        """
        return await trio.to_thread.run_sync(self._answer, challenge, abandon_on_cancel=True)

    @property
    def is_established(self) -> bool:
        """True once both sides have proved who they are."""
        return self._context is not None and bool(self._context.complete)

    def _answer(self, challenge: bytes | None) -> bytes:
        import gssapi

        try:
            if self._context is None:
                self._context = gssapi.SecurityContext(
                    name=gssapi.Name(self._service, gssapi.NameType.hostbased_service),
                    creds=self._ticket,
                    flags=gssapi.RequirementFlag.mutual_authentication,
                    mech=gssapi.MechType.kerberos,
                    usage="initiate",
                )
            if not self._context.complete:
                return self._context.step(challenge) or b""
            return self._choose_layer(self._context, challenge or b"")
        except gssapi.exceptions.GSSError as error:
            raise _failure(f"{self._service}: {error}") from None

    def _choose_layer(self, context: gssapi.SecurityContext, challenge: bytes) -> bytes:
        """Return the answer to the server's offer of layers: none of them."""
        offer = context.unwrap(challenge).message
        if len(offer) != _LAYERS_BYTES or not offer[0] & _NO_LAYER:
            raise _failure(f"{self._service}: the server requires more than auth")
        answer: bytes = context.wrap(bytes((_NO_LAYER, 0, 0, 0)), False).message
        return answer


def _failure(text: str) -> RequestFailedError:
    return RequestFailedError(ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, text), Cause.TICKET)
