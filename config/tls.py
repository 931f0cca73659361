"""TLS settings from Kafka's ``ssl.*`` keys, for listeners, for our own ports and for clients.

Our own ports are the decision, admin and metrics ports: those that Kafka does not have.

**Invariant:** no error and no ``repr`` contains a password, a key or an inline certificate.

Source: Kafka 4.3 SslConfigs, DefaultSslEngineFactory; KIP-651 (PEM), KIP-684 (``ssl.client.auth``
of SASL_SSL listeners).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.principals.mapping import DEFAULT_RULES, PrincipalMapping

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
KEYSTORE: Final = "ssl.keystore."
TRUSTSTORE: Final = "ssl.truststore."
KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105 - a key's name
CLIENT_AUTH: Final = "ssl.client.auth"
DEFAULT_MAPPING: Final = PrincipalMapping.parse(DEFAULT_RULES)


class StoreType(StrEnum):
    """The type of a keystore or truststore. Files of type JKS may contain PKCS12, as in Java."""

    JKS = "JKS"
    PKCS12 = "PKCS12"
    PEM = "PEM"


class ClientAuth(StrEnum):
    """Whether a server asks clients for a certificate, and whether they must have one."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class InvalidTlsError(InvalidValueError):
    """TLS settings that contradict each other. ``key`` names the key to change or to set."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A keystore or truststore: a file, or inline PEM. The type is None if it is not set.

    ``certificates`` and ``key`` are inline PEM texts; a truststore has no key. ``key_name`` is the
    key that sets the location or the inline text, for errors.
    """

    type: StoreType | None
    location: str | None
    password: str | None = field(repr=False)
    certificates: str | None = field(repr=False)
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    key_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The settings of one port, or of a client.

    ``cipher_suites`` has OpenSSL's names; it is empty if OpenSSL chooses. ``checks_host`` matters
    for clients only.
    """

    keystore: Store | None
    truststore: Store | None
    client_auth: ClientAuth
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    checks_host: bool
    principal_mapping: PrincipalMapping
    allows_dn_changes: bool = False
    allows_san_changes: bool = False

    def without_client_auth(self) -> TlsSettings:
        """Return the same settings, except that clients need no certificate."""
        return replace(self, client_auth=ClientAuth.NONE, truststore=None)


def new_tls_settings(values: Mapping[str, Any], names: Mapping[str, str]) -> TlsSettings:
    """Return the settings for these values of Kafka's ``ssl.*`` keys.

    Args:
        values: the parsed values, by Kafka's name of the key. A missing key counts as not set.
        names: the name of each key with its prefix, for errors, by Kafka's name.

    Raises:
        InvalidTlsError: the values contradict each other.
    """
    return TlsSettings(
        keystore=_keystore(values, names),
        truststore=_truststore(values, names),
        client_auth=values.get(CLIENT_AUTH) or ClientAuth.NONE,
        protocols=values.get("ssl.enabled.protocols") or TLS_VERSIONS,
        cipher_suites=values.get("ssl.cipher.suites") or (),
        checks_host=values.get("ssl.endpoint.identification.algorithm", True),
        principal_mapping=values.get("ssl.principal.mapping.rules") or DEFAULT_MAPPING,
        allows_dn_changes=values.get("ssl.allow.dn.changes") or False,
        allows_san_changes=values.get("ssl.allow.san.changes") or False,
    )


def check_server(settings: TlsSettings, names: Mapping[str, str]) -> None:
    """Check that a server can use the settings.

    Raises:
        InvalidTlsError: there is no keystore, or clients are asked for certificates but there is
            no truststore.
    """
    if settings.keystore is None:
        raise InvalidTlsError(
            names["ssl.keystore.location"],
            "required for TLS: set it to a file with the certificate and its key",
        )
    if settings.client_auth is not ClientAuth.NONE and settings.truststore is None:
        # Java would fall back to the public CAs, which would admit nearly everyone.
        reason = (
            f"required because {names[CLIENT_AUTH]} is {settings.client_auth}: set it to a file"
            " with the CAs that issue the clients' certificates"
        )
        raise InvalidTlsError(names["ssl.truststore.location"], reason)


def _keystore(values: Mapping[str, Any], names: Mapping[str, str]) -> Store | None:
    location = values.get("ssl.keystore.location")
    chain, key = values.get("ssl.keystore.certificate.chain"), values.get("ssl.keystore.key")
    for name, value, partner in (
        ("ssl.keystore.certificate.chain", chain, key),
        ("ssl.keystore.key", key, chain),
    ):
        if partner is not None and value is None:
            raise InvalidTlsError(
                names[name], "the certificate chain and the key must be set together"
            )
    if location is None and key is None:
        return None
    store = _store(values, names, KEYSTORE, "key", chain)
    return replace(store, key=key, key_password=values.get(KEY_PASSWORD))


def _truststore(values: Mapping[str, Any], names: Mapping[str, str]) -> Store | None:
    inline = values.get("ssl.truststore.certificates")
    if values.get("ssl.truststore.location") is None and inline is None:
        return None
    return _store(values, names, TRUSTSTORE, "certificates", inline)


def _store(
    values: Mapping[str, Any],
    names: Mapping[str, str],
    prefix: str,
    inline_key: str,
    certificates: str | None,
) -> Store:
    location, store_type = values.get(f"{prefix}location"), values.get(f"{prefix}type")
    if location is not None and certificates is not None:
        reason = f"set either this or {names[f'{prefix}location']}"
        raise InvalidTlsError(names[prefix + inline_key], reason)
    if certificates is not None and store_type not in (None, StoreType.PEM):
        raise InvalidTlsError(
            names[f"{prefix}type"], f"expected PEM for inline text, found {store_type}"
        )
    password = values.get(f"{prefix}password")
    if password is not None and (certificates is not None or store_type is StoreType.PEM):
        reason = "PEM has no password for the whole store"
        if prefix == KEYSTORE:
            reason += f": use {names[KEY_PASSWORD]} for an encrypted key"
        raise InvalidTlsError(names[f"{prefix}password"], reason)
    return Store(
        type=store_type,
        location=location,
        password=password,
        certificates=certificates,
        key_name=names[f"{prefix}location" if location is not None else prefix + inline_key],
    )
