"""TLS settings of listeners and of our own ports, and the rule for ports that others can reach.

**Invariant:** a decision port or the admin port has a loopback address, or its callers need
credentials.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from authorizerd.config.endpoints import (
    HttpEndpoint,
    Listener,
    StreamEndpoint,
    is_loopback,
    loopback_error,
)
from authorizerd.config.key import Key
from authorizerd.config.key_values import KeyValues
from authorizerd.config.keys import listener_prefix
from authorizerd.config.tls import (
    ClientAuth,
    InvalidTlsError,
    TlsSettings,
    check_server,
    new_tls_settings,
)
from authorizerd.config.tls_keys import HTTP_SSL_PREFIX, ssl_keys
from authorizerd.config.values import TLS_PROTOCOLS, SecurityProtocol

_SSL_KEYS = ssl_keys()


def read_listener_tls(
    keys: KeyValues, protocols: Mapping[str, SecurityProtocol]
) -> Mapping[str, TlsSettings]:
    """Return the TLS settings of each SSL and SASL_SSL listener, by its name.

    A listener's own keys replace the general ones. As in Kafka, the general ``ssl.client.auth``
    does not apply to SASL_SSL listeners (KIP-684).
    """
    listeners: tuple[Listener, ...] = keys.values["listeners"]
    names = [listener.name for listener in listeners if protocols[listener.name] in TLS_PROTOCOLS]
    return keys.attempt_each(names, lambda keys, name: _read_listener(keys, name, protocols[name]))


def _read_listener(keys: KeyValues, listener_name: str, protocol: SecurityProtocol) -> TlsSettings:
    values, names = read_ssl_values(keys, listener_prefix(listener_name), _SSL_KEYS)
    if protocol is SecurityProtocol.SASL_SSL and names["ssl.client.auth"] == "ssl.client.auth":
        values["ssl.client.auth"] = ClientAuth.NONE
    return combine_ssl_values(keys, values, names, is_server=True)


def read_ssl_values(
    keys: KeyValues, prefix: str, ssl_keys: Iterable[Key]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the value of each key, by Kafka's name, and the name under which it was set.

    A key with the prefix replaces the general one.
    """
    values, names = {}, {}
    for key in ssl_keys:
        own = keys.read(prefix + key.name, key.parse)
        values[key.name] = keys.values[key.name] if own is None else own
        # If neither key is set, errors name the general one.
        names[key.name] = key.name if own is None else prefix + key.name
    return values, names


def read_http_tls(keys: KeyValues) -> TlsSettings | None:
    """Return the TLS settings of our own ports, or None if none of them has TLS."""
    endpoints = (
        keys.values["authorizerd.decision.http"],
        keys.values["authorizerd.decision.stream"],
        keys.values["authorizerd.admin.http"],
        keys.values["authorizerd.metrics.http"],
    )
    if not any(endpoint is not None and endpoint.is_tls for endpoint in endpoints):
        return None
    names = {key.name: HTTP_SSL_PREFIX + key.name for key in _SSL_KEYS}
    values = {key: keys.values[name] for key, name in names.items()}
    return combine_ssl_values(keys, values, names, is_server=True)


def combine_ssl_values(
    keys: KeyValues,
    values: Mapping[str, object],
    names: Mapping[str, str],
    *,
    is_server: bool = False,
) -> TlsSettings:
    """Return the settings of a client, or of a server, and check that it can use them."""
    try:
        settings = new_tls_settings(values, names)
        if is_server:
            check_server(settings, names)
    except InvalidTlsError as error:
        raise keys.refusal(error.key, str(error)) from None
    return settings


def check_decision_ports(keys: KeyValues) -> None:
    """Check that each port has a loopback address, a tokens file, or client certificates."""
    for key in ("authorizerd.decision.http", "authorizerd.decision.stream"):
        endpoint: HttpEndpoint | StreamEndpoint | None = keys.values[key]
        if endpoint is not None:
            _check_reachable(keys, key, endpoint)


def _check_reachable(keys: KeyValues, key: str, endpoint: HttpEndpoint | StreamEndpoint) -> None:
    has_tokens = keys.values["authorizerd.tokens.file"] is not None
    if has_tokens or is_loopback(endpoint) or (endpoint.is_tls and _has_client_auth(keys)):
        return
    reason = (
        f"{loopback_error(endpoint)}: set authorizerd.tokens.file, use TLS with"
        f" {HTTP_SSL_PREFIX}ssl.client.auth, or use a loopback address"
    )
    keys.refuse(key, reason)


def _has_client_auth(keys: KeyValues) -> bool:
    return keys.values[f"{HTTP_SSL_PREFIX}ssl.client.auth"] is not ClientAuth.NONE


def check_admin_http(keys: KeyValues) -> None:
    """Check that the admin port has a loopback address, or TLS with credentials.

    Unless its port is 0, it must differ from the address of the decision port.
    """
    key = "authorizerd.admin.http"
    admin: HttpEndpoint = keys.values[key]
    _check_unused(keys, key, admin, "authorizerd.decision.http")
    if not is_loopback(admin):
        if not admin.is_tls:
            reason = f"{loopback_error(admin)}: use https://, a loopback address, or"
            raise keys.refusal(key, f"{reason} authorizerd.metrics.http for metrics and health")
        _check_reachable(keys, key, admin)


def check_metrics_http(keys: KeyValues) -> None:
    """Check that the metrics port, unless 0, differs from the decision and the admin port."""
    key = "authorizerd.metrics.http"
    metrics: HttpEndpoint | None = keys.values[key]
    if metrics is not None:
        _check_unused(keys, key, metrics, "authorizerd.decision.http", "authorizerd.admin.http")


def _check_unused(keys: KeyValues, key: str, endpoint: HttpEndpoint, *others: str) -> None:
    for other_key in others:
        used: HttpEndpoint = keys.values[other_key]
        # Port 0 selects another free port for each endpoint.
        if endpoint.port != 0 and (endpoint.host, endpoint.port) == (used.host, used.port):
            raise keys.refusal(key, f"already used by {other_key}: choose another port")
