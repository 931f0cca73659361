"""Create the servers of all endpoints; run none of them.

**Invariant:** the configuration bounds each server's connections, memory and times.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import trio
from prometheus_client import CollectorRegistry

from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.config.bounds import (
    RESERVED_CONNECTIONS,
    kafka_memory_bytes,
)
from authorizerd.config.configuration import Configuration
from authorizerd.config.endpoints import Endpoint, is_loopback
from authorizerd.config.sasl import SaslSettings
from authorizerd.daemon.components import DaemonServices
from authorizerd.daemon.decision_servers import (
    end_identified,
    new_decision_handler,
    new_decision_server,
    new_http_server,
    new_limits,
    new_stream_server,
)
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.paths import PathsHandler
from authorizerd.daemon.decisions.stream_server import StreamServer
from authorizerd.daemon.endpoints import (
    ADMIN_HTTP,
    DECISION_HTTP,
    DECISION_STREAM,
    METRICS_HTTP,
)
from authorizerd.daemon.http.api_document import ADMIN_API, ApiDocument
from authorizerd.daemon.http.server import HttpServer
from authorizerd.daemon.kafka.api_versions import ApiVersionsHandler
from authorizerd.daemon.kafka.cluster import Cluster
from authorizerd.daemon.kafka.dispatch import KafkaHandlers
from authorizerd.daemon.kafka.listener import KafkaListener
from authorizerd.daemon.kafka.login.issuer_keys import IssuerKeys
from authorizerd.daemon.kafka.login.login_credentials import LoginCredentials, derive_secret
from authorizerd.daemon.kafka.login.token_check import TokenCheck
from authorizerd.daemon.net.connection_limits import UNLIMITED
from authorizerd.daemon.net.connection_server import ConnectionServer
from authorizerd.daemon.net.creation_rate import CreationRate, ListenerRates
from authorizerd.daemon.queries.client import Queries, QueryClient
from authorizerd.daemon.telemetry.activity import Activity
from authorizerd.daemon.telemetry.admin import AdminHandler
from authorizerd.daemon.telemetry.metric_sources import MetricSources
from authorizerd.daemon.telemetry.metrics import register_metrics
from authorizerd.daemon.telemetry.readiness import Readiness
from authorizerd.protocol.http.messages import (
    LOOPBACK_HOSTS,
    UNIDENTIFIED,
    Request,
    bearer_token,
)
from authorizerd.protocol.http.streamed import AnyResponse, Handler
from authorizerd.tls.server import TlsServer

_HEALTH_REQUEST_BYTES_MAX: Final = 4096
METRICS_SECONDS_MAX: Final = 1.0
"""Maximum age of the metrics on the metrics port, since anyone may request them at any rate."""


def new_servers(
    parts: DaemonServices,
    cluster: Cluster,
    gate: ListenerGate,
    readiness: Readiness,
    addresses: Mapping[str, str],
    activity: Activity,
) -> tuple[dict[str, ConnectionServer], MetricSources]:
    """Return this process's servers by name, and what the metrics are read from.

    Workers, if any, serve the decision ports.

    Args:
        addresses: the bound addresses, by endpoint name.
        activity: what the console shows of the last hour.
    """
    configuration = parts.configuration
    registry = CollectorRegistry()
    kafka = _new_kafka_listeners(parts, cluster, derive_secret(parts.properties))
    own_tls = parts.certificates.own_ports
    http: dict[str, HttpServer] = {}
    streams: dict[str, StreamServer] = {}
    sources = MetricSources(
        authorizer=parts.authorizer,
        applier=parts.applier,
        origin=parts.origin,
        gate=gate,
        audit_log=parts.audit_log,
        purgatory=parts.purgatory,
        times=parts.times,
        http_servers=http,
        kafka_listeners=kafka,
        stream_servers=streams,
        certificates=parts.certificates,
        reloads=parts.settings.reloads,
        watch=parts.watchers.statistics,
        is_ready=lambda: readiness.is_ready,
        query_process=parts.query_process,
        workers=parts.workers,
    )
    queries = QueryClient(parts.query_process.questions, configuration.search_timeout_ms)
    decisions = new_decision_handler(
        configuration, parts.authorizer, parts.callers, parts.watchers, queries, parts.routes
    )
    http |= _new_health_servers(
        parts, registry, readiness, decisions, sources, addresses, queries, activity
    )
    if parts.workers is None:
        http[DECISION_HTTP] = new_decision_server(configuration, parts.callers, own_tls, decisions)
        if configuration.decision_stream is not None:
            streams[DECISION_STREAM] = new_stream_server(
                configuration, parts.authorizer, parts.callers, own_tls
            )
    register_metrics(registry, sources)
    servers = {**http, **kafka, **streams}
    parts.certificates.on_lost_trust(partial(end_identified, servers.values()))
    return servers, sources


def _new_health_servers(
    parts: DaemonServices,
    registry: CollectorRegistry,
    readiness: Readiness,
    decisions: PathsHandler,
    sources: MetricSources,
    addresses: Mapping[str, str],
    queries: Queries,
    activity: Activity,
) -> dict[str, HttpServer]:
    """Return the admin server, and the metrics server if it is configured.

    They never shed load: an operator or probe that investigates an overload needs an answer.

    Args:
        decisions: answers the console's questions.
    """
    configuration, certificates = parts.configuration, parts.certificates
    new_server = partial(new_http_server, configuration, turn_ms_max=math.inf)
    admin, metrics = configuration.admin_http, configuration.metrics_http
    is_local = is_loopback(admin)
    document = ApiDocument(ADMIN_API, frozenset if is_local else parts.callers.accepted_schemes)
    handler: Handler = AdminHandler(registry, readiness, document=document)
    if not is_local:
        handler = require_credentials(handler, parts.callers)
    body_bytes_max = _HEALTH_REQUEST_BYTES_MAX
    new_admin_server = new_server
    if configuration.console:
        # Imported only here: most daemons have no console.
        from authorizerd.daemon.console.setup import new_console

        console = new_console(
            configuration,
            parts.callers,
            decisions,
            readiness,
            sources,
            addresses,
            queries,
            activity,
            lambda: parts.settings.layers,
        )
        handler = console.mount(handler)
        body_bytes_max = configuration.http_request_max_bytes
        new_admin_server = partial(new_server, is_anonymous=console.is_anonymous)
    servers = {
        ADMIN_HTTP: new_admin_server(
            ADMIN_HTTP,
            handler,
            body_bytes_max,
            allowed_hosts=LOOPBACK_HOSTS if is_local else None,
            tls=certificates.own_ports if admin.is_tls else None,
            authenticates=lambda: not (is_local or parts.callers.trusts_all),
        )
    }
    if metrics is not None:
        servers[METRICS_HTTP] = new_server(
            METRICS_HTTP,
            AdminHandler(
                registry, readiness, metrics_age_max_s=METRICS_SECONDS_MAX, is_public=True
            ),
            _HEALTH_REQUEST_BYTES_MAX,
            allowed_hosts=None,  # anyone may read the metrics, so DNS rebinding gains nothing
            tls=certificates.metrics_port if metrics.is_tls else None,
        )
    return servers


def require_credentials(handler: Handler, callers: Callers) -> Handler:
    """Return a handler that answers only callers with a token or a certificate."""

    def answer(request: Request) -> AnyResponse | Awaitable[AnyResponse]:
        caller = callers.identify(bearer_token(request), certified=request.principal)
        return UNIDENTIFIED if caller is None else handler(request)

    return answer


def _new_kafka_listeners(
    parts: DaemonServices, cluster: Cluster, scram_secret: bytes
) -> dict[str, KafkaListener]:
    configuration = parts.configuration
    applier = parts.applier
    credentials = LoginCredentials(applier.cluster, applier.snapshot, scram_secret)
    handlers = KafkaHandlers(
        authorizer=parts.authorizer,
        image=parts.applier.cluster,
        purgatory=parts.purgatory,
        cluster=cluster,
        leadership=lambda: parts.origin.leadership,
        updates=parts.origin.updates,
        settings=parts.settings,
        times=parts.times,
    )

    versions = ApiVersionsHandler(cluster, applier.cluster, applier.applied)

    def is_super_user(principal: str) -> bool:
        return principal in parts.settings.super_users

    shared = new_creation_rate(configuration, configuration.max_connection_creation_rate)
    return {
        endpoint.listener_name: _new_kafka_listener(
            configuration,
            endpoint,
            handlers,
            versions,
            credentials,
            is_super_user,
            parts.certificates.servers.get(endpoint.listener_name),
            shared,
        )
        for endpoint in configuration.listeners
    }


def new_token_check(sasl: SaslSettings | None, listener_name: str) -> TokenCheck | None:
    """Return what checks the tokens of a listener; None if it does not offer OAUTHBEARER."""
    if sasl is None or sasl.tokens is None:
        return None
    has_keys = sasl.tokens.keys_url is not None
    return TokenCheck(sasl.tokens, IssuerKeys(sasl.tokens, listener_name) if has_keys else None)


def new_creation_rate(configuration: Configuration, per_second: int) -> CreationRate:
    """Return a limit with Kafka's burst: all windows except the current, incomplete one."""
    full_windows = max(1, configuration.quota_window_num - 1)
    burst_s = full_windows * configuration.quota_window_size_seconds
    return CreationRate(per_second, burst_s, trio.current_time())


def _new_kafka_listener(
    configuration: Configuration,
    endpoint: Endpoint,
    handlers: KafkaHandlers,
    versions: ApiVersionsHandler,
    credentials: LoginCredentials,
    is_super_user: Callable[[str], bool],
    tls: TlsServer | None,
    shared_rate: CreationRate,
) -> KafkaListener:
    name = endpoint.listener_name
    sasl = configuration.sasl_listeners.get(name)
    own_rate = configuration.listener_creation_rates.get(name, UNLIMITED)
    # Without authentication, super users cannot be recognized, so nothing is reserved for them.
    reserved = 0 if sasl is None else RESERVED_CONNECTIONS
    return KafkaListener(
        name=name,
        handlers=handlers,
        versions=versions,
        sasl=sasl,
        credentials=credentials,
        failed_login_delay_ms=configuration.connection_failed_authentication_delay_ms,
        limits=new_limits(configuration, name, reserved=reserved),
        request_bytes_max=configuration.socket_request_max_bytes,
        memory_bytes_max=kafka_memory_bytes(configuration),
        is_super_user=is_super_user,
        tokens=new_token_check(sasl, name),
        rates=ListenerRates(new_creation_rate(configuration, own_rate), shared_rate),
        is_controller=endpoint.listener_name in configuration.controller_listener_names,
        tls=tls,
    )
