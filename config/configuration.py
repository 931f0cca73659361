"""server.properties as one frozen, validated configuration, with static and reloadable parts.

**Invariant:** the result is valid, also by the rules that concern several keys. If it is not, one
ConfigurationError names all faults, and no key takes effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from authorizerd.acl.audit import AuditLevel
from authorizerd.acl.audit_filter import AuditFilter, AuditRules
from authorizerd.acl.audit_mask import Masking
from authorizerd.acl.model import ResourceType
from authorizerd.acl.release_in_force import Evidence
from authorizerd.config.endpoints import Endpoint, HttpEndpoint, StreamEndpoint
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.follow import FollowSettings
from authorizerd.config.follow_rules import (
    check_log_ins,
    check_writes,
    read_follow,
    read_node_id,
    read_source,
)
from authorizerd.config.joined_rules import (
    parse_listener_creation_rates,
    read_advertised_listeners,
    read_audit_mask_secret_file,
    read_controller_listener_names,
    read_early_start_listeners,
    read_failed_login_delay_ms,
    read_ignored_keys,
    read_listener_creation_rates,
    read_listener_max_connections,
    read_listeners,
    read_metadata_log_dir,
    read_security_protocols,
    read_workers,
)
from authorizerd.config.key_values import KeyValues, read_key_values
from authorizerd.config.keys import KEYS
from authorizerd.config.own_keys import CALLERS_PREFIX
from authorizerd.config.properties import Property, parse_override, parse_properties
from authorizerd.config.providers import resolve_placeholders
from authorizerd.config.sasl import SaslSettings, read_sasl_listeners
from authorizerd.config.tls import ClientAuth, TlsSettings
from authorizerd.config.tls_rules import (
    read_admin_http,
    read_http_tls,
    read_listener_tls,
    read_metrics_http,
    read_tokens_file,
)
from authorizerd.config.values import (
    AuditFormat,
    KafkaRelease,
    LogFormat,
    LogLevel,
    UnknownRelease,
    trim,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloadable:
    """The settings that can change without a restart. The authorizer keeps its own settings.

    ``listener_creation_rates`` has the rates that are set for one listener, by listener name.
    ``callers`` has the principals that ``authorizerd.callers.*`` list, by the key's last part.
    """

    super_users: frozenset[str]
    callers: Mapping[str, frozenset[str]]
    audit_level: AuditLevel
    audit_rules: AuditRules
    log_level: LogLevel
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int]
    max_connection_creation_rate: int
    listener_creation_rates: Mapping[str, int]
    login_timeout_ms: int
    connections_max_idle_ms: int
    http_header_timeout_ms: int
    http_drain_timeout_ms: int
    update_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """All settings. Each field has the name of its key, without ``authorizerd.``.

    ``follow`` says how to follow a cluster; it is None if the daemon owns its log.
    ``advertised_listeners`` defaults to ``listeners``. ``authzen_resource_types`` has lower-case
    names, since a request's type matches in any case. ``sasl_listeners`` has the log-ins of each
    SASL listener, by its name, and ``listener_max_connections`` the limits that are set for one
    listener. ``listener_tls`` has the TLS settings of each SSL and SASL_SSL listener; ``http_tls``
    those of our own ports, None if none of them has TLS. ``authorizer_class_name`` is empty if
    there is no authorizer. ``file_values`` has the text of every key that is set, for the
    authorizer's ``configure``. ``ignored_keys`` has the sorted unknown keys, which one warning
    lists.
    """

    node_id: int
    metadata_log_dir: str
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    controller_listener_names: tuple[str, ...]
    early_start_listeners: frozenset[str]
    follow: FollowSettings | None
    sasl_listeners: Mapping[str, SaslSettings]
    connection_failed_authentication_delay_ms: int
    listener_max_connections: Mapping[str, int]
    quota_window_num: int
    quota_window_size_seconds: int
    listener_tls: Mapping[str, TlsSettings]
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
    console: bool
    http_tls: TlsSettings | None
    metrics_http: HttpEndpoint | None
    tokens_file: str | None
    stream_frame_max_bytes: int
    overload_turn_ms: int
    workers: int
    worker_timeout_ms: int
    watch_max_connections: int
    watch_journal_bytes: int
    http_request_max_bytes: int
    log_format: LogFormat
    audit_log: str | None
    audit_format: AuditFormat
    audit_queue_max: int
    audit_mask_principal: Masking
    audit_mask_host: Masking
    audit_mask_resource: Masking
    audit_mask_secret_file: str | None
    search_timeout_ms: int
    authzen_base_url: str
    authzen_subject_types: Mapping[str, str]
    authzen_resource_types: Mapping[str, ResourceType]
    authorizer_class_name: str
    kafka_release: KafkaRelease
    kafka_release_unknown: UnknownRelease
    file_values: Mapping[str, str] = field(repr=False, compare=False)  # contains passwords
    ignored_keys: tuple[str, ...]
    reloadable: Reloadable

    @property
    def has_client_auth(self) -> bool:
        """True if TLS asks the callers of the decision ports for certificates."""
        return self.http_tls is not None and self.http_tls.client_auth is not ClientAuth.NONE

    @property
    def evidence(self) -> Evidence:
        """What proves by the rules of which Kafka releases ACLs are judged."""
        return Evidence.OWN_LOG if self.follow is None else Evidence(self.follow.kind.value)


def parse(text: str, *, source: str, overrides: Sequence[str] = ()) -> Configuration:
    """Return the configuration of a server.properties text. Blocks if it has placeholders.

    Args:
        text: the file's bytes as ISO-8859-1, as Kafka reads them.
        source: the file's name in errors.
        overrides: ``KEY=VALUE`` texts. They take precedence over the file, and later ones over
            earlier ones.

    Raises:
        ConfigurationError: the text is malformed; or keys are invalid, missing, contradict each
            other, or are unknown although they begin with ``authorizerd.``. Its ``faults`` are all
            of these, but for those that may only follow from another one; if a placeholder has no
            value, they are those of placeholders alone.
    """
    properties = parse_properties(text, source=source)
    faults = []
    for override in overrides:
        try:
            overriding = parse_override(override)
        except ConfigurationError as fault:
            faults.append(fault)
        else:
            properties[overriding.key] = overriding
    try:
        properties = resolve_placeholders(properties)
    except ConfigurationError as error:
        raise ConfigurationError.of_all([*error.faults, *faults]) from None
    keys = read_key_values(properties, source)
    if faults:  # its key may be the one that a rule about several keys would miss
        raise ConfigurationError.of_all([*keys.faults, *faults])
    return _configure(keys)


def parse_values(values: Mapping[str, str], *, source: str) -> Configuration:
    """Return the configuration whose ``file_values`` are ``values``.

    Their placeholders are resolved already: what is left is text, which a client may have sent.

    Raises:
        ConfigurationError: see ``parse``.
    """
    properties = {
        key: Property(key=key, value=value, source=source, line=None)
        for key, value in values.items()
    }
    return _configure(read_key_values(properties, source))


def _configure(keys: KeyValues) -> Configuration:
    values = keys.values
    source = keys.attempt(read_source)
    protocols = keys.attempt(read_security_protocols)
    sasl_listeners = keys.attempt(read_sasl_listeners, protocols)
    controller_listener_names = keys.attempt(read_controller_listener_names, source)
    node_id = keys.attempt(read_node_id, source)
    metadata_log_dir = keys.attempt(read_metadata_log_dir)
    listeners = keys.attempt(read_listeners, protocols)
    advertised_listeners = keys.attempt(
        read_advertised_listeners, controller_listener_names, protocols
    )
    early_start_listeners = keys.attempt(read_early_start_listeners, controller_listener_names)
    follow = keys.attempt(read_follow, source, protocols)
    keys.attempt(check_log_ins, source, sasl_listeners)
    keys.attempt(check_writes, source, sasl_listeners)
    failed_login_delay_ms = keys.attempt(read_failed_login_delay_ms)
    listener_max_connections = keys.attempt(read_listener_max_connections)
    listener_creation_rates = keys.attempt(read_listener_creation_rates)
    listener_tls = keys.attempt(read_listener_tls, protocols)
    admin_http = keys.attempt(read_admin_http)
    http_tls = keys.attempt(read_http_tls)
    metrics_http = keys.attempt(read_metrics_http)
    tokens_file = keys.attempt(read_tokens_file)
    workers = keys.attempt(read_workers)
    audit_mask_secret_file = keys.attempt(read_audit_mask_secret_file)
    keys.check()
    return Configuration(
        node_id=node_id,
        metadata_log_dir=metadata_log_dir,
        listeners=listeners,
        advertised_listeners=advertised_listeners,
        controller_listener_names=controller_listener_names,
        early_start_listeners=early_start_listeners,
        follow=follow,
        sasl_listeners=sasl_listeners,
        connection_failed_authentication_delay_ms=failed_login_delay_ms,
        listener_max_connections=listener_max_connections,
        quota_window_num=values["quota.window.num"],
        quota_window_size_seconds=values["quota.window.size.seconds"],
        listener_tls=listener_tls,
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
        admin_http=admin_http,
        console=values["authorizerd.console"],
        http_tls=http_tls,
        metrics_http=metrics_http,
        tokens_file=tokens_file,
        stream_frame_max_bytes=values["authorizerd.stream.frame.max.bytes"],
        overload_turn_ms=values["authorizerd.overload.turn.ms"],
        workers=workers,
        worker_timeout_ms=values["authorizerd.worker.timeout.ms"],
        watch_max_connections=values["authorizerd.watch.max.connections"],
        watch_journal_bytes=values["authorizerd.watch.journal.bytes"],
        http_request_max_bytes=values["authorizerd.http.request.max.bytes"],
        log_format=values["authorizerd.log.format"],
        audit_log=values["authorizerd.audit.log"],
        audit_format=values["authorizerd.audit.format"],
        audit_queue_max=values["authorizerd.audit.queue.max"],
        audit_mask_principal=values["authorizerd.audit.mask.principal"],
        audit_mask_host=values["authorizerd.audit.mask.host"],
        audit_mask_resource=values["authorizerd.audit.mask.resource"],
        audit_mask_secret_file=audit_mask_secret_file,
        search_timeout_ms=values["authorizerd.search.timeout.ms"],
        authzen_base_url=values["authorizerd.authzen.base.url"],
        authzen_subject_types=values["authorizerd.authzen.subject.types"],
        authzen_resource_types=values["authorizerd.authzen.resource.types"],
        authorizer_class_name=values["authorizer.class.name"],
        kafka_release=values["authorizerd.kafka.release"],
        kafka_release_unknown=values["authorizerd.kafka.release.unknown"],
        file_values=MappingProxyType(
            {name: trim(place.value) for name, place in keys.properties.items()}
        ),
        ignored_keys=read_ignored_keys(keys, source),
        reloadable=_reloadable(values, listener_creation_rates),
    )


def parse_reloadable(texts: Mapping[str, str]) -> Reloadable:
    """Return the reloadable settings in ``texts``, which must be complete and valid."""
    values = {key.name: key.parse(texts[key.name]) for key in KEYS if key.reloadable}
    return _reloadable(values, parse_listener_creation_rates(texts))


def _reloadable(
    values: Mapping[str, Any], listener_creation_rates: Mapping[str, int]
) -> Reloadable:
    return Reloadable(
        super_users=values["super.users"],
        callers={
            key.removeprefix(CALLERS_PREFIX): values[key]
            for key in values
            if key.startswith(CALLERS_PREFIX)
        },
        audit_level=values["authorizerd.audit.level"],
        audit_rules=_audit_rules(values),
        log_level=values["authorizerd.log.level"],
        max_connections=values["max.connections"],
        max_connections_per_ip=values["max.connections.per.ip"],
        max_connections_per_ip_overrides=values["max.connections.per.ip.overrides"],
        max_connection_creation_rate=values["max.connection.creation.rate"],
        listener_creation_rates=listener_creation_rates,
        login_timeout_ms=values["authorizerd.login.timeout.ms"],
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
