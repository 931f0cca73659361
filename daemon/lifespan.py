"""The daemon's life: bind, load, start writing, open, serve, drain.

The stages start in the order in which ``Daemon`` lists them, and end in reverse order: the servers
answer pending requests, the update queue writes the accepted changes, the other actors end, and the
audit log writes its queued lines. A fault in any stage ends everything. A shutdown that takes too
long is forced.
"""

from __future__ import annotations

import logging
import math
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import trio

from authorizerd.acl.explanation.words import count_of
from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.components import DaemonServices
from authorizerd.daemon.decision_servers import reconfigure_servers
from authorizerd.daemon.endpoints import (
    ADMIN_HTTP,
    DECISION_HTTP,
    DECISION_PORTS,
    DECISION_STREAM,
    HEALTH_PORTS,
    METRICS_HTTP,
    bind_all,
    new_cluster,
    new_server_info,
)
from authorizerd.daemon.kafka.cluster import Cluster
from authorizerd.daemon.loading import load_log, report_log
from authorizerd.daemon.net.binding import BoundEndpoint
from authorizerd.daemon.net.connection_server import ConnectionServer
from authorizerd.daemon.net.socket_activation import InheritedSockets, take_inherited_sockets
from authorizerd.daemon.process.early_signals import release_sighup
from authorizerd.daemon.process.forced_end import ENDING_SECONDS, ForcedEnd
from authorizerd.daemon.process.gc_control import automatic_collection_off, collect_regularly
from authorizerd.daemon.process.signals import SIGNALS, SignalHandler
from authorizerd.daemon.process.stages import Stage, run_stages
from authorizerd.daemon.process.thread_switching import switch_threads_soon
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.daemon.releases import log_releases
from authorizerd.daemon.servers import new_servers
from authorizerd.daemon.session_keys import renew_session_keys
from authorizerd.daemon.telemetry.activity import Activity, read_totals
from authorizerd.daemon.telemetry.metric_sources import MetricSources
from authorizerd.daemon.telemetry.readiness import Readiness
from authorizerd.daemon.telemetry.ready_file import (
    ReadyFile,
    remove_stale_ready_file,
    write_ready_file,
)
from authorizerd.daemon.telemetry.systemd import ServiceManager
from authorizerd.daemon.workers.pool import WorkerPool
from authorizerd.daemon.workers.predecessors import WorkersLock
from authorizerd.daemon.workers.query_pool import QueryPool
from authorizerd.daemon.workers.spawn import start_query_process, start_worker
from authorizerd.metadata.meta_properties import MetaProperties

_logger = logging.getLogger("authorizerd")


class Daemon:
    """Run the daemon; call ``run`` once.

    Args:
        workers_lock: the descriptor of the ``WorkersLock``, which the workers inherit.
    """

    def __init__(
        self,
        parts: DaemonServices,
        ready_file: Path | None,
        service_manager: ServiceManager,
        inherited: InheritedSockets,
        forced_end: ForcedEnd,
        workers_lock: int | None = None,
    ) -> None:
        self._workers_lock = workers_lock
        self._parts = parts
        self._ready_file = ready_file
        self._service_manager = service_manager
        self._inherited = inherited
        self._forced_end = forced_end
        self._drain_timeout_ms = 0
        self._cluster: Cluster
        self._endpoints: Mapping[str, BoundEndpoint]
        self._gate: ListenerGate
        self._readiness: Readiness
        self._servers: Mapping[str, ConnectionServer]
        self._sources: MetricSources
        self._activity = Activity()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain and return.

        Raises (in a group, if one of several tasks fails):
            StartError: an address is in use, or the ready file cannot be written.
            MetadataLogError, UnfitChangeError: the log is damaged or inconsistent.
            LogWriteError: the log cannot be written.
        """
        parts = self._parts
        with ExitStack() as stack:
            stack.enter_context(automatic_collection_off())
            stack.enter_context(parts.query_process)
            self._endpoints = endpoints = await self._bind(stack)
            self._cluster = cluster = new_cluster(
                parts.configuration, parts.origin.cluster_id, endpoints, socket.gethostname()
            )
            self._gate = self._start_authorizer(cluster)
            self._readiness = Readiness(
                parts.applier,
                self._gate,
                parts.origin.source,
                parts.authorizer,
                self._is_listening,
                parts.workers,
            )
            await trio.lowlevel.checkpoint()  # so that no step takes 2 ms
            servers, self._sources = new_servers(
                parts,
                cluster,
                self._gate,
                self._readiness,
                {name: endpoint.address for name, endpoint in endpoints.items()},
                self._activity,
            )
            self._servers = servers
            parts.settings.subscribe(partial(reconfigure_servers, servers))
            parts.settings.subscribe(self._apply_settings)
            signals = stack.enter_context(trio.open_signal_receiver(*SIGNALS))
            release_sighup()
            await run_stages(
                (self._auditing(), self._acting(), self._writing(), self._serving()),
                partial(self._wait_for_end, signals),
                self._forced_end.enter,
            )
            self._forced_end.enter("closing files")
        _logger.info("ended")

    def _auditing(self) -> Stage:
        """Return the stage that outlives all others: decisions are audited until the very end."""
        log = self._parts.audit_log
        if log is None:
            return Stage(name="writing audit lines")

        async def close(_: trio.CancelScope) -> None:
            log.close()

        return Stage(name="writing audit lines", awaited=(log.run,), end=close)

    def _acting(self) -> Stage:
        """Return the stage of the actors that apply what the update queue writes."""
        parts = self._parts
        return Stage(
            name="ending the actors",
            awaited=(
                parts.applier.run,
                self._gate.run,
                partial(self._service_manager.run, self._readiness),
            ),
            services=(
                collect_regularly,
                partial(renew_session_keys, parts.certificates),
                partial(
                    log_releases,
                    parts.applier.applied,
                    parts.applier.release,
                    is_own_log=parts.configuration.follow is None,
                ),
                *parts.origin.services,
                parts.query_process.relay,
                partial(self._run_query_process, parts.query_process),
                *(() if parts.workers is None else (parts.workers.relay,)),
            ),
        )

    def _writing(self) -> Stage:
        """Return the stage of the update queue; it ends when the accepted changes are applied."""
        parts = self._parts

        async def finish(scope: trio.CancelScope) -> None:
            parts.origin.updates.close()
            if parts.applier.snapshot.newest is None:  # nothing was loaded, so nothing was accepted
                scope.cancel()

        return Stage(
            name="writing accepted changes", awaited=(parts.origin.updates.run,), end=finish
        )

    def _serving(self) -> Stage:
        """Return the stage of the servers, the workers, and the task that loads the log."""
        workers = self._parts.workers

        async def drain(scope: trio.CancelScope) -> None:
            async with trio.open_nursery() as nursery:
                for server in self._servers.values():
                    nursery.start_soon(server.drain)
                if workers is not None:
                    nursery.start_soon(workers.drain)
            scope.cancel()

        return Stage(
            name="draining connections",
            services=(
                *(partial(self._serve, name) for name in self._servers),
                *(() if workers is None else (partial(self._run_workers, workers),)),
                *((self._note_activity,) if self._parts.configuration.console else ()),
                self._load,
            ),
            end=drain,
        )

    async def _wait_for_end(self, signals: AsyncIterator[int]) -> None:
        """Return when a signal ends the daemon; from then on, the shutdown has a time limit."""
        parts = self._parts
        handler = SignalHandler(parts.settings, self._service_manager, parts.workers)
        try:
            await handler.run(signals)
        finally:  # after a fault too
            self._forced_end.begin(self._end_seconds)
        self._service_manager.report_stopping()

    async def _bind(self, stack: ExitStack) -> dict[str, BoundEndpoint]:
        shared = DECISION_PORTS if self._parts.workers is not None else ()
        endpoints = await bind_all(self._parts.configuration, shared, self._inherited)
        for name, endpoint in endpoints.items():
            stack.callback(endpoint.close)
            _logger.info("%s: bound to %s", name, endpoint.address)
        return endpoints

    def _start_authorizer(self, cluster: Cluster) -> ListenerGate:
        parts = self._parts
        server_info = new_server_info(parts.configuration, cluster, self._endpoints)
        started = dict(parts.authorizer.start(server_info))
        if parts.workers is not None:
            started |= {name: parts.workers.opened for name in DECISION_PORTS if name in started}
        free = [name for name in HEALTH_PORTS if name in self._endpoints]
        return ListenerGate(started, free=free)

    @property
    def _end_seconds(self) -> int:
        """Return the shutdown's time limit: the sum for connections, workers and the rest."""
        waited_ms = self._drain_timeout_ms
        if self._parts.workers is not None:
            waited_ms += self._parts.configuration.worker_timeout_ms
        return math.ceil(waited_ms / 1000) + ENDING_SECONDS

    def _apply_settings(self, settings: Configuration) -> None:
        """Apply the settings that no other part applies."""
        parts = self._parts
        logging.getLogger().setLevel(settings.log_level)
        parts.purgatory.timeout_ms = settings.update_timeout_ms
        self._drain_timeout_ms = settings.http_drain_timeout_ms
        if parts.audit is not None:
            parts.audit.apply_settings(settings)
        if parts.workers is not None:
            parts.workers.drain_timeout_ms = settings.http_drain_timeout_ms
            parts.workers.apply_settings(parts.settings.layers.merge())

    async def _serve(self, name: str) -> None:
        await self._gate.wait_until_open(name)
        await self._servers[name].serve(self._endpoints[name].listen())

    def _is_listening(self) -> bool:
        return all(self._endpoints[name].is_listening for name in self._servers)

    async def _run_query_process(self, queries: QueryPool) -> None:
        await queries.run([], partial(start_query_process, queries.descriptor))

    async def _run_workers(self, workers: WorkerPool) -> None:
        ports = [name for name in DECISION_PORTS if name in self._endpoints]
        places = [self._endpoints[name].place(name) for name in ports]
        inherited = [descriptor for place in places for descriptor in place.descriptors]
        if self._workers_lock is not None:
            inherited.append(self._workers_lock)
        audit = self._parts.audit
        turns = None if audit is None else audit.turns.descriptor
        if turns is not None:
            inherited.append(turns)
        questions = self._parts.query_process.questions.fileno()
        inherited.append(questions)
        await workers.run(places, partial(start_worker, inherited), turns, questions)

    async def _note_activity(self) -> None:
        await self._activity.run(partial(read_totals, self._sources))

    async def _load(self) -> None:
        """Load the log, then report that the daemon is ready."""
        parts, started = self._parts, trio.current_time()
        loaded = await load_log(parts)
        if parts.workers is not None:
            for name in self._endpoints.keys() & DECISION_PORTS:
                self._endpoints[name].check_in_place()  # the workers listen there
        self._cluster.cluster_id = parts.origin.cluster_id  # it is known by now
        await self._gate.wait_until_all_open()
        for name in self._servers:
            await self._endpoints[name].wait_until_listening()
        report_log(parts.origin.source, parts.applier.snapshot.newest)
        _logger.info(
            "ready: %s at log offset %d, loaded in %.3f s",
            count_of(loaded.acls, "ACL"),
            loaded.offset,
            trio.current_time() - started,
        )
        if parts.configuration.console:
            scheme = "https" if parts.configuration.admin_http.is_tls else "http"
            address = self._endpoints[ADMIN_HTTP].address
            _logger.info("web console: %s://%s/console/", scheme, address)
        if self._ready_file is not None:
            ready = self._describe_endpoints(loaded.offset)
            await run_in_thread(write_ready_file, self._ready_file, ready)
        self._service_manager.report_ready()

    def _describe_endpoints(self, offset: int) -> ReadyFile:
        addresses = {name: endpoint.address for name, endpoint in self._endpoints.items()}
        kafka_names = [listener.listener_name for listener in self._parts.configuration.listeners]
        return ReadyFile(
            listeners={name: addresses[name] for name in kafka_names},
            decision_http=addresses[DECISION_HTTP],
            decision_stream=addresses.get(DECISION_STREAM),
            admin_http=addresses[ADMIN_HTTP],
            metrics_http=addresses.get(METRICS_HTTP),
            offset=offset,
        )


def run_daemon(
    configuration: Configuration,
    read_configuration: Callable[[], Configuration],
    properties: MetaProperties,
    ready_file: Path | None,
) -> None:
    """Run one daemon to its end; the caller holds the lock of its log directory."""
    switch_threads_soon()
    if ready_file is not None:
        remove_stale_ready_file(ready_file)
    inherited = take_inherited_sockets(os.environ)
    with (
        closing(ForcedEnd()) as forced_end,
        closing(ServiceManager(os.environ)) as service_manager,
        closing(DaemonServices(configuration, read_configuration, properties)) as parts,
        WorkersLock(Path(parts.configuration.metadata_log_dir)) as lock,
    ):
        lock.take()  # blocks while no port is open, so that a signal still ends the process
        daemon = Daemon(parts, ready_file, service_manager, inherited, forced_end, lock.descriptor)
        trio.run(daemon.run)
