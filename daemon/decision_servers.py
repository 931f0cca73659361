"""Create the servers of the decision ports, for the daemon itself and for its workers.

**Invariant:** the configuration bounds each server's connections, memory and times. This module
imports no code of the Kafka listeners or the metrics, which workers do not need.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

from authorizerd.actors.daemon_authorizer import DaemonAuthorizer
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.config.bounds import (
    METRICS_CONNECTIONS_PER_IP_MAX,
    http_memory_bytes,
    stream_memory_bytes,
)
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.decisions.authzen import AuthZenHandler
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.discovery import DiscoveryHandler
from authorizerd.daemon.decisions.opa import DATA_PATH, HEALTH_PATH, OpaHandler
from authorizerd.daemon.decisions.paths import PathsHandler
from authorizerd.daemon.decisions.route_file import FORWARD_PATH, RouteFile
from authorizerd.daemon.decisions.stream_server import StreamServer
from authorizerd.daemon.endpoints import (
    DECISION_HTTP,
    DECISION_STREAM,
    METRICS_HTTP,
    connections_wanted,
)
from authorizerd.daemon.http.api_document import DECISION_API, OPENAPI_PATH, ApiDocument
from authorizerd.daemon.http.refusals import EXPIRED, EXPIRED_GATEWAY
from authorizerd.daemon.http.server import HttpServer
from authorizerd.daemon.net.connection_limits import UNLIMITED, ConnectionLimits
from authorizerd.daemon.net.connection_server import ConnectionServer
from authorizerd.daemon.net.fd_limit import allow_open_files
from authorizerd.daemon.queries.acl_list import ACLS_PATH, AclListHandler
from authorizerd.daemon.queries.acl_state import STATE_PATH, AclStateHandler
from authorizerd.daemon.queries.acl_watch import WATCH_PATH, AclWatchHandler
from authorizerd.daemon.queries.client import NO_QUERIES, Queries
from authorizerd.daemon.queries.question_surface import (
    EXPLAIN_PATH,
    HISTORY_PATH,
    QuestionHandler,
)
from authorizerd.daemon.queries.search import SearchHandler
from authorizerd.daemon.queries.watchers import Watchers
from authorizerd.protocol.decisions.authzen import Vocabulary
from authorizerd.protocol.decisions.discovery import (
    DISCOVERY_PATH,
    EVALUATION_PATH,
    EVALUATIONS_PATH,
    SEARCH_PATHS,
)
from authorizerd.protocol.http.messages import LOOPBACK_HOSTS, Request, Response
from authorizerd.protocol.http.request_head import HttpLimits
from authorizerd.protocol.http.streamed import Handler
from authorizerd.tls.server import TlsServer

ANONYMOUS_PATHS: Final = frozenset((DISCOVERY_PATH, HEALTH_PATH, OPENAPI_PATH))
"""The paths of the decision port that need no credentials, whatever the settings are."""


def reconfigure_servers(servers: Mapping[str, ConnectionServer], settings: Configuration) -> None:
    """Apply settings, and limit each server's connections by the limit on open files."""
    wanted = connections_wanted(settings)
    granted = allow_open_files({name: wanted[name] for name in servers})
    for name, server in servers.items():
        server.reconfigure(settings, granted[name])


def new_limits(
    configuration: Configuration, name: str, *, reserved: int = 0, is_http: bool = False
) -> ConnectionLimits:
    """Return the limits that the endpoint ``name`` starts with."""
    own_per_address_max = METRICS_CONNECTIONS_PER_IP_MAX if name == METRICS_HTTP else UNLIMITED
    return ConnectionLimits.of_settings(
        configuration,
        connections_wanted(configuration)[name],
        reserved=reserved,
        own_per_address_max=own_per_address_max,
        is_http=is_http,
    )


def end_identified(servers: Collection[ConnectionServer], tls: TlsServer) -> None:
    """End the connections that a certificate identified, on all ports with this TLS."""
    for server in servers:
        if server.tls is tls:
            server.end_identified()


def new_decision_handler(
    configuration: Configuration,
    authorizer: DaemonAuthorizer,
    callers: Callers,
    watchers: Watchers,
    queries: Queries,
    routes: RouteFile,
) -> PathsHandler:
    """Return the handler of AuthZEN, OPA's data API, gateways, and requests for ACLs."""
    vocabulary = Vocabulary(
        configuration.authzen_subject_types, configuration.authzen_resource_types
    )
    opa = OpaHandler(authorizer, callers)
    handlers: dict[str, Handler] = {HEALTH_PATH: opa}
    explains = isinstance(authorizer, StandardAuthorizer)
    # Another authorizer's decisions do not depend on the ACLs alone.
    if isinstance(authorizer, StandardAuthorizer):
        for path in (EXPLAIN_PATH, HISTORY_PATH):
            handlers[path] = QuestionHandler(path, authorizer, vocabulary, callers, queries)
        search = SearchHandler(authorizer, vocabulary, callers, queries)
        handlers |= dict.fromkeys(SEARCH_PATHS, search)
        handlers[ACLS_PATH] = AclListHandler(authorizer, callers, queries)
        handlers[STATE_PATH] = AclStateHandler(authorizer, callers)
        handlers[WATCH_PATH] = AclWatchHandler(authorizer, callers, watchers)
    authzen = AuthZenHandler(
        authorizer, vocabulary, callers, queries if explains else NO_QUERIES, explains=explains
    )
    handlers |= {EVALUATION_PATH: authzen, EVALUATIONS_PATH: authzen}
    handlers[OPENAPI_PATH] = ApiDocument(DECISION_API, callers.accepted_schemes)
    handlers[DISCOVERY_PATH] = DiscoveryHandler(
        configuration.authzen_base_url,
        is_tls=configuration.decision_http.is_tls,
        has_searches=explains,
    )
    below: dict[str, Handler] = {DATA_PATH: opa}
    if routes.is_configured:
        # Imported only here: most daemons have no gateway, and would start more slowly.
        from authorizerd.daemon.decisions.forward_auth import ForwardAuthHandler

        below[FORWARD_PATH] = ForwardAuthHandler(authorizer, callers, routes)
    return PathsHandler(handlers, below)


def refuse_expired(request: Request) -> Response:
    """Return the answer to a request whose client certificate has expired.

    A gateway would show its user 401.
    """
    return EXPIRED_GATEWAY if request.path.startswith(FORWARD_PATH) else EXPIRED


def new_decision_server(
    configuration: Configuration,
    callers: Callers,
    tls: TlsServer | None,
    handler: PathsHandler,
) -> HttpServer:
    """Return the HTTP server of the decision port."""

    def is_anonymous(request: Request) -> bool:
        return request.path in ANONYMOUS_PATHS and callers.may_be_anyone(request)

    return new_http_server(
        configuration,
        DECISION_HTTP,
        handler,
        configuration.http_request_max_bytes,
        configuration.overload_turn_ms,
        # Without credentials, a web page could send requests through its visitor's browser.
        LOOPBACK_HOSTS if callers.trusts_all else None,
        tls if configuration.decision_http.is_tls else None,
        is_anonymous,
        lambda: not callers.trusts_all,
        refuse_expired,
    )


def new_http_server(
    configuration: Configuration,
    name: str,
    handler: Handler,
    body_bytes_max: int,
    turn_ms_max: float,
    allowed_hosts: re.Pattern[bytes] | None,
    tls: TlsServer | None,
    is_anonymous: Callable[[Request], bool] = lambda _: False,
    authenticates: Callable[[], bool] = lambda: False,
    refuse_expired: Callable[[Request], Response] = lambda _: EXPIRED,
) -> HttpServer:
    """Return a server of one port that answers by ``handler``; see ``HttpServer``."""
    return HttpServer(
        name=name,
        handler=handler,
        limits=new_limits(configuration, name, is_http=True),
        http_limits=HttpLimits(body_bytes_max=body_bytes_max),
        memory_bytes_max=http_memory_bytes(configuration),
        turn_ms_max=turn_ms_max,
        allowed_hosts=allowed_hosts,
        tls=tls,
        is_anonymous=is_anonymous,
        authenticates=authenticates,
        refuse_expired=refuse_expired,
    )


def new_stream_server(
    configuration: Configuration,
    authorizer: DaemonAuthorizer,
    callers: Callers,
    tls: TlsServer | None,
) -> StreamServer:
    """Return the server of the decision stream, which must be configured."""
    endpoint = configuration.decision_stream
    assert endpoint is not None
    return StreamServer(
        name=DECISION_STREAM,
        authorizer=authorizer,
        callers=callers,
        limits=new_limits(configuration, DECISION_STREAM),
        frame_bytes_max=configuration.stream_frame_max_bytes,
        memory_bytes_max=stream_memory_bytes(configuration),
        turn_ms_max=configuration.overload_turn_ms,
        offset_timeout_ms=configuration.update_timeout_ms,
        tls=tls if endpoint.is_tls else None,
    )
