"""The daemon's credentials for the cluster that it follows, and its TLS settings as a client.

**Invariant:** no error contains a password or a key.

Source: Kafka 4.3 KafkaRaftManager, ChannelBuilders.clientChannelBuilder,
JaasContext.loadServerContext (for controllers) and loadClientContext (for brokers).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from authorizerd.config.follow.settings import (
    CONTROLLER_MECHANISM,
    CONTROLLER_NAMES,
    JAAS,
    SOURCE_PREFIX,
    SOURCE_SSL_KEYS,
    LogIn,
)
from authorizerd.config.jaas import parse_log_in
from authorizerd.config.key_values import KeyValues
from authorizerd.config.keys import listener_prefix
from authorizerd.config.tls import TlsSettings
from authorizerd.config.tls_rules import combine_ssl_values, read_ssl_values
from authorizerd.config.values import (
    SASL_MECHANISMS,
    SASL_PROTOCOLS,
    TLS_PROTOCOLS,
    SecurityProtocol,
    trim,
    words,
)

_PROTOCOL: Final = f"{SOURCE_PREFIX}security.protocol"
_MECHANISM: Final = f"{SOURCE_PREFIX}sasl.mechanism"
_JAAS: Final = f"{SOURCE_PREFIX}{JAAS}"
_SSL_NAMES: Final = {key.name: SOURCE_PREFIX + key.name for key in SOURCE_SSL_KEYS}

Access = tuple[LogIn | None, TlsSettings | None]


def read_controller_access(
    keys: KeyValues, listener_name: str, protocols: Mapping[str, SecurityProtocol]
) -> Access:
    """Return the credentials and the TLS settings for the controllers' listener.

    Raises:
        ConfigurationError: a key is missing or not supported, or keys contradict each other.
    """
    protocol = protocols.get(listener_name)
    if protocol is None:
        try:  # as Kafka does
            protocol = SecurityProtocol(listener_name.upper())
        except ValueError:
            reason = f"listener.security.protocol.map has no security protocol for {listener_name}"
            raise keys.refusal(CONTROLLER_NAMES, reason) from None
    log_in = tls = None
    if protocol in SASL_PROTOCOLS:
        mechanism = _read_mechanism(keys, CONTROLLER_MECHANISM)
        log_in = _read_log_in(keys, controller_jaas_keys(listener_name, mechanism), mechanism)
    if protocol in TLS_PROTOCOLS:
        prefix = listener_prefix(listener_name)
        tls = combine_ssl_values(keys, *read_ssl_values(keys, prefix, SOURCE_SSL_KEYS))
    return log_in, tls


def read_broker_access(keys: KeyValues) -> Access:
    """Return the credentials and the TLS settings for the brokers' listener.

    Raises:
        ConfigurationError: a key is missing or not supported, or keys contradict each other.
    """
    protocol: SecurityProtocol = keys.values[_PROTOCOL]
    log_in = tls = None
    if protocol in SASL_PROTOCOLS:
        mechanism = _read_mechanism(keys, _MECHANISM)
        log_in = _read_log_in(keys, (_JAAS,), mechanism)
    else:
        _refuse_unused(keys, (_MECHANISM, _JAAS), "SASL_SSL or SASL_PLAINTEXT")
    if protocol in TLS_PROTOCOLS:
        values = {key: keys.values[name] for key, name in _SSL_NAMES.items()}
        tls = combine_ssl_values(keys, values, _SSL_NAMES)
    else:
        _refuse_unused(keys, (*_SSL_NAMES.values(),), "SASL_SSL or SSL")
    return log_in, tls


def controller_jaas_keys(listener_name: str, mechanism: str) -> tuple[str, ...]:
    """Return the keys that may have the JAAS line; the first key that is set counts."""
    prefix = listener_prefix(listener_name)
    # Kafka reads only the first one.
    return f"{prefix}{mechanism.lower()}.{JAAS}", f"{prefix}{JAAS}", JAAS


def list_controller_tls_keys(values: Mapping[str, str]) -> set[str]:
    """Return the keys for reaching the controllers' listener, from the texts of a valid file."""
    prefix = listener_prefix(words(trim(values[CONTROLLER_NAMES]))[0])
    return {before + key.name for key in SOURCE_SSL_KEYS for before in ("", prefix)}


def _read_mechanism(keys: KeyValues, key: str) -> str:
    mechanism: str = keys.values[key]
    if mechanism in SASL_MECHANISMS:
        return mechanism
    reason = f"{mechanism} is not supported"
    if key not in keys.properties:
        reason = f"required, because {reason}, which is Kafka's default"
    raise keys.refusal(key, f"{reason}: set one of {', '.join(SASL_MECHANISMS)}")


def _read_log_in(keys: KeyValues, names: tuple[str, ...], mechanism: str) -> LogIn:
    name = next((key for key in names if key in keys.properties), None)
    if name is None:
        reason = "required for authentication: set it to a JAAS line with username and password"
        raise keys.refusal(names[0], reason)
    log_in = keys.read(name, lambda text: parse_log_in(text, mechanism))
    assert log_in is not None, "the key is set"
    return log_in


def _refuse_unused(keys: KeyValues, names: tuple[str, ...], expected: str) -> None:
    for name in names:
        if name in keys.properties:
            protocol = keys.values[_PROTOCOL]
            reason = f"{_PROTOCOL} is {protocol}, which does not use this key: set {expected}"
            keys.refuse(name, f"{reason}, or remove this key")
