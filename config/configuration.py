"""server.properties as one frozen, validated configuration, static and reloadable parts apart.

Law: text in, value out. What is returned holds together, joined rules included; the first key
that does not is a ConfigurationError, and nothing of a text with one bad key takes effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, TypeVar

from acl.audit import AuditLevel
from acl.audit_filter import AuditFilter, AuditRules
from acl.audit_mask import Masking
from acl.model import ResourceType
from config.endpoints import (
    NONROUTABLE_HOST,
    Endpoint,
    HttpEndpoint,
    Listener,
    StreamEndpoint,
    is_loopback,
    not_loopback,
)
from config.errors import ConfigurationError, InvalidValueError
from config.jaas import PlainUsers, plain_users
from config.keys import KEYS, KEYS_BY_NAME, OWN_PREFIX, Key
from config.properties import Property, parse_override, parse_properties
from config.values import (
    STANDARD_AUTHORIZER,
    AuditFormat,
    LogFormat,
    LogLevel,
    SecurityProtocol,
    sasl_mechanisms,
    trim,
)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloadable:
    """What a running daemon takes over without a restart, beside what its authorizer does."""

    audit_level: AuditLevel
    audit_rules: AuditRules
    log_level: LogLevel
    max_connections: int
    connections_max_idle_ms: int
    http_header_timeout_ms: int
    http_drain_timeout_ms: int
    update_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """All settings. A field is named as its key, ours without ``authorizerd.``.

    ``advertised_listeners`` are ``listeners`` where the key is absent. ``authzen_resource_types``
    has lower-case names: a request's type matches in any case. ``sasl_users`` has each SASL
    listener's users, by its name. ``authorizer_class_name`` is empty where there is to be none.
    ``file_values`` are the keys that are set, as text: what else an authorizer is configured with.
    ``ignored_keys`` are those that mean nothing here, sorted, worth one warning.
    """

    node_id: int
    metadata_log_dir: str
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    controller_listener_names: tuple[str, ...]
    early_start_listeners: frozenset[str]
    sasl_users: Mapping[str, PlainUsers]
    socket_request_max_bytes: int
    queued_max_request_bytes: int
    queued_max_requests: int
    metadata_log_segment_bytes: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    decision_http: HttpEndpoint
    decision_stream: StreamEndpoint | None
    admin_http: HttpEndpoint
    tokens_file: str | None
    stream_frame_max_bytes: int
    overload_turn_ms: int
    workers: int
    worker_timeout_ms: int
    http_request_max_bytes: int
    log_format: LogFormat
    audit_log: str | None
    audit_format: AuditFormat
    audit_queue_max: int
    audit_mask_principal: Masking
    audit_mask_host: Masking
    audit_mask_resource: Masking
    audit_mask_secret_file: str | None
    authzen_subject_types: Mapping[str, str]
    authzen_resource_types: Mapping[str, ResourceType]
    authorizer_class_name: str
    file_values: Mapping[str, str] = field(repr=False, compare=False)  # passwords among them
    ignored_keys: tuple[str, ...]
    reloadable: Reloadable


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """The value of every key by itself, and where each was set: what joined rules look at."""

    source: str
    properties: Mapping[str, Property]
    values: Mapping[str, Any]

    def refusal(self, key: str, reason: str) -> ConfigurationError:
        place = self.properties.get(key)
        if place is None:
            return ConfigurationError(self.source, None, key, reason)
        return ConfigurationError(place.source, place.line, key, reason)


def parse(text: str, *, source: str, overrides: Sequence[str] = ()) -> Configuration:
    """Return the configuration of a server.properties text; overrides win over it, the last most.

    Args:    text: the file's bytes as ISO-8859-1, which is how Kafka reads them.
             source: the file's name in errors. overrides: each ``KEY=VALUE``.
    Raises:  ConfigurationError: the first key that is malformed, unknown, refused or missing.
    """
    properties = parse_properties(text, source=source)
    for override in overrides:
        overriding = parse_override(override)
        properties[overriding.key] = overriding
    return _configure_by(properties, source)


def of_values(values: Mapping[str, str], *, source: str) -> Configuration:
    """Return the configuration whose ``file_values`` are ``values``; raises as ``parse``."""
    properties = {
        key: Property(key=key, value=value, source=source, line=None)
        for key, value in values.items()
    }
    return _configure_by(properties, source)


def _configure_by(properties: Mapping[str, Property], source: str) -> Configuration:
    settings = _Settings(
        source=source, properties=properties, values=_read_values(properties, source)
    )
    return _configure(settings)


def _read_values(properties: Mapping[str, Property], source: str) -> dict[str, Any]:
    """Return each key's value: the text's, else the default's, else None."""
    for name in properties:
        if name.startswith(OWN_PREFIX) and name not in KEYS_BY_NAME:
            place = properties[name]
            raise ConfigurationError(place.source, place.line, name, unknown_key_reason(name))
    return {key.name: _read_value(key, properties.get(key.name), source) for key in KEYS}


def _read_value(key: Key, place: Property | None, source: str) -> Any:  # noqa: ANN401 - per key
    if place is None:
        if key.required:
            raise ConfigurationError(source, None, key.name, "is required and has no default")
        return None if key.default is None else key.parse(key.default)
    try:
        return key.parse(trim(place.value))
    except InvalidValueError as error:
        raise ConfigurationError(place.source, place.line, key.name, str(error)) from None


def unknown_key_reason(name: str) -> str:
    """Return what is said of a key that begins as ours do, and is none."""
    # The shared prefix is left out, or every key would look alike.
    suffixes = [
        key.name.removeprefix(OWN_PREFIX) for key in KEYS if key.name.startswith(OWN_PREFIX)
    ]
    close = get_close_matches(name.removeprefix(OWN_PREFIX), suffixes, n=1)
    return f"unknown key; did you mean {OWN_PREFIX}{close[0]}?" if close else "unknown key"


def _configure(settings: _Settings) -> Configuration:
    values = settings.values
    controller_listener_names = _read_controller_listener_names(settings)
    protocols = _read_security_protocols(settings, controller_listener_names)
    return Configuration(
        node_id=values["node.id"],
        metadata_log_dir=_read_metadata_log_dir(settings),
        listeners=_secure(values["listeners"], protocols),
        advertised_listeners=_secure(
            _read_advertised_listeners(settings, controller_listener_names), protocols
        ),
        controller_listener_names=controller_listener_names,
        early_start_listeners=_read_early_start_listeners(settings, controller_listener_names),
        sasl_users=_read_sasl_users(settings, protocols),
        socket_request_max_bytes=values["socket.request.max.bytes"],
        queued_max_request_bytes=values["queued.max.request.bytes"],
        queued_max_requests=values["queued.max.requests"],
        metadata_log_segment_bytes=values["metadata.log.segment.bytes"],
        metadata_log_max_record_bytes_between_snapshots=values[
            "metadata.log.max.record.bytes.between.snapshots"
        ],
        metadata_log_max_snapshot_interval_ms=values["metadata.log.max.snapshot.interval.ms"],
        metadata_max_retention_bytes=values["metadata.max.retention.bytes"],
        metadata_max_retention_ms=values["metadata.max.retention.ms"],
        decision_http=values["authorizerd.decision.http"],
        decision_stream=values["authorizerd.decision.stream"],
        admin_http=_read_admin_http(settings),
        tokens_file=_read_tokens_file(settings),
        stream_frame_max_bytes=values["authorizerd.stream.frame.max.bytes"],
        overload_turn_ms=values["authorizerd.overload.turn.ms"],
        workers=_read_workers(settings),
        worker_timeout_ms=values["authorizerd.worker.timeout.ms"],
        http_request_max_bytes=values["authorizerd.http.request.max.bytes"],
        log_format=values["authorizerd.log.format"],
        audit_log=values["authorizerd.audit.log"],
        audit_format=values["authorizerd.audit.format"],
        audit_queue_max=values["authorizerd.audit.queue.max"],
        audit_mask_principal=values["authorizerd.audit.mask.principal"],
        audit_mask_host=values["authorizerd.audit.mask.host"],
        audit_mask_resource=values["authorizerd.audit.mask.resource"],
        audit_mask_secret_file=_read_audit_mask_secret_file(settings),
        authzen_subject_types=values["authorizerd.authzen.subject.types"],
        authzen_resource_types=values["authorizerd.authzen.resource.types"],
        authorizer_class_name=values["authorizer.class.name"],
        file_values=_read_file_values(settings),
        ignored_keys=_read_ignored_keys(settings),
        reloadable=_reloadable(values),
    )


def reloadable_of(texts: Mapping[str, str]) -> Reloadable:
    """Return the reloadable settings that ``texts`` by key, sound and all there, say."""
    return _reloadable({key.name: key.parse(texts[key.name]) for key in KEYS if key.reloadable})


def _reloadable(values: Mapping[str, Any]) -> Reloadable:
    return Reloadable(
        audit_level=values["authorizerd.audit.level"],
        audit_rules=_audit_rules(values),
        log_level=values["authorizerd.log.level"],
        max_connections=values["max.connections"],
        connections_max_idle_ms=values["connections.max.idle.ms"],
        http_header_timeout_ms=values["authorizerd.http.header.timeout.ms"],
        http_drain_timeout_ms=values["authorizerd.http.drain.timeout.ms"],
        update_timeout_ms=values["authorizerd.update.timeout.ms"],
    )


def _audit_rules(values: Mapping[str, Any]) -> AuditRules:
    return AuditRules(
        filter=AuditFilter(
            principals_included=values["authorizerd.audit.principals.include"],
            principals_excluded=values["authorizerd.audit.principals.exclude"],
            resources_included=values["authorizerd.audit.resources.include"],
            resources_excluded=values["authorizerd.audit.resources.exclude"],
            filters_denied=values["authorizerd.audit.filter.denied"],
        ),
        allowed_rate=values["authorizerd.audit.sample.allowed"],
        is_required=values["authorizerd.audit.required"],
    )


def _read_audit_mask_secret_file(settings: _Settings) -> str | None:
    """Return the secret's file, without which nothing can be hashed."""
    secret_file: str | None = settings.values["authorizerd.audit.mask.secret.file"]
    for what in ("principal", "host", "resource"):
        key = f"authorizerd.audit.mask.{what}"
        if secret_file is None and settings.values[key] is Masking.HASH:
            raise settings.refusal(key, "authorizerd.audit.mask.secret.file is needed")
    return secret_file


def _read_file_values(settings: _Settings) -> Mapping[str, str]:
    return MappingProxyType(
        {name: trim(place.value) for name, place in settings.properties.items()}
    )


def _read_ignored_keys(settings: _Settings) -> tuple[str, ...]:
    """Return the keys that nobody reads; an authorizer that is not built in may read any."""
    if settings.values["authorizer.class.name"] not in (STANDARD_AUTHORIZER, ""):
        return ()
    return tuple(sorted(settings.properties.keys() - KEYS_BY_NAME.keys() - _sasl_keys(settings)))


def _read_metadata_log_dir(settings: _Settings) -> str:
    values = settings.values
    if values["metadata.log.dir"] is not None:
        return str(values["metadata.log.dir"])
    log_dirs: tuple[str, ...] | None = values["log.dirs"] or values["log.dir"]
    if log_dirs is None:
        raise settings.refusal("log.dirs", "is required where metadata.log.dir is absent")
    return log_dirs[0]


def _read_controller_listener_names(settings: _Settings) -> tuple[str, ...]:
    """Return the controller's listeners, which a daemon that owns its log listens on itself."""
    names = tuple(dict.fromkeys(settings.values["controller.listener.names"] or ()))
    _check_named(settings, "controller.listener.names", names)
    return names


def _read_early_start_listeners(
    settings: _Settings, controller_listener_names: tuple[str, ...]
) -> frozenset[str]:
    names = settings.values["early.start.listeners"]
    if names is None:
        return frozenset(controller_listener_names)
    _check_named(settings, "early.start.listeners", names)
    return frozenset(names)


def _read_security_protocols(
    settings: _Settings, controller_listener_names: tuple[str, ...]
) -> Mapping[str, SecurityProtocol]:
    """Return the security protocol of every listener.

    Source:  Kafka 4.3 AbstractKafkaConfig.effectiveListenerSecurityProtocolMap.
    """
    protocols = dict(settings.values["listener.security.protocol.map"])
    names = [listener.name for listener in settings.values["listeners"]]
    unencrypted = all(
        protocols.get(name, SecurityProtocol.PLAINTEXT) == "PLAINTEXT" for name in names
    )
    if "listener.security.protocol.map" not in settings.properties and unencrypted:
        protocols |= dict.fromkeys(controller_listener_names, SecurityProtocol.PLAINTEXT)
    for name in names:
        if name not in protocols:
            reason = f"listener.security.protocol.map has no security protocol for {name}"
            raise settings.refusal("listeners", reason)
    return protocols


def _read_advertised_listeners(
    settings: _Settings, controller_listener_names: tuple[str, ...]
) -> tuple[Listener, ...]:
    """Return what clients are told: never 0.0.0.0, to which nobody can connect."""
    listeners: tuple[Listener, ...] = settings.values["listeners"]
    advertised: tuple[Listener, ...] | None = settings.values["advertised.listeners"]
    if advertised is None:
        for listener in listeners:
            if listener.host == NONROUTABLE_HOST and listener.name not in controller_listener_names:
                reason = (
                    f"{listener.name} cannot be advertised as 0.0.0.0: set advertised.listeners"
                )
                raise settings.refusal("listeners", reason)
        return listeners
    names = [listener.name for listener in advertised]
    _check_named(settings, "advertised.listeners", names)
    for listener in advertised:
        if listener.host == NONROUTABLE_HOST:
            reason = f"{listener.name} cannot be advertised as 0.0.0.0: give an address"
            raise settings.refusal("advertised.listeners", reason)
    return advertised


def _check_named(settings: _Settings, key: str, names: Sequence[str]) -> None:
    """Refuse a name that is not exactly, case included, the name of a listener."""
    known = [listener.name for listener in settings.values["listeners"]]
    for name in names:
        if name not in known:
            raise settings.refusal(key, f"{name} is not in listeners ({', '.join(known)})")


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


def _read_sasl_users(
    settings: _Settings, protocols: Mapping[str, SecurityProtocol]
) -> Mapping[str, PlainUsers]:
    """Return the users of every SASL listener, by its name; refuse what cannot be served yet."""
    users: dict[str, PlainUsers] = {}
    for listener in settings.values["listeners"]:
        protocol = protocols[listener.name]
        if protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL):
            reason = f"{listener.name} is {protocol}: only PLAINTEXT and SASL_PLAINTEXT are served"
            raise settings.refusal("listeners", reason)
        if protocol is SecurityProtocol.SASL_PLAINTEXT:
            users[listener.name] = _read_plain_users(settings, listener.name)
    return users


def _read_plain_users(settings: _Settings, listener_name: str) -> PlainUsers:
    mechanisms_key, users_key = _listener_keys(listener_name)
    _read_place(settings, mechanisms_key, sasl_mechanisms)
    users = _read_place(settings, users_key, plain_users)
    if users is None:
        raise settings.refusal(users_key, f"is required: {listener_name} is a SASL listener")
    return users


def _read_place(settings: _Settings, key: str, parse: Callable[[str], Value]) -> Value | None:
    """Return the value of a key that is not in the table, None where it is absent."""
    place = settings.properties.get(key)
    if place is None:
        return None
    try:
        return parse(trim(place.value))
    except InvalidValueError as error:
        raise settings.refusal(key, str(error)) from None


def _listener_keys(listener_name: str) -> tuple[str, str]:
    prefix = f"listener.name.{listener_name.lower()}."
    return f"{prefix}sasl.enabled.mechanisms", f"{prefix}plain.sasl.jaas.config"


def _sasl_keys(settings: _Settings) -> set[str]:
    """Return the keys that are read for single listeners."""
    listeners: tuple[Listener, ...] = settings.values["listeners"]
    return {key for listener in listeners for key in _listener_keys(listener.name)}


def _read_tokens_file(settings: _Settings) -> str | None:
    """Return the tokens file; without it nobody but this machine may reach a decision port."""
    tokens_file: str | None = settings.values["authorizerd.tokens.file"]
    for key in ("authorizerd.decision.http", "authorizerd.decision.stream"):
        endpoint: HttpEndpoint | StreamEndpoint | None = settings.values[key]
        if tokens_file is None and endpoint is not None and not is_loopback(endpoint):
            reason = f"{not_loopback(endpoint)}: authorizerd.tokens.file is needed"
            raise settings.refusal(key, reason)
    return tokens_file


def _read_workers(settings: _Settings) -> int:
    """Return how many workers; a class that we do not know may keep what it decides by itself."""
    workers: int = settings.values["authorizerd.workers"]
    if workers > 1 and settings.values["authorizer.class.name"] != STANDARD_AUTHORIZER:
        reason = "only the built-in authorizer runs in several processes: see authorizer.class.name"
        raise settings.refusal("authorizerd.workers", reason)
    return workers


def _read_admin_http(settings: _Settings) -> HttpEndpoint:
    admin: HttpEndpoint = settings.values["authorizerd.admin.http"]
    if admin.port != 0 and admin == settings.values["authorizerd.decision.http"]:
        reason = "has the address of authorizerd.decision.http"
        raise settings.refusal("authorizerd.admin.http", reason)
    return admin
