"""The daemon's credentials for the cluster that it follows, and its TLS settings as a client.

**Invariant:** no error contains a password or a key.

Source: Kafka 4.3 KafkaRaftManager, ChannelBuilders.clientChannelBuilder,
JaasContext.loadServerContext (for controllers) and loadClientContext (for brokers).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.follow.settings import (
    CONTROLLER_MECHANISM,
    CONTROLLER_NAMES,
    JAAS,
    SOURCE_PREFIX,
    SOURCE_SSL_KEYS,
    AnyLogIn,
)
from authorizerd.config.kerberos import KERBEROS_LOGIN_MODULE
from authorizerd.config.key_values import KeyValues, refuse_property
from authorizerd.config.keys import listener_prefix
from authorizerd.config.log_in import new_log_in
from authorizerd.config.oauth import InvalidLoginError, ReadKey
from authorizerd.config.oauth_keys import LOGIN_KEYS
from authorizerd.config.tls import TlsSettings
from authorizerd.config.tls_rules import combine_ssl_values, read_ssl_values
from authorizerd.config.values import (
    CLIENT_MECHANISMS,
    GSSAPI,
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

Access = tuple[AnyLogIn | None, TlsSettings | None]


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
        mechanism = _read_mechanism(
            keys, CONTROLLER_MECHANISM, controller_jaas_keys(listener_name, GSSAPI)
        )
        log_in = _read_log_in(
            keys,
            controller_jaas_keys(listener_name, mechanism),
            mechanism,
            lambda key: keys.read_nearest(listener_name, mechanism, key),
            lambda key: keys.name_nearest(listener_name, mechanism, key),
        )
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
        mechanism = _read_mechanism(keys, _MECHANISM, (_JAAS,))
        log_in = _read_log_in(
            keys,
            (_JAAS,),
            mechanism,
            lambda key: keys.values[SOURCE_PREFIX + key],
            lambda key: SOURCE_PREFIX + key,
        )
    else:
        names = (_MECHANISM, _JAAS, *(SOURCE_PREFIX + key.name for key in LOGIN_KEYS))
        _refuse_unused(keys, names, "SASL_SSL or SASL_PLAINTEXT")
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


def _read_mechanism(keys: KeyValues, key: str, kerberos: tuple[str, ...]) -> str:
    """Return the mechanism; ``kerberos`` are the keys that may have a JAAS line for Kerberos."""
    mechanism: str = keys.values[key]
    lines = [keys.properties[name].value for name in kerberos if name in keys.properties]
    if key not in keys.properties and KERBEROS_LOGIN_MODULE not in "".join(lines[:1]):
        reason = f"required, because Kafka's default is {mechanism} and no keytab is configured"
        raise keys.refusal(key, f"{reason}: set one of {', '.join(CLIENT_MECHANISMS)}")
    if mechanism in CLIENT_MECHANISMS:
        return mechanism
    reason = f"{mechanism} is not supported: set one of {', '.join(CLIENT_MECHANISMS)}"
    raise keys.refusal(key, reason)


def _read_log_in(
    keys: KeyValues,
    names: tuple[str, ...],
    mechanism: str,
    read: ReadKey,
    name_of: Callable[[str], str],
) -> AnyLogIn:
    """Return how the daemon logs in.

    Args:
        names: the keys that may have the JAAS line; the first key that is set counts.
        read: returns the value of another key by Kafka's name; ``name_of`` returns its own name.
    """
    name = next((key for key in names if key in keys.properties), None)
    jaas = None if name is None else keys.properties[name]
    try:
        return new_log_in(None if jaas is None else trim(jaas.value), mechanism, read)
    except InvalidLoginError as error:
        key = name_of(error.key) if error.key != JAAS else name or names[0]
        raise keys.refusal(key, str(error)) from None
    except InvalidValueError as error:
        assert jaas is not None, "only the JAAS line can be malformed"
        raise refuse_property(jaas, str(error)) from None


def _refuse_unused(keys: KeyValues, names: tuple[str, ...], expected: str) -> None:
    for name in names:
        if name in keys.properties:
            protocol = keys.values[_PROTOCOL]
            reason = f"{_PROTOCOL} is {protocol}, which does not use this key: set {expected}"
            keys.refuse(name, f"{reason}, or remove this key")
