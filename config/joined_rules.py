"""Values that depend on several keys.

**Invariant:** each key was already validated by itself. If keys contradict each other, the error
names one key and the place where it was set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from authorizerd.acl.audit.mask import Masking
from authorizerd.config.endpoints import (
    NONROUTABLE_HOST,
    Endpoint,
    Listener,
    parse_listeners,
)
from authorizerd.config.follow.rules import find_unused_keys
from authorizerd.config.follow.settings import JAAS, SOURCE_SSL_KEYS, SourceKind
from authorizerd.config.key_values import KeyValues
from authorizerd.config.keys import CREATION_RATE, KEYS_BY_NAME, listener_prefix
from authorizerd.config.oauth_keys import LOGIN_KEYS, TOKEN_KEYS
from authorizerd.config.providers import is_provider_key
from authorizerd.config.sasl import MECHANISMS, SESSION_MS
from authorizerd.config.tls_keys import ssl_keys
from authorizerd.config.values import (
    CLIENT_MECHANISMS,
    GSSAPI,
    OAUTHBEARER,
    SASL_MECHANISMS,
    STANDARD_AUTHORIZER,
    SecurityProtocol,
)

_JAAS_OF_MECHANISMS: Final = {f"{mechanism.lower()}.{JAAS}" for mechanism in SASL_MECHANISMS}
_OF_LISTENERS: Final = {
    "max.connections",
    CREATION_RATE,
    MECHANISMS,
    SESSION_MS,
    *_JAAS_OF_MECHANISMS,
    *(f"{mechanism.lower()}.{SESSION_MS}" for mechanism in SASL_MECHANISMS),
    *(before + key.name for key in TOKEN_KEYS for before in ("", f"{OAUTHBEARER.lower()}.")),
    *(key.name for key in ssl_keys()),
}
"""The keys that may be set for one listener."""
_OF_CONTROLLERS: Final = {
    JAAS,
    *(f"{mechanism.lower()}.{JAAS}" for mechanism in CLIENT_MECHANISMS),
    *(key.name for key in (*LOGIN_KEYS, *SOURCE_SSL_KEYS)),
    *(
        f"{mechanism.lower()}.{key.name}"
        for mechanism in (OAUTHBEARER, GSSAPI)
        for key in LOGIN_KEYS
    ),
}
"""The keys for the listener of the controllers that the daemon follows."""


def read_metadata_log_dir(keys: KeyValues) -> str:
    """Return the directory of the metadata log, the first one if there are several."""
    values = keys.values
    if values["metadata.log.dir"] is not None:
        return str(values["metadata.log.dir"])
    log_dirs: tuple[str, ...] | None = values["log.dirs"] or values["log.dir"]
    if log_dirs is None:
        raise keys.refusal(
            "log.dirs", "required unless metadata.log.dir is set: add a line log.dirs=DIRECTORY"
        )
    return log_dirs[0]


def read_controller_listener_names(keys: KeyValues, source: SourceKind) -> tuple[str, ...]:
    """Return the controller listeners. The daemon opens them only if it owns its log.

    Otherwise they belong to the controllers, as in a broker's file.
    """
    names = tuple(dict.fromkeys(keys.values["controller.listener.names"] or ()))
    if source is SourceKind.LOG:
        _check_named(keys, "controller.listener.names", names)
        return names
    for name in names:
        if name in [listener.name for listener in keys.values["listeners"]]:
            reason = (
                f"{name} is in listeners, but the controllers of the followed cluster open it:"
                " remove it from listeners, or set authorizerd.source=log to own a log"
            )
            raise keys.refusal("controller.listener.names", reason)
    return ()


def read_early_start_listeners(
    keys: KeyValues, controller_listener_names: tuple[str, ...]
) -> frozenset[str]:
    """Return the listeners that open before the ACLs are loaded. Default: the controller's."""
    names = keys.values["early.start.listeners"]
    if names is None:
        return frozenset(controller_listener_names)
    _check_named(keys, "early.start.listeners", names)
    return frozenset(names)


def read_security_protocols(keys: KeyValues) -> Mapping[str, SecurityProtocol]:
    """Return the security protocol of every listener, also of the controllers'.

    Source: Kafka 4.3 AbstractKafkaConfig.effectiveListenerSecurityProtocolMap.
    """
    protocols = dict(keys.values["listener.security.protocol.map"])
    names = [listener.name for listener in keys.values["listeners"]]
    controllers: tuple[str, ...] = keys.values["controller.listener.names"] or ()
    unencrypted = all(
        protocols.get(name, SecurityProtocol.PLAINTEXT) == "PLAINTEXT"
        for name in (*names, *controllers)
    )
    if "listener.security.protocol.map" not in keys.properties and unencrypted:
        protocols |= dict.fromkeys(controllers, SecurityProtocol.PLAINTEXT)
    for name in names:
        if name not in protocols:
            reason = f"listener.security.protocol.map has no security protocol for {name}"
            if "listeners" not in keys.properties:
                reason += ", a listener of the default"
            raise keys.refusal("listeners", f"{reason}: add {name}:PROTOCOL to the map")
    return protocols


def read_listeners(
    keys: KeyValues, protocols: Mapping[str, SecurityProtocol]
) -> tuple[Endpoint, ...]:
    """Return the listening addresses, each with its security protocol."""
    return _secure(keys.values["listeners"], protocols)


def read_advertised_listeners(
    keys: KeyValues,
    controller_listener_names: tuple[str, ...],
    protocols: Mapping[str, SecurityProtocol],
) -> tuple[Endpoint, ...]:
    """Return the addresses for clients. 0.0.0.0 is rejected: no client can connect to it."""
    listeners: tuple[Listener, ...] = keys.values["listeners"]
    advertised: tuple[Listener, ...] | None = keys.values["advertised.listeners"]
    if advertised is None:
        for listener in listeners:
            if listener.host == NONROUTABLE_HOST and listener.name not in controller_listener_names:
                reason = (
                    f"{listener.name} cannot be advertised as 0.0.0.0: set advertised.listeners"
                )
                raise keys.refusal("listeners", reason)
        return _secure(listeners, protocols)
    names = [listener.name for listener in advertised]
    _check_named(keys, "advertised.listeners", names)
    for listener in advertised:
        if listener.host == NONROUTABLE_HOST:
            reason = f"{listener.name} cannot be advertised as 0.0.0.0: give an address"
            raise keys.refusal("advertised.listeners", reason)
    return _secure(advertised, protocols)


def _secure(
    listeners: Sequence[Listener], protocols: Mapping[str, SecurityProtocol]
) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(
            listener_name=listener.name,
            security_protocol=protocols[listener.name],
            host=listener.host,
            port=listener.port,
        )
        for listener in listeners
    )


def _check_named(keys: KeyValues, key: str, names: Sequence[str]) -> None:
    """Reject any name that is not a listener's name. The comparison is case-sensitive."""
    known = [listener.name for listener in keys.values["listeners"]]
    unknown = [name for name in names if name not in known]
    if unknown:
        reason = f"unknown listener {', '.join(unknown)}: expected one of {', '.join(known)}"
        raise keys.refusal(key, reason)


def check_failed_login_delay(keys: KeyValues) -> None:
    """Check that an idle connection outlasts the delay of the answer to failed authentication.

    Source: Kafka 4.3 KafkaConfig.validateValues.
    """
    delay_ms: int = keys.values["connection.failed.authentication.delay.ms"]
    idle_ms: int = keys.values["connections.max.idle.ms"]
    if delay_ms >= idle_ms:
        reason = f"expected less than connections.max.idle.ms ({idle_ms}), found {delay_ms}"
        raise keys.refusal("connection.failed.authentication.delay.ms", reason)


def read_own_limits(keys: KeyValues, key: str) -> Mapping[str, int]:
    """Return the limits of the listeners that have their own, by listener name."""
    names = [listener.name for listener in keys.values["listeners"]]
    limits = keys.attempt_each(names, lambda keys, name: keys.read_own(name, key))
    return {name: limit for name, limit in limits.items() if limit is not None}


def parse_listener_creation_rates(texts: Mapping[str, str]) -> Mapping[str, int]:
    """Return each listener's own connection rate. ``texts`` are valid and include ``listeners``."""
    names = [listener.name for listener in parse_listeners(texts["listeners"])]
    own = {name: listener_prefix(name) + CREATION_RATE for name in names}
    parse = KEYS_BY_NAME[CREATION_RATE].parse
    return {name: parse(texts[key]) for name, key in own.items() if key in texts}


def check_workers(keys: KeyValues) -> None:
    """Check that several workers are used only with the built-in authorizer.

    A third-party authorizer may keep state, which the workers would not share.
    """
    if (
        keys.values["authorizerd.workers"] > 1
        and keys.values["authorizer.class.name"] != STANDARD_AUTHORIZER
    ):
        reason = "several processes require the built-in authorizer: remove authorizer.class.name"
        raise keys.refusal("authorizerd.workers", reason)


def check_audit_masks(keys: KeyValues) -> None:
    """Check that there is a secret for hashing."""
    secret_file = keys.values["authorizerd.audit.mask.secret.file"]
    for what in ("principal", "host", "resource"):
        key = f"authorizerd.audit.mask.{what}"
        if secret_file is None and keys.values[key] is Masking.HASH:
            keys.refuse(key, "hash requires authorizerd.audit.mask.secret.file")


def read_ignored_keys(keys: KeyValues, source: SourceKind) -> tuple[str, ...]:
    """Return the keys that nothing reads.

    With a third-party authorizer there are none, since it may read any key.
    """
    if keys.values["authorizer.class.name"] not in (STANDARD_AUTHORIZER, ""):
        return ()
    own = [(listener.name, _OF_LISTENERS) for listener in keys.values["listeners"]]
    if source is SourceKind.QUORUM:
        own.append((keys.values["controller.listener.names"][0], _OF_CONTROLLERS))
    known = {listener_prefix(name) + key for name, parts in own for key in parts}
    unread = keys.properties.keys() - known - KEYS_BY_NAME.keys()
    unread = {name for name in unread if not is_provider_key(name)}
    return tuple(sorted(unread | find_unused_keys(keys, source)))
