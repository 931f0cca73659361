"""The connection settings of ``authorizerd acls``: its flags and its ``--command-config`` file.

The command reads Kafka's client properties for the servers, authentication and TLS, and ignores all
others; a key that is probably a typo gets a warning. As in Kafka, PLAIN also accepts the login
module of SCRAM. ``ssl.protocol`` is ignored: the newest common version is used.

**Invariant:** errors never contain a password or a key. Every function here raises
``KafkaAclsError`` for a missing, invalid or unsupported property, and for a file that cannot be
read.

Source: Kafka 4.3 AdminClientConfig, AdminBootstrapAddresses, ClientUtils, CommonClientConfigs,
SaslConfigs, SslConfigs, JaasContext, JaasConfig.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from authorizerd.cli.acls import errors
from authorizerd.cli.acls.arguments import Arguments
from authorizerd.cli.question_words import warn_of
from authorizerd.config.errors import ConfigurationError, InvalidValueError
from authorizerd.config.hints import find_misread_utf8
from authorizerd.config.kerberos import KERBEROS_LOGIN_MODULE
from authorizerd.config.key import Key
from authorizerd.config.keys import find_typo
from authorizerd.config.log_in import new_log_in
from authorizerd.config.oauth import InvalidLoginError
from authorizerd.config.oauth_keys import LOGIN_KEYS
from authorizerd.config.properties import parse_properties
from authorizerd.config.providers import resolve_placeholders
from authorizerd.config.tls import InvalidTlsError, TlsSettings, new_tls_settings
from authorizerd.config.tls_keys import CLIENT_SSL_KEYS, REJECTED_SSL_KEYS
from authorizerd.config.values import (
    CLIENT_MECHANISMS,
    SASL_PROTOCOLS,
    TLS_PROTOCOLS,
    SecurityProtocol,
)
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import ClientSettings
from authorizerd.kafka_client.log_in import AnyCredentials, new_credentials
from authorizerd.tls.errors import StoreError

_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_KAFKAS_DEFAULT: Final = "GSSAPI"
_TLS_KEYS: Final = (*CLIENT_SSL_KEYS, *REJECTED_SSL_KEYS)
_SERVERS: Final = "bootstrap.servers"
_CONTROLLERS: Final = "bootstrap.controllers"
_REQUEST_TIMEOUT: Final = "request.timeout.ms"
_JAAS: Final = "sasl.jaas.config"  # its errors quote no part of the file
_API_TIMEOUT: Final = "default.api.timeout.ms"
_KEYS: Final = (
    *(_PROTOCOL, _MECHANISM, _JAAS, *(key.name for key in (*LOGIN_KEYS, *_TLS_KEYS))),
    *(_SERVERS, _CONTROLLERS, _REQUEST_TIMEOUT, _API_TIMEOUT, "client.id"),
)

_PORT_MAX: Final = 65535
_INT_MAX: Final = 2**31 - 1
_INT: Final = re.compile(r"[+-]?[0-9]{1,10}")
_SEPARATOR: Final = re.compile(r"\s*,\s*")
_ADDRESS: Final = re.compile(
    r"(?:[a-zA-Z][a-zA-Z\d+-.]*://)?\[?(?P<host>[0-9a-zA-Z\-._%:]*)\]?:(?P<port>[0-9]+)"
)


def read_settings(given: Arguments) -> ClientSettings:
    provided: set[str] = set()
    properties = _read_properties(given.value("command-config"), provided)
    try:
        return _new_settings(given, properties)
    except errors.KafkaAclsError as error:
        hidden = sorted(key for key in provided if key in str(error) and key != _JAAS)
        if not hidden:
            raise
        reason = f"invalid value from a provider (not shown) for {', '.join(hidden)}"
        raise errors.KafkaAclsError((errors.CONFIG_EXCEPTION, reason)) from None


def _new_settings(given: Arguments, properties: dict[str, str]) -> ClientSettings:
    to_controllers = not given.has("bootstrap-server")
    key = _CONTROLLERS if to_controllers else _SERVERS
    properties[key] = given.value(key.replace(".", "-").removesuffix("s")) or ""
    protocol = read_security_protocol(properties)
    credentials = read_credentials(properties, protocol)
    tls = read_tls(properties, protocol)
    defaults = ClientSettings(bootstrap=())
    request_timeout_ms = _milliseconds(properties, _REQUEST_TIMEOUT, defaults.request_timeout_ms)
    api_timeout_ms = _milliseconds(properties, _API_TIMEOUT, defaults.api_timeout_ms)
    bootstrap = _bootstrap(properties)  # checked in the order of the Java client
    if api_timeout_ms < request_timeout_ms and _API_TIMEOUT in properties:
        raise errors.configuration_error(
            f"The specified value of {_API_TIMEOUT} must be no smaller than the value of "
            f"{_REQUEST_TIMEOUT}."
        )
    return ClientSettings(
        bootstrap=bootstrap,
        to_controllers=to_controllers,
        credentials=credentials,
        tls=tls,
        client_id=properties.get("client.id", defaults.client_id),
        request_timeout_ms=request_timeout_ms,
        api_timeout_ms=max(api_timeout_ms, request_timeout_ms),
    )


def _read_properties(path: str | None, provided: set[str]) -> dict[str, str]:
    """Return the file's properties, and add to ``provided`` the keys with values from providers."""
    if path is None:
        return {}
    try:
        text = Path(path).read_text(encoding="iso-8859-1")
        properties = resolve_placeholders(parse_properties(text, source=path))
    except FileNotFoundError:
        advice = f"--command-config: {path}: no such file\n"
        raise errors.KafkaAclsError(
            ("java.nio.file.NoSuchFileException", path), advice=advice
        ) from None
    except PermissionError:
        advice = f"--command-config: {path}: this user may not read it\n"
        raise errors.KafkaAclsError(
            ("java.nio.file.AccessDeniedException", path), advice=advice
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        advice = f"--command-config: {path}: {reason}\n"
        raise errors.KafkaAclsError(("java.io.IOException", reason), advice=advice) from None
    except (ConfigurationError, ValueError) as error:
        raise errors.KafkaAclsError((errors.ILLEGAL_ARGUMENT, str(error))) from None
    typos = {key: find_typo(key, _KEYS) for key in properties}
    warn_of(
        f"--command-config: {path}: {key} is ignored; did you mean {meant}?"
        for key, meant in typos.items()
        if meant is not None
    )
    texts = {key: each.value for key, each in properties.items()}
    warn_of(f"--command-config: {path}: {hint}" for hint in find_misread_utf8(texts))
    provided.update(key for key, each in properties.items() if each.is_provided)
    return texts


def _milliseconds(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key)
    if text is None:
        return default
    if not _INT.fullmatch(text.strip()) or abs(int(text)) > _INT_MAX:
        raise errors.invalid_value(key, text, "Not a number of type INT")
    if int(text) < 0:
        raise errors.invalid_value(key, text.strip(), "Value must be at least 0")
    return int(text)


def _bootstrap(properties: Mapping[str, str]) -> list[Address]:
    """Return the addresses of the servers or controllers; exactly one of the two must be set."""
    servers, controllers = (_list(properties, key) for key in (_SERVERS, _CONTROLLERS))
    if not (servers or controllers):
        raise errors.configuration_error(f"You must set either {_SERVERS} or {_CONTROLLERS}")
    if servers and controllers:
        raise errors.configuration_error(f"You cannot set both {_SERVERS} and {_CONTROLLERS}")
    return [_address(text) for text in dict.fromkeys(servers or controllers)]


def _list(properties: Mapping[str, str], key: str) -> list[str]:
    text = properties.get(key, "").strip()
    items = _SEPARATOR.split(text) if text else []
    if "" in items:
        reason = f"Configuration '{key}' values must not be empty."
        raise errors.KafkaAclsError((errors.CONFIG_EXCEPTION, reason))
    return items


def _address(text: str) -> Address:
    match = _ADDRESS.fullmatch(text)
    if match is None or not match["host"]:
        advice = "expected HOST:PORT, for example localhost:9092; separate several with commas.\n"
        raise errors.configuration_error(f"Invalid url in {_SERVERS}: {text}", advice)
    port = match["port"].lstrip("0") or "0"
    # Check the length first: Python refuses to convert thousands of digits.
    if len(port) > len(str(_PORT_MAX)) or int(port) > _PORT_MAX:
        raise errors.configuration_error(f"Invalid port in {_SERVERS}: {text}")
    return Address(match["host"], int(port))


def read_security_protocol(properties: Mapping[str, str]) -> SecurityProtocol:
    text = properties.get(_PROTOCOL, SecurityProtocol.PLAINTEXT)
    try:
        return SecurityProtocol(text.strip().upper())
    except ValueError:
        # The order of these names is Kafka's.
        expected = "SASL_SSL, PLAINTEXT, SSL, SASL_PLAINTEXT"
        reason = f"String must be one of (case insensitive): {expected}"
        raise errors.invalid_value(_PROTOCOL, text, reason) from None


def read_credentials(
    properties: Mapping[str, str], protocol: SecurityProtocol
) -> AnyCredentials | None:
    if protocol not in SASL_PROTOCOLS:
        return None
    mechanism = _read_mechanism(properties)
    values = _parse_keys(properties, LOGIN_KEYS)
    try:
        return new_credentials(new_log_in(properties.get(_JAAS), mechanism, values.get))
    except InvalidLoginError as error:
        raise errors.configuration_error(f"{error.key}: {error}") from None
    except InvalidValueError as error:
        raise errors.configuration_error(f"{_JAAS}: {error}") from None


def read_tls(properties: Mapping[str, str], protocol: SecurityProtocol) -> TlsSettings | None:
    if protocol not in TLS_PROTOCOLS:
        return None
    values = _parse_keys(properties, _TLS_KEYS)
    try:
        return new_tls_settings(values, {key.name: key.name for key in _TLS_KEYS})
    except InvalidTlsError as error:
        raise errors.tls_configuration_error(f"{error.key}: {error}") from None


def _parse_keys(properties: Mapping[str, str], keys: Iterable[Key]) -> dict[str, Any]:
    """Return the value of each key that is set or has a default."""
    values: dict[str, Any] = {}
    for key in keys:
        text = properties.get(key.name, key.default)
        if text is not None:
            try:
                values[key.name] = key.parse(text)
            except InvalidValueError as error:
                raise errors.invalid_value(key.name, text, str(error)) from None
    return values


def open_context(settings: TlsSettings) -> ssl.SSLContext:
    """Read the keystore and truststore, and return the context for TLS. Reading blocks."""
    from authorizerd.tls.context import new_client_context  # most connections have no TLS
    from authorizerd.tls.material import read_material

    try:
        return new_client_context(settings, read_material(settings))
    except StoreError as error:
        raise errors.tls_configuration_error(str(error)) from None


def _read_mechanism(properties: Mapping[str, str]) -> str:
    text = properties.get(_MECHANISM, _KAFKAS_DEFAULT)
    if text in CLIENT_MECHANISMS and (
        _MECHANISM in properties or KERBEROS_LOGIN_MODULE in properties.get(_JAAS, "")
    ):
        return text
    mechanisms = ", ".join(CLIENT_MECHANISMS)
    reason = f"authorizerd acls supports only {mechanisms}"
    if _MECHANISM not in properties:
        reason = f"{_JAAS} has no keytab for Kafka's default: set one of {mechanisms}"
    raise errors.invalid_value(_MECHANISM, text, reason)
