"""The configured endpoints: their names, bound addresses, and advertised addresses.

**Invariant:** every address is bound before anything else starts. Reported addresses are the bound
ones, which may differ from the configured ones (port 0).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from socket import socket
from typing import Final, NamedTuple

from authorizerd.actors.authorizer import ServerEndpoint, ServerInfo
from authorizerd.config.bounds import (
    ADMIN_CONNECTIONS_MAX,
    METRICS_CONNECTIONS_MAX,
    listener_connections_max,
)
from authorizerd.config.configuration import Configuration
from authorizerd.config.values import protocol_of
from authorizerd.daemon.kafka.cluster import Cluster, Node
from authorizerd.daemon.net.binding import BoundEndpoint, bind, bind_unix
from authorizerd.daemon.net.socket_activation import (
    InheritedSockets,
    adopt,
    adopt_unix,
    check_names,
)

DECISION_HTTP: Final = "decision_http"
DECISION_STREAM: Final = "decision_stream"
ADMIN_HTTP: Final = "admin_http"
METRICS_HTTP: Final = "metrics_http"
DECISION_PORTS: Final = (DECISION_HTTP, DECISION_STREAM)
HEALTH_PORTS: Final = (ADMIN_HTTP, METRICS_HTTP)
"""The ports that open first, because they report whether the daemon is ready."""


def connections_wanted(configuration: Configuration) -> dict[str, int]:
    """Return the maximum number of connections per process for each endpoint, by name."""
    most = configuration.max_connections
    wanted = {ADMIN_HTTP: ADMIN_CONNECTIONS_MAX, DECISION_HTTP: most}
    if configuration.metrics_http is not None:
        wanted[METRICS_HTTP] = METRICS_CONNECTIONS_MAX
    if configuration.decision_stream is not None:
        wanted[DECISION_STREAM] = most
    for listener in configuration.listeners:
        name = listener.listener_name
        wanted[name] = listener_connections_max(configuration, name)
    return wanted


class _Wanted(NamedTuple):
    """One configured address; ``path`` is the path of a Unix socket."""

    name: str
    key: str
    host: str | None
    port: int
    path: Path | None = None


def _list_wanted(configuration: Configuration) -> list[_Wanted]:
    decision, admin = configuration.decision_http, configuration.admin_http
    wanted = [
        _Wanted(DECISION_HTTP, "authorizerd.decision.http", decision.host, decision.port),
        _Wanted(ADMIN_HTTP, "authorizerd.admin.http", admin.host, admin.port),
        *(
            _Wanted(
                listener.listener_name,
                f"listeners: {listener.listener_name}",
                listener.host,
                listener.port,
            )
            for listener in configuration.listeners
        ),
    ]
    metrics = configuration.metrics_http
    if metrics is not None:
        key = "authorizerd.metrics.http"
        wanted.append(_Wanted(METRICS_HTTP, key, metrics.host, metrics.port))
    stream = configuration.decision_stream
    if stream is not None:
        # Unix sockets come last: if another address cannot be bound, there is no socket file to
        # remove.
        path = None if stream.path is None else Path(stream.path)
        key = "authorizerd.decision.stream"
        wanted.append(_Wanted(DECISION_STREAM, key, stream.host, stream.port, path))
    return wanted


async def bind_all(
    configuration: Configuration, shared: Collection[str], inherited: InheritedSockets
) -> dict[str, BoundEndpoint]:
    """Bind every configured address that has no inherited socket.

    Args:
        shared: the endpoints whose addresses worker processes bind as well.

    Raises:
        StartError: an address is in use or does not belong to this machine (the error names the
            key), or an inherited socket does not match the configuration.
    """
    wanted = _list_wanted(configuration)
    check_names(inherited, {each.name for each in wanted})
    return {
        each.name: await _bind(each, inherited.get(each.name), is_shared=each.name in shared)
        for each in wanted
    }


async def _bind(
    wanted: _Wanted, inherited: Sequence[socket] | None, *, is_shared: bool
) -> BoundEndpoint:
    _, key, host, port, path = wanted
    if path is not None:
        return await bind_unix(path, key) if inherited is None else adopt_unix(inherited, path, key)
    if inherited is None:
        return await bind(host, port, key, is_shared=is_shared)
    return await adopt(inherited, host, port, key)


def new_cluster(
    configuration: Configuration, cluster_id: str, bound: dict[str, BoundEndpoint], host_name: str
) -> Cluster:
    """Return the cluster as clients see it. An advertised port 0 becomes the bound port.

    Args:
        host_name: the advertised host of a listener that is bound to every interface.
    """
    advertised = {
        endpoint.listener_name: endpoint
        for endpoint in (*configuration.listeners, *configuration.advertised_listeners)
    }
    return Cluster(
        cluster_id=cluster_id,
        nodes={
            name: Node(
                node_id=configuration.node_id,
                host=endpoint.host or host_name,
                port=endpoint.port or bound[name].port,
            )
            for name, endpoint in advertised.items()
        },
        controller_listeners=frozenset(configuration.controller_listener_names),
    )


def new_server_info(
    configuration: Configuration, cluster: Cluster, bound: Mapping[str, BoundEndpoint]
) -> ServerInfo:
    """Return the facts that an authorizer gets about its server."""
    stream = configuration.decision_stream
    tls = {
        DECISION_HTTP: configuration.decision_http.is_tls,
        DECISION_STREAM: stream is not None and stream.is_tls,
    }
    endpoints = {
        name: _decision_endpoint(name, bound[name], is_tls=is_tls)
        for name, is_tls in tls.items()
        if name in bound
    }
    for each in (*configuration.listeners, *configuration.advertised_listeners):
        node = cluster.nodes[each.listener_name]
        endpoints[each.listener_name] = ServerEndpoint(
            each.listener_name, each.security_protocol, host=node.host, port=node.port
        )
    return ServerInfo(
        cluster_id=cluster.cluster_id,
        node_id=configuration.node_id,
        endpoints=endpoints,
        early_start_listeners=configuration.early_start_listeners,
    )


def _decision_endpoint(name: str, bound: BoundEndpoint, *, is_tls: bool) -> ServerEndpoint:
    protocol = protocol_of(has_tls=is_tls, has_log_in=False)
    if bound.path is not None:
        return ServerEndpoint(name, protocol, path=str(bound.path))
    return ServerEndpoint(name, protocol, host=bound.host, port=bound.port)
