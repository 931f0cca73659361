"""The security settings of a client: ``security.protocol``, ``sasl.*`` and ``ssl.*``.

**Invariant:** errors never contain a password or a key.

Source: Kafka 4.3 CommonClientConfigs, SaslConfigs, SslConfigs, JaasContext. As in Kafka, PLAIN also
accepts the login module of SCRAM. ``ssl.protocol`` is ignored: the newest common version is used.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final

from authorizerd.cli.acls.errors import (
    configuration_error,
    invalid_value,
    tls_configuration_error,
)
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.jaas import parse_log_in
from authorizerd.config.tls import InvalidTlsError, TlsSettings, new_tls_settings
from authorizerd.config.tls_keys import CLIENT_SSL_KEYS, REJECTED_SSL_KEYS
from authorizerd.config.values import SASL_PROTOCOLS, TLS_PROTOCOLS, SecurityProtocol
from authorizerd.kafka_client.log_in import Credentials, Mechanism
from authorizerd.tls.context import new_client_context
from authorizerd.tls.errors import StoreError
from authorizerd.tls.material import read_material

_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
_KAFKAS_DEFAULT: Final = "GSSAPI"
_TLS_KEYS: Final = (*CLIENT_SSL_KEYS, *REJECTED_SSL_KEYS)
SECURITY_KEYS: Final = (_PROTOCOL, _MECHANISM, _JAAS, *(key.name for key in _TLS_KEYS))


def read_security_protocol(properties: Mapping[str, str]) -> SecurityProtocol:
    """Return the security protocol.

    Raises:
        CommandError: it is unknown.
    """
    text = properties.get(_PROTOCOL, SecurityProtocol.PLAINTEXT)
    try:
        return SecurityProtocol(text.strip().upper())
    except ValueError:
        # The order of these names is Kafka's.
        expected = "SASL_SSL, PLAINTEXT, SSL, SASL_PLAINTEXT"
        reason = f"String must be one of (case insensitive): {expected}"
        raise invalid_value(_PROTOCOL, text, reason) from None


def read_credentials(
    properties: Mapping[str, str], protocol: SecurityProtocol
) -> Credentials | None:
    """Return the credentials to log in with, or None if the protocol has no log-in.

    Raises:
        CommandError: a property is missing, invalid or unsupported.
    """
    if protocol not in SASL_PROTOCOLS:
        return None
    mechanism = _read_mechanism(properties)
    if _JAAS not in properties:
        raise configuration_error(
            f"{_JAAS} is missing: set it to a line with the user's name and password"
        )
    try:
        user = parse_log_in(properties[_JAAS], mechanism)
    except InvalidValueError as error:
        raise configuration_error(f"{_JAAS}: {error}") from None
    return Credentials(mechanism=mechanism, username=user.username, password=user.password)


def read_tls(properties: Mapping[str, str], protocol: SecurityProtocol) -> TlsSettings | None:
    """Return the settings of TLS, or None if the protocol has no TLS.

    Raises:
        CommandError: a property is invalid or unsupported, or properties contradict each other.
    """
    if protocol not in TLS_PROTOCOLS:
        return None
    values: dict[str, Any] = {}
    for key in _TLS_KEYS:
        text = properties.get(key.name, key.default)
        if text is None:
            continue
        try:
            values[key.name] = key.parse(text)
        except InvalidValueError as error:
            raise invalid_value(key.name, text, str(error)) from None
    try:
        return new_tls_settings(values, {key.name: key.name for key in _TLS_KEYS})
    except InvalidTlsError as error:
        raise tls_configuration_error(f"{error.key}: {error}") from None


def open_context(settings: TlsSettings) -> ssl.SSLContext:
    """Read the keystore and truststore, and return the context for TLS. Reading blocks.

    Raises:
        CommandError: a store cannot be used.
    """
    try:
        return new_client_context(settings, read_material(settings))
    except StoreError as error:
        raise tls_configuration_error(str(error)) from None


def _read_mechanism(properties: Mapping[str, str]) -> Mechanism:
    text = properties.get(_MECHANISM, _KAFKAS_DEFAULT)
    try:
        return Mechanism(text)
    except ValueError:
        reason = f"authorizerd acls supports only {', '.join(Mechanism)}"
        if _MECHANISM not in properties:
            reason += "; GSSAPI is Kafka's default"
        raise invalid_value(_MECHANISM, text, reason) from None
