"""The table of Kafka's ``ssl.*`` keys, and the parsers of their values.

Source: Kafka 4.3 SslConfigs, DynamicBrokerConfig.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.key import OWN_PREFIX, Key, list_keys
from authorizerd.config.principals.mapping import DEFAULT_RULES, PrincipalMapping
from authorizerd.config.tls import (
    KEY_PASSWORD,
    KEYSTORE,
    TLS_VERSIONS,
    TRUSTSTORE,
    ClientAuth,
    StoreType,
)
from authorizerd.config.values import boolean, choice, invalid, path, reject, words

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
    """Return a password, key or certificate unchanged."""
    return text


def endpoint_identification(text: str) -> bool:
    """Return True if a client must check that the server's certificate is for its host."""
    if text.lower() not in ("", "https"):
        raise invalid(text, "https, or an empty value for no check of the host name")
    return text != ""


def _default_principal_builder(text: str) -> None:
    # If another class were ignored, clients would get different principals than in Kafka.
    if text not in ("", _PRINCIPAL_BUILDER):
        raise InvalidValueError(
            f"{text}: a Java class cannot be loaded: remove this key, or use"
            " ssl.principal.mapping.rules"
        )


_PRINCIPAL_BUILDER: Final = (
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
)


class _SslKeys:
    """The keys of any port with TLS."""

    ssl_keystore_type = Key(choice(StoreType))
    """Type of the keystore{of}: PEM or PKCS12. By default, the content decides. A real JKS file is
    rejected, with the keytool command that converts it."""
    ssl_keystore_location = Key(path)
    """File with the private key and the certificate chain{of}. SIGHUP reads it again
    (`authorizerd docs tls`)."""
    ssl_keystore_password = Key(secret_text)
    """Password of a PKCS12 keystore{of}. PEM files have none; see ssl.key.password."""
    ssl_keystore_certificate_chain = Key(secret_text)
    """The certificate chain{of} in PEM, in place of a file. It begins with the server's own
    certificate."""
    ssl_keystore_key = Key(secret_text)
    """The private key{of} in PEM, in place of a file. It may be encrypted with ssl.key.password."""
    ssl_key_password = Key(secret_text)
    """Password of an encrypted private key{of} in PEM."""
    ssl_truststore_type = Key(choice(StoreType))
    """Type of the truststore{of}: PEM or PKCS12. By default, the content decides."""
    ssl_truststore_location = Key(path)
    """File with the certificates of the CAs that may issue certificates for clients{of}. Required
    if ssl.client.auth is requested or required."""
    ssl_truststore_password = Key(secret_text)
    """Password of a PKCS12 truststore{of}."""
    ssl_truststore_certificates = Key(secret_text)
    """The content of the truststore{of} in PEM, in place of a file."""
    ssl_client_auth = Key(choice(ClientAuth), "none")
    """Whether clients{of} must have a certificate: none, requested or required."""
    ssl_principal_mapping_rules = Key(PrincipalMapping.parse, DEFAULT_RULES)
    """For clients{of}: rules that turn the distinguished name of the certificate into the name of
    the principal (`authorizerd docs tls`). By default, the principal is the whole name."""
    ssl_enabled_protocols = Key(tls_versions, _DEFAULT_PROTOCOLS)
    """Comma-separated list of the TLS versions{of}: TLSv1.2, TLSv1.3."""
    ssl_cipher_suites = Key(cipher_suites, "")
    """Comma-separated list of the cipher suites{of} for TLS 1.2, by Java's names. By default, all
    suites with forward secrecy and authenticated encryption. The suites of TLS 1.3 cannot be
    chosen."""
    ssl_allow_dn_changes = Key(boolean, "false")
    """Whether AlterConfigs may change the distinguished name when it replaces a certificate{of}. A
    reload of the file may always change it."""
    ssl_allow_san_changes = Key(boolean, "false")
    """Whether AlterConfigs may leave out alternative names, such as hosts, when it replaces a
    certificate{of}. A reload of the file may always do so."""


class _ClientKeys:
    """The key that only a client reads."""

    ssl_endpoint_identification_algorithm = Key(endpoint_identification, "https")
    """https: the server's certificate must be for the host that the client connects to. An empty
    value disables this check."""


class _RejectedKeys:
    """Keys that name Java classes."""

    ssl_engine_factory_class = Key(
        reject("a Java class cannot be loaded: remove this key", unless_empty=True)
    )
    """Rejected unless empty: a Java class cannot be loaded."""
    principal_builder_class = Key(_default_principal_builder)
    """Rejected unless empty or Kafka's default class: a Java class cannot be loaded. See
    ssl.principal.mapping.rules."""


def ssl_keys(prefix: str = "", *, of: str = "") -> tuple[Key, ...]:
    """Return the keys for TLS, with ``prefix`` before Kafka's names.

    Args:
        of: names, in each description, the ports that use the keys.
    """
    return (*list_keys(_SslKeys, prefix, of=of).values(),)


(ENDPOINT_IDENTIFICATION,) = list_keys(_ClientKeys).values()

CLIENT_SSL_KEYS: Final = (*ssl_keys(), ENDPOINT_IDENTIFICATION)
"""The keys that a client reads."""

REJECTED_SSL_KEYS: Final = (*list_keys(_RejectedKeys).values(),)

RELOADABLE_SSL_KEYS: Final = frozenset(
    key.name for key in ssl_keys() if key.name.startswith((KEYSTORE, TRUSTSTORE, KEY_PASSWORD))
)
"""The keys that can change while a listener is open, as in Kafka. Source: SslConfigs."""

SECRET_SSL_KEYS: Final = frozenset(key.name for key in ssl_keys() if key.parse is secret_text)
"""The keys whose values are never shown. Kafka's type for all of these is PASSWORD."""

HTTP_SSL_PREFIX: Final = f"{OWN_PREFIX}http."
_SSL_NAMES: Final = frozenset(key.name for key in ssl_keys())
_PORT_PREFIXES: Final = ("", HTTP_SSL_PREFIX, f"{OWN_PREFIX}source.")
_LISTENER: Final = "listener.name."


def kafka_ssl_name(name: str) -> str | None:
    """Return Kafka's name of an ``ssl.*`` key, without a prefix; None if it is another key.

    Clients send names of any length, so this takes linear time.
    """
    key = name[name.rfind("ssl.") :]
    prefix = name.removesuffix(key)
    listener = prefix.removeprefix(_LISTENER).removesuffix(".")
    is_of_listener = listener and prefix == f"{_LISTENER}{listener}." and "\n" not in listener
    return key if key in _SSL_NAMES and (prefix in _PORT_PREFIXES or is_of_listener) else None


def is_secret_ssl_key(name: str) -> bool:
    """Return True if the value of an ``ssl.*`` key, with any prefix, must not be shown."""
    return kafka_ssl_name(name) in SECRET_SSL_KEYS


def is_store_key(name: str) -> bool:
    """Return True if the key, with any prefix, is about a keystore or truststore."""
    return kafka_ssl_name(name) in RELOADABLE_SSL_KEYS


def is_http_ssl_key(name: str) -> bool:
    """Return True if the key is about TLS of our own ports."""
    return name.startswith(HTTP_SSL_PREFIX) and kafka_ssl_name(name) is not None
