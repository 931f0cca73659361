"""How a client logs in with Kerberos (GSSAPI).

Source: Kafka 4.3 KerberosLogin, SaslConfigs; Java's Krb5LoginModule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from authorizerd.config.oauth import InvalidLoginError, ReadKey, RefreshRule
from authorizerd.config.values import GSSAPI

KERBEROS_LOGIN_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
SERVICE_NAME: Final = "sasl.kerberos.service.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketLogIn:
    """The principal to log in as, the keytab with its key, and the nodes' service name."""

    principal: str
    keytab: str
    service_name: str
    refresh: RefreshRule = field(default_factory=RefreshRule)

    mechanism = GSSAPI

    @property
    def username(self) -> str:
        """The name that Kafka's default rule gives: the principal's first part."""
        return self.principal.partition("@")[0].partition("/")[0]


def new_ticket_log_in(read: ReadKey, options: Mapping[str, str]) -> TicketLogIn:
    """Return how a client gets tickets: from a keytab, as no one is there to type a password.

    Args:
        options: those of the client's JAAS line.

    Raises:
        InvalidLoginError: an option or a key is missing.
    """
    principal, keytab = options.get("principal", ""), options.get("keyTab", "")
    if options.get("useKeyTab", "").lower() != "true" or not (keytab and principal):
        reason = 'expected useKeyTab=true, keyTab="/PATH" and principal="NAME@REALM"'
        raise InvalidLoginError("sasl.jaas.config", reason)
    service_name = options.get("serviceName") or read(SERVICE_NAME)
    if not service_name:
        reason = "required for GSSAPI: set it to the name in the nodes' principals, such as kafka"
        raise InvalidLoginError(SERVICE_NAME, reason)
    return TicketLogIn(
        principal=principal,
        keytab=keytab.removeprefix("file://"),
        service_name=service_name,
        refresh=RefreshRule(
            factor=read("sasl.kerberos.ticket.renew.window.factor"),
            jitter=read("sasl.kerberos.ticket.renew.jitter"),
        ),
    )
