"""The settings of TLS: Kafka's ``ssl.*`` keys, for listeners, for our own ports and for clients.

**Invariant:** no password, key or inline certificate is in an error or a ``repr``.

Source: Kafka 4.3 SslConfigs, DefaultSslEngineFactory; KIP-651 (PEM), KIP-684 (``ssl.client.auth``
of SASL_SSL listeners).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.key import Key
from authorizerd.config.principal_mapping import DEFAULT_RULES, PrincipalMapping
from authorizerd.config.values import boolean, choice, invalid, path, reject, words

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
DEFAULT_MAPPING: Final = PrincipalMapping.parse(DEFAULT_RULES)
_DEFAULT_PROTOCOLS: Final = "TLSv1.2,TLSv1.3"

CIPHER_SUITES: Final[Mapping[str, str]] = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
}
"""The suites of TLS 1.2 with forward secrecy: JSSE's names, which Kafka uses, and OpenSSL's."""

_TLS_1_3_SUITE: Final = re.compile("TLS_(AES|CHACHA20)_[0-9A-Z_]+")


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
    """TLS settings that contradict each other. ``key`` is the name that was set, or should be."""

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


def tls_versions(text: str) -> tuple[str, ...]:
    """Return the TLS versions of a comma list. Older versions than 1.2 are rejected."""
    protocols = words(text)
    for protocol in protocols:
        if protocol not in TLS_VERSIONS:
            raise invalid(protocol, " or ".join(TLS_VERSIONS), what="protocol")
    if not protocols:
        raise invalid(text, f"at least one of {', '.join(TLS_VERSIONS)}")
    return protocols


def cipher_suites(text: str) -> tuple[str, ...]:
    """Return OpenSSL's names of the suites in a comma list of JSSE's names."""
    suites = []
    for name in words(text):
        if _TLS_1_3_SUITE.fullmatch(name):
            raise InvalidValueError(
                f"{name} is a suite of TLS 1.3, whose suites cannot be chosen: list only suites"
                " of TLS 1.2"
            )
        if name not in CIPHER_SUITES:
            raise invalid(name, f"one of {', '.join(CIPHER_SUITES)}", what="cipher suite")
        suites.append(CIPHER_SUITES[name])
    return tuple(suites)


def secret_text(text: str) -> str:
    """Return a password, key or certificate as it is."""
    return text


def endpoint_identification(text: str) -> bool:
    """Return True if a client compares the server's name with its certificate."""
    if text.lower() not in ("", "https"):
        raise invalid(text, "https, or an empty value for no check of the host name")
    return text != ""


def ssl_keys(prefix: str = "", *, of: str = "") -> tuple[Key, ...]:
    """Return the keys for TLS, with ``prefix`` before Kafka's names.

    Args:
        of: ends the first sentence of each description, to say what the keys are for.
    """
    return tuple(
        Key(
            name=f"{prefix}{name}",
            parse=parse,
            default=default,
            doc=doc.replace("{of}", of),
        )
        for name, parse, default, doc in _SSL_KEYS
    )


def _default_principal_builder(text: str) -> None:
    # Ignoring another class would give clients other principals than in Kafka.
    if text not in ("", _PRINCIPAL_BUILDER):
        raise InvalidValueError(
            "a Java class cannot be loaded: remove this key, or use ssl.principal.mapping.rules"
        )


_PRINCIPAL_BUILDER: Final = (
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
)
_KEYSTORE: Final = "ssl.keystore."
_TRUSTSTORE: Final = "ssl.truststore."
_KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105 - a key's name
_CLIENT_AUTH: Final = "ssl.client.auth"

RELOADABLE_SSL_KEYS: Final = frozenset(
    (
        *(f"{_KEYSTORE}{each}" for each in ("type", "location", "password", "certificate.chain")),
        *(f"{_TRUSTSTORE}{each}" for each in ("type", "location", "password", "certificates")),
        f"{_KEYSTORE}key",
        _KEY_PASSWORD,
    )
)
"""As in Kafka, the keys that change while a listener is open. Source: SslConfigs."""

SECRET_SSL_KEYS: Final = frozenset(
    (
        f"{_KEYSTORE}password",
        f"{_KEYSTORE}key",
        f"{_KEYSTORE}certificate.chain",
        f"{_TRUSTSTORE}password",
        f"{_TRUSTSTORE}certificates",
        _KEY_PASSWORD,
    )
)
"""The keys whose values are never shown. Kafka's type for all of these is PASSWORD."""

_SSL_KEYS: Final[tuple[tuple[str, Any, str | None, str], ...]] = (
    (
        "ssl.keystore.type",
        choice(StoreType),
        None,
        "Type of the keystore{of}: PEM or PKCS12. By default, the content decides. A real JKS file"
        " is rejected, with the keytool command that converts it.",
    ),
    (
        "ssl.keystore.location",
        path,
        None,
        "File with the private key and the certificate chain{of}. SIGHUP reads it again"
        " (docs/tls.md).",
    ),
    (
        "ssl.keystore.password",
        secret_text,
        None,
        "Password of a PKCS12 keystore{of}. PEM files have none; see ssl.key.password.",
    ),
    (
        "ssl.keystore.certificate.chain",
        secret_text,
        None,
        "The certificate chain{of} in PEM, the server's own certificate first, in place of a file.",
    ),
    (
        "ssl.keystore.key",
        secret_text,
        None,
        "The private key{of} in PEM, in place of a file. It may be encrypted with"
        " ssl.key.password.",
    ),
    (_KEY_PASSWORD, secret_text, None, "Password of an encrypted private key{of} in PEM."),
    (
        "ssl.truststore.type",
        choice(StoreType),
        None,
        "Type of the truststore{of}: PEM or PKCS12. By default, the content decides.",
    ),
    (
        "ssl.truststore.location",
        path,
        None,
        "File with the certificates of the authorities that clients' certificates{of} must come"
        " from. Required if ssl.client.auth is requested or required.",
    ),
    ("ssl.truststore.password", secret_text, None, "Password of a PKCS12 truststore{of}."),
    (
        "ssl.truststore.certificates",
        secret_text,
        None,
        "The authorities' certificates{of} in PEM, in place of a file.",
    ),
    (
        _CLIENT_AUTH,
        choice(ClientAuth),
        "none",
        "Whether clients{of} must have a certificate: none, requested or required.",
    ),
    (
        "ssl.principal.mapping.rules",
        PrincipalMapping.parse,
        DEFAULT_RULES,
        "Rules that turn the distinguished name of a client's certificate into the name of its"
        " principal{of} (docs/tls.md). By default, the principal is the whole name.",
    ),
    (
        "ssl.enabled.protocols",
        tls_versions,
        _DEFAULT_PROTOCOLS,
        "Comma-separated list of the TLS versions{of}: TLSv1.2, TLSv1.3.",
    ),
    (
        "ssl.cipher.suites",
        cipher_suites,
        "",
        "Comma-separated list of the cipher suites{of} for TLS 1.2, by Java's names. By default,"
        " all suites with forward secrecy and authenticated encryption. The suites of TLS 1.3"
        " cannot be chosen.",
    ),
    (
        "ssl.allow.dn.changes",
        boolean,
        "false",
        "Whether a client that replaces a certificate{of} by AlterConfigs may change the"
        " distinguished name. A reload of the file always may.",
    ),
    (
        "ssl.allow.san.changes",
        boolean,
        "false",
        "The same for leaving out alternative names{of}, such as hosts.",
    ),
)

CLIENT_SSL_KEYS: Final = (
    *ssl_keys(),
    Key(
        name="ssl.endpoint.identification.algorithm",
        parse=endpoint_identification,
        default="https",
        doc="https: the server's certificate must be for the host that the client connects to.",
    ),
)
"""The keys that a client reads."""

REJECTED_SSL_KEYS: Final = (
    Key(
        name="ssl.engine.factory.class",
        parse=reject("a Java class cannot be loaded: remove this key", unless_empty=True),
        doc="Rejected unless empty: a Java class cannot be loaded.",
    ),
    Key(
        name="principal.builder.class",
        parse=_default_principal_builder,
        doc=(
            "Rejected unless empty or Kafka's default class: a Java class cannot be loaded. See"
            " ssl.principal.mapping.rules."
        ),
    ),
)


def new_tls_settings(values: Mapping[str, Any], names: Mapping[str, str]) -> TlsSettings:
    """Return the settings that the values of Kafka's ``ssl.*`` keys give.

    Args:
        values: by Kafka's name; parsed. A missing key counts as not set.
        names: the name under which each key was set, or would be, by Kafka's name.

    Raises:
        InvalidTlsError: the values contradict each other.
    """
    return TlsSettings(
        keystore=_keystore(values, names),
        truststore=_truststore(values, names),
        client_auth=values.get(_CLIENT_AUTH) or ClientAuth.NONE,
        protocols=values.get("ssl.enabled.protocols") or TLS_VERSIONS,
        cipher_suites=values.get("ssl.cipher.suites") or (),
        checks_host=values.get("ssl.endpoint.identification.algorithm", True),
        principal_mapping=values.get("ssl.principal.mapping.rules") or DEFAULT_MAPPING,
        allows_dn_changes=values.get("ssl.allow.dn.changes") or False,
        allows_san_changes=values.get("ssl.allow.san.changes") or False,
    )


def check_server(settings: TlsSettings, names: Mapping[str, str]) -> None:
    """Raise an error unless a server can use the settings.

    Raises:
        InvalidTlsError: there is no keystore, or no authority whose clients are known.
    """
    if settings.keystore is None:
        raise InvalidTlsError(
            names["ssl.keystore.location"],
            "required for TLS: set it to a file with the certificate and its key",
        )
    if settings.client_auth is not ClientAuth.NONE and settings.truststore is None:
        # Java would fall back on the public authorities, which would let in nearly everyone.
        reason = f"required because {names[_CLIENT_AUTH]} is {settings.client_auth}"
        raise InvalidTlsError(names["ssl.truststore.location"], reason)


def _keystore(values: Mapping[str, Any], names: Mapping[str, str]) -> Store | None:
    location = values.get("ssl.keystore.location")
    chain, key = values.get("ssl.keystore.certificate.chain"), values.get("ssl.keystore.key")
    for name, value, other in (
        ("ssl.keystore.certificate.chain", chain, key),
        ("ssl.keystore.key", key, chain),
    ):
        if other is not None and value is None:
            raise InvalidTlsError(names[name], "the certificate chain and the key need each other")
    if location is None and key is None:
        return None
    store = _store(values, names, _KEYSTORE, "key", chain)
    return replace(store, key=key, key_password=values.get(_KEY_PASSWORD))


def _truststore(values: Mapping[str, Any], names: Mapping[str, str]) -> Store | None:
    inline = values.get("ssl.truststore.certificates")
    if values.get("ssl.truststore.location") is None and inline is None:
        return None
    return _store(values, names, _TRUSTSTORE, "certificates", inline)


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
        if prefix == _KEYSTORE:
            reason += f": use {names[_KEY_PASSWORD]} for an encrypted key"
        raise InvalidTlsError(names[f"{prefix}password"], reason)
    return Store(
        type=store_type,
        location=location,
        password=password,
        certificates=certificates,
        key_name=names[f"{prefix}location" if location is not None else prefix + inline_key],
    )
