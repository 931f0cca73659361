"""Create the servers of all endpoints; run none of them.

**Invariant:** the configuration bounds each server's connections, memory and times.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Final

import trio
from prometheus_client import CollectorRegistry

from authorizerd.actors.decider import Decider
from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.config.bounds import (
    METRICS_CONNECTIONS_PER_IP_MAX,
    RESERVED_CONNECTIONS,
    http_memory_bytes,
    kafka_memory_bytes,
    stream_memory_bytes,
)
from authorizerd.config.configuration import Configuration, Reloadable
from authorizerd.config.endpoints import Endpoint, is_loopback
from authorizerd.daemon.components import Parts
from authorizerd.daemon.decisions.authzen import AuthZenHandler
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.opa import OpaHandler, is_opa_path
from authorizerd.daemon.decisions.stream_server import StreamServer
from authorizerd.daemon.endpoints import (
    ADMIN_HTTP,
    DECISION_HTTP,
    DECISION_STREAM,
    METRICS_HTTP,
    connections_wanted,
)
from authorizerd.daemon.http.server import Handler, HttpServer, Router
from authorizerd.daemon.kafka.dispatch import KafkaHandlers
from authorizerd.daemon.kafka.listener import KafkaListener
from authorizerd.daemon.kafka.login_credentials import LoginCredentials, derive_secret
from authorizerd.daemon.kafka.responses import Cluster
from authorizerd.daemon.net.connection_limits import UNLIMITED, ConnectionLimits
from authorizerd.daemon.net.connection_server import ConnectionServer
from authorizerd.daemon.net.creation_rate import CreationRate, ListenerRates
from authorizerd.daemon.net.fd_limit import allow_open_files
from authorizerd.daemon.telemetry.admin import AdminHandler
from authorizerd.daemon.telemetry.metrics import Measured, register_metrics
from authorizerd.daemon.telemetry.readiness import Readiness
from authorizerd.protocol.decisions.authzen import Vocabulary
from authorizerd.protocol.http.messages import (
    LOOPBACK_HOSTS,
    UNIDENTIFIED,
    Request,
    Response,
    Route,
    bearer_token,
)
from authorizerd.protocol.http.request_head import HttpLimits
from authorizerd.tls.server import TlsServer

_HEALTH_REQUEST_BYTES_MAX: Final = 4096
METRICS_SECONDS_MAX: Final = 1.0
"""Maximum age of the metrics on the metrics port, since anyone may request them at any rate."""


def reconfigure_servers(
    servers: Mapping[str, ConnectionServer], configuration: Configuration, settings: Reloadable
) -> None:
    """Apply settings, and limit each server's connections by the limit on open files."""
    wanted = connections_wanted(configuration, settings.max_connections)
    granted = allow_open_files({name: wanted[name] for name in servers})
    for name, server in servers.items():
        server.reconfigure(settings, granted[name])


def new_limits(
    configuration: Configuration, name: str, *, reserved: int = 0, is_http: bool = False
) -> ConnectionLimits:
    """Return the limits that the endpoint ``name`` starts with."""
    settings = configuration.reloadable
    most = connections_wanted(configuration, settings.max_connections)[name]
    own_per_address_max = METRICS_CONNECTIONS_PER_IP_MAX if name == METRICS_HTTP else UNLIMITED
    return ConnectionLimits.of_settings(
        settings,
        most,
        reserved=reserved,
        own_per_address_max=own_per_address_max,
        is_http=is_http,
    )


def new_servers(
    parts: Parts,
    cluster: Cluster,
    gate: ListenerGate,
    readiness: Readiness,
) -> dict[str, ConnectionServer]:
    """Return this process's servers by name. Workers, if any, serve the decision ports."""
    configuration = parts.configuration
    registry = CollectorRegistry()
    kafka = _new_kafka_listeners(parts, cluster, derive_secret(parts.properties))
    own_tls = parts.certificates.own_ports
    http = _new_health_servers(parts, registry, readiness)
    streams: dict[str, StreamServer] = {}
    if parts.workers is None:
        http[DECISION_HTTP] = new_decision_server(
            configuration, parts.authorizer, parts.callers, own_tls
        )
        if configuration.decision_stream is not None:
            streams[DECISION_STREAM] = new_stream_server(
                configuration, parts.authorizer, parts.callers, own_tls
            )
    measured = Measured(
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
        workers=parts.workers,
    )
    register_metrics(registry, measured)
    servers = {**http, **kafka, **streams}
    parts.certificates.on_lost_trust(partial(end_identified, servers.values()))
    return servers


def end_identified(servers: Collection[ConnectionServer], tls: TlsServer) -> None:
    """End the connections that a certificate identified, on all ports with this TLS."""
    for server in servers:
        if server.tls is tls:
            server.end_identified()


def _new_health_servers(
    parts: Parts, registry: CollectorRegistry, readiness: Readiness
) -> dict[str, HttpServer]:
    """Return the admin server, and the metrics server if it is configured.

    They never shed load: an operator or probe that investigates an overload needs an answer.
    """
    configuration, certificates = parts.configuration, parts.certificates
    new_server = partial(
        _new_http_server,
        configuration,
        body_bytes_max=_HEALTH_REQUEST_BYTES_MAX,
        turn_ms_max=math.inf,
    )
    admin, metrics = configuration.admin_http, configuration.metrics_http
    handler: Handler = AdminHandler(registry, readiness, metrics_age_max_s=0)
    is_local = is_loopback(admin)
    servers = {
        ADMIN_HTTP: new_server(
            ADMIN_HTTP,
            handler if is_local else require_credentials(handler, parts.callers),
            allowed_hosts=LOOPBACK_HOSTS if is_local else None,
            tls=certificates.own_ports if admin.is_tls else None,
        )
    }
    if metrics is not None:
        servers[METRICS_HTTP] = new_server(
            METRICS_HTTP,
            AdminHandler(
                registry, readiness, metrics_age_max_s=METRICS_SECONDS_MAX, is_public=True
            ),
            allowed_hosts=None,  # anyone may read the metrics, so DNS rebinding gains nothing
            tls=certificates.metrics_port if metrics.is_tls else None,
        )
    return servers


def require_credentials(handler: Handler, callers: Callers) -> Handler:
    """Return a handler that answers only callers with a token or a certificate."""

    async def answer(request: Request) -> Response:
        caller = callers.identify(bearer_token(request), "admin", certified=request.principal)
        return UNIDENTIFIED if caller is None else await handler(request)

    return answer


def new_decision_server(
    configuration: Configuration, decider: Decider, callers: Callers, tls: TlsServer | None
) -> HttpServer:
    """Return the server of AuthZEN and of OPA's data API on one port."""
    vocabulary = Vocabulary(
        configuration.authzen_subject_types, configuration.authzen_resource_types
    )
    authzen = AuthZenHandler(decider, vocabulary, callers)
    opa = OpaHandler(decider, callers)

    def answer(request: Request) -> Awaitable[Response]:
        return (opa if is_opa_path(request.path) else authzen)(request)

    def route(request: Request) -> Route | None:
        return (opa if is_opa_path(request.path) else authzen).route(request)

    return _new_http_server(
        configuration,
        DECISION_HTTP,
        answer,
        configuration.http_request_max_bytes,
        configuration.overload_turn_ms,
        # Without credentials, a web page could send requests through its visitor's browser.
        LOOPBACK_HOSTS if callers.trusts_all else None,
        tls if configuration.decision_http.is_tls else None,
        route,
    )


def _new_http_server(
    configuration: Configuration,
    name: str,
    handler: Handler,
    body_bytes_max: int,
    turn_ms_max: float,
    allowed_hosts: re.Pattern[bytes] | None,
    tls: TlsServer | None,
    router: Router | None = None,
) -> HttpServer:
    return HttpServer(
        name=name,
        handler=handler,
        limits=new_limits(configuration, name, is_http=True),
        http_limits=HttpLimits(body_bytes_max=body_bytes_max),
        memory_bytes_max=http_memory_bytes(configuration),
        turn_ms_max=turn_ms_max,
        allowed_hosts=allowed_hosts,
        tls=tls,
        router=router,
    )


def _new_kafka_listeners(
    parts: Parts, cluster: Cluster, scram_secret: bytes
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

    def is_super_user(principal: str) -> bool:
        return principal in parts.settings.super_users

    shared = new_creation_rate(configuration, configuration.reloadable.max_connection_creation_rate)
    return {
        endpoint.listener_name: _new_kafka_listener(
            configuration,
            endpoint,
            handlers,
            credentials,
            is_super_user,
            parts.certificates.servers.get(endpoint.listener_name),
            shared,
        )
        for endpoint in configuration.listeners
    }


def new_creation_rate(configuration: Configuration, per_second: int) -> CreationRate:
    """Return a limit with Kafka's burst: all windows except the current one, which is not full."""
    full_windows = max(1, configuration.quota_window_num - 1)
    burst_s = full_windows * configuration.quota_window_size_seconds
    return CreationRate(per_second, burst_s, trio.current_time())


def _new_kafka_listener(
    configuration: Configuration,
    endpoint: Endpoint,
    handlers: KafkaHandlers,
    credentials: LoginCredentials,
    is_super_user: Callable[[str], bool],
    tls: TlsServer | None,
    shared_rate: CreationRate,
) -> KafkaListener:
    name = endpoint.listener_name
    sasl = configuration.sasl_listeners.get(name)
    own_rate = configuration.reloadable.listener_creation_rates.get(name, UNLIMITED)
    # Without log-in there is no way to tell super users apart, so nothing is reserved for them.
    reserved = 0 if sasl is None else RESERVED_CONNECTIONS
    return KafkaListener(
        name=name,
        handlers=handlers,
        sasl=sasl,
        credentials=credentials,
        failed_login_delay_ms=configuration.connection_failed_authentication_delay_ms,
        limits=new_limits(configuration, name, reserved=reserved),
        request_bytes_max=configuration.socket_request_max_bytes,
        memory_bytes_max=kafka_memory_bytes(configuration),
        is_super_user=is_super_user,
        rates=ListenerRates(new_creation_rate(configuration, own_rate), shared_rate),
        is_controller=endpoint.listener_name in configuration.controller_listener_names,
        tls=tls,
    )


def new_stream_server(
    configuration: Configuration, decider: Decider, callers: Callers, tls: TlsServer | None
) -> StreamServer:
    """Return the server of the decision stream, which must be configured."""
    endpoint = configuration.decision_stream
    assert endpoint is not None
    return StreamServer(
        name=DECISION_STREAM,
        decider=decider,
        callers=callers,
        limits=new_limits(configuration, DECISION_STREAM),
        frame_bytes_max=configuration.stream_frame_max_bytes,
        memory_bytes_max=stream_memory_bytes(configuration),
        turn_ms_max=configuration.overload_turn_ms,
        offset_timeout_ms=configuration.reloadable.update_timeout_ms,
        tls=tls if endpoint.is_tls else None,
    )
