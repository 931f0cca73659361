"""The daemon's parts made from its configuration, each in one place; nothing here runs them."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import trio

from acl.cluster import ClusterImage
from acl.model import ChangeBatch
from acl.snapshot import AclSnapshot
from actors.authorizer import Authorizer, ServerInfo
from actors.decider import Decider
from actors.published import View
from actors.record_applier import CaughtUp
from actors.update_queue import UpdateQueue
from config.bounds import http_room_bytes, kafka_room_bytes, stream_room_bytes
from config.configuration import Configuration
from config.dynamic import Layers
from config.endpoints import Endpoint
from daemon.askers import Askers
from daemon.authzen import AuthZenHandler
from daemon.binding import BoundEndpoint, bind, bind_unix
from daemon.decision_stream import StreamServer
from daemon.errors import StartError
from daemon.http_server import Handler, HttpServer
from daemon.inherited_sockets import InheritedSockets, adopt, adopt_unix, check_names
from daemon.kafka_answers import Cluster, Node
from daemon.kafka_handlers import KafkaHandlers
from daemon.kafka_listener import KafkaListener
from daemon.kafka_quorum_handler import Leadership
from daemon.log_directory import now_ms
from daemon.log_source import LocalLogSource
from daemon.opa import OpaHandler, is_opa_path
from daemon.own_log import Checkpointer, CheckpointPolicy, OwnLog
from daemon.worker_pool import WorkerPool
from metadata.log import MetadataLog
from metadata.storage import Storage
from metadata.writer import LogWriter
from protocol.authzen import Vocabulary
from protocol.http import LOOPBACK_HOSTS, HttpLimits, Request, Response

ACL_ID_BYTES: Final = 16
DECISION_HTTP: Final = "decision_http"
DECISION_STREAM: Final = "decision_stream"
ADMIN_HTTP: Final = "admin_http"


class Log:
    """What belongs to the log that the daemon owns: reading, writing, checkpoints."""

    def __init__(self, configuration: Configuration, storage: Storage) -> None:
        """Open the log.

        Raises:
            LogDirectoryError: there is none.
        """
        log_dir = Path(configuration.metadata_log_dir)
        self.writer: Final = LogWriter(
            log_dir,
            storage=storage,
            segment_bytes_max=configuration.metadata_log_segment_bytes,
            now_ms=now_ms,
        )
        self.own: Final = OwnLog(self.writer, node_id=configuration.node_id)
        self.source: Final = LocalLogSource(MetadataLog.open(log_dir, storage), self.own.begin)
        self._configuration = configuration
        self._storage = storage

    def leadership(self, snapshot: AclSnapshot | None) -> Leadership | None:
        """Return what clients are told of the log that ``snapshot`` was made of."""
        return None if snapshot is None else Leadership(self.writer.epoch, snapshot.offset + 1)

    def new_checkpointer(
        self, snapshot: View[AclSnapshot | None], cluster: View[ClusterImage]
    ) -> Checkpointer:
        configuration = self._configuration
        return Checkpointer(
            Path(configuration.metadata_log_dir),
            self.writer,
            snapshot,
            cluster,
            CheckpointPolicy(
                bytes_between=configuration.metadata_log_max_record_bytes_between_snapshots,
                interval_ms=configuration.metadata_log_max_snapshot_interval_ms,
                retention_bytes=configuration.metadata_max_retention_bytes,
                retention_ms=configuration.metadata_max_retention_ms,
            ),
            replay=self.source.replay,
            storage=self._storage,
            bytes_read=lambda: self.source.bytes_since_checkpoint,
        )


def new_update_queue(
    configuration: Configuration,
    log: Log,
    feed: trio.MemorySendChannel[ChangeBatch | CaughtUp],
    snapshot: View[AclSnapshot | None],
    image: View[ClusterImage],
    workers: WorkerPool | None,
) -> UpdateQueue:
    new_queue = partial(
        UpdateQueue,
        log.own,
        feed,
        snapshot,
        image,
        requests_max=configuration.queued_max_requests,
        new_id=lambda: os.urandom(ACL_ID_BYTES),
    )
    if workers is None:
        return new_queue()
    return new_queue(applied_everywhere=workers.applied_everywhere)


def new_worker_pool(
    configuration: Configuration,
    applier: trio.MemorySendChannel[ChangeBatch | CaughtUp],
    snapshot: View[AclSnapshot | None],
) -> WorkerPool | None:
    """Return the workers, None where the daemon is to decide alone."""
    if configuration.workers == 1:
        return None
    return WorkerPool(
        configuration.workers,
        applier,
        snapshot,
        configuration=configuration.file_values,
        timeout_ms=configuration.worker_timeout_ms,
    )


def configure(authorizer: Authorizer, configuration: Configuration) -> None:
    """Let the authorizer take over its settings.

    Raises:
        StartError: it does not want to.
    """
    try:
        authorizer.configure(Layers(file=configuration.file_values).in_force())
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise StartError(f"{configuration.authorizer_class_name}: {reason}") from error


def new_decision_server(
    configuration: Configuration, authorizer: Decider, askers: Askers
) -> HttpServer:
    """Return the server of AuthZEN and of OPA's data API on one port."""
    vocabulary = Vocabulary(
        configuration.authzen_subject_types, configuration.authzen_resource_types
    )
    authzen = AuthZenHandler(authorizer, vocabulary, askers)
    opa = OpaHandler(authorizer, askers)

    def answer(request: Request) -> Awaitable[Response]:
        return (opa if is_opa_path(request.path) else authzen)(request)

    return new_http_server(
        configuration,
        DECISION_HTTP,
        answer,
        configuration.http_request_max_bytes,
        configuration.overload_turn_ms,
        # What a web page makes its reader's browser send has no token.
        LOOPBACK_HOSTS if configuration.tokens_file is None else None,
    )


def new_http_server(
    configuration: Configuration,
    name: str,
    handler: Handler,
    body_bytes_max: int,
    turn_ms_max: float,
    allowed_hosts: re.Pattern[bytes] | None,
) -> HttpServer:
    return HttpServer(
        name=name,
        handler=handler,
        limits=HttpLimits(body_bytes_max=body_bytes_max),
        room_bytes=http_room_bytes(configuration),
        turn_ms_max=turn_ms_max,
        max_connections=configuration.reloadable.max_connections,
        header_timeout_ms=configuration.reloadable.http_header_timeout_ms,
        idle_timeout_ms=configuration.reloadable.connections_max_idle_ms,
        drain_timeout_ms=configuration.reloadable.http_drain_timeout_ms,
        allowed_hosts=allowed_hosts,
    )


def new_kafka_listener(
    configuration: Configuration, endpoint: Endpoint, handlers: KafkaHandlers
) -> KafkaListener:
    return KafkaListener(
        name=endpoint.listener_name,
        handlers=handlers,
        users=configuration.sasl_users.get(endpoint.listener_name),
        request_bytes_max=configuration.socket_request_max_bytes,
        room_bytes=kafka_room_bytes(configuration),
        max_connections=configuration.reloadable.max_connections,
        idle_timeout_ms=configuration.reloadable.connections_max_idle_ms,
        drain_timeout_ms=configuration.reloadable.http_drain_timeout_ms,
        is_controller=endpoint.listener_name in configuration.controller_listener_names,
    )


def new_stream_server(
    configuration: Configuration, decider: Decider, askers: Askers
) -> StreamServer:
    return StreamServer(
        name=DECISION_STREAM,
        decider=decider,
        askers=askers,
        frame_bytes_max=configuration.stream_frame_max_bytes,
        room_bytes=stream_room_bytes(configuration),
        turn_ms_max=configuration.overload_turn_ms,
        offset_timeout_ms=configuration.reloadable.update_timeout_ms,
        max_connections=configuration.reloadable.max_connections,
        idle_timeout_ms=configuration.reloadable.connections_max_idle_ms,
        drain_timeout_ms=configuration.reloadable.http_drain_timeout_ms,
    )


def new_cluster(
    configuration: Configuration, cluster_id: str, bound: dict[str, BoundEndpoint], host_name: str
) -> Cluster:
    """Return what clients are told: advertised addresses, and bound ports where port 0 was asked.

    Args:
        host_name: what a listener on every interface is advertised as.
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
    """Return what an authorizer is told of where it runs."""
    decisions = {
        name: bound[name].address for name in (DECISION_HTTP, DECISION_STREAM) if name in bound
    }
    kafka = {name: f"{node.host}:{node.port}" for name, node in cluster.nodes.items()}
    return ServerInfo(
        cluster_id=cluster.cluster_id,
        node_id=configuration.node_id,
        endpoints={**decisions, **kafka},
        early_start_listeners=configuration.early_start_listeners,
    )


async def bind_all(
    configuration: Configuration, shared: Collection[str], inherited: InheritedSockets
) -> dict[str, BoundEndpoint]:
    """Bind every address that is configured, and that no inherited socket is bound to already.

    Args:
        shared: the endpoints whose addresses other processes bind as well.

    Raises:
        StartError: an address is in use, or none of this machine; it names the key. An inherited
            socket is not for what is configured.
    """
    decision, admin = configuration.decision_http, configuration.admin_http
    wanted: list[tuple[str, str | None, int, str]] = [
        (DECISION_HTTP, decision.host, decision.port, "authorizerd.decision.http"),
        (ADMIN_HTTP, admin.host, admin.port, "authorizerd.admin.http"),
        *(
            (each.listener_name, each.host, each.port, f"listeners: {each.listener_name}")
            for each in configuration.listeners
        ),
    ]
    stream, stream_key = configuration.decision_stream, "authorizerd.decision.stream"
    if stream is not None and stream.path is None:
        wanted.append((DECISION_STREAM, stream.host, stream.port, stream_key))
    names = {name for name, *_ in wanted} | ({DECISION_STREAM} if stream is not None else set())
    check_names(inherited, names)
    endpoints = {
        name: (
            await adopt(inherited[name], host, port, key)
            if name in inherited
            else await bind(host, port, key, is_shared=name in shared)
        )
        for name, host, port, key in wanted
    }
    if stream is not None and stream.path is not None:  # last: nothing to remove if one fails
        path = Path(stream.path)
        endpoints[DECISION_STREAM] = (
            adopt_unix(inherited[DECISION_STREAM], path, stream_key)
            if DECISION_STREAM in inherited
            else await bind_unix(path, stream_key)
        )
    return endpoints
