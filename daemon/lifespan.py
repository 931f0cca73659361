"""The daemon's life: bind, load, start writing, open, serve, drain.

State actors run in the outer nurseries, servers in the inner one. A signal first ends the servers,
which answer the requests under way; then the update queue, which writes the accepted changes; then
the audit log, which writes its queued lines. A fault anywhere ends everything. A shutdown that
takes too long is forced.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final

import trio

from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.config.configuration import Configuration, Reloadable
from authorizerd.daemon.audit.setup import Audit
from authorizerd.daemon.components import Parts
from authorizerd.daemon.endpoints import (
    ADMIN_HTTP,
    DECISION_HTTP,
    DECISION_PORTS,
    DECISION_STREAM,
    bind_all,
    new_cluster,
    new_server_info,
)
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.forced_end import ENDING_SECONDS, ForcedEnd
from authorizerd.daemon.gc_control import automatic_collection_off
from authorizerd.daemon.kafka.responses import Cluster
from authorizerd.daemon.net.binding import BoundEndpoint
from authorizerd.daemon.net.socket_activation import InheritedSockets, take_inherited_sockets
from authorizerd.daemon.reload_signal import release_reload_signal
from authorizerd.daemon.servers import Server, new_servers, reconfigure_servers
from authorizerd.daemon.telemetry.readiness import Readiness
from authorizerd.daemon.telemetry.ready_file import (
    ReadyFile,
    remove_stale_ready_file,
    write_ready_file,
)
from authorizerd.daemon.telemetry.systemd import ServiceManager
from authorizerd.daemon.workers.pool import WorkerPool
from authorizerd.daemon.workers.spawn import start_worker
from authorizerd.metadata.errors import CorruptLogError
from authorizerd.metadata.meta_properties import MetaProperties
from authorizerd.protocol.records.metadata import METADATA_VERSION_KNOWN

SWITCH_INTERVAL_S: Final = 0.0005
"""Maximum time that a worker thread may block the loop; Python's default of 5 ms is too long."""

RELOAD_SECONDS_MAX: Final = 30.0
"""Time limit of a reload: a file may be a pipe without a writer, or on a mount that hangs."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_logger = logging.getLogger("authorizerd")


class Daemon:
    """Run the daemon; call ``run`` once."""

    def __init__(
        self,
        parts: Parts,
        properties: MetaProperties,
        ready_file: Path | None,
        service_manager: ServiceManager,
        inherited: InheritedSockets,
        forced_end: ForcedEnd,
    ) -> None:
        self._forced_end = forced_end
        self._drain_timeout_ms = 0
        self._reload_asked = trio.Event()
        self._parts = parts
        self._properties = properties
        self._ready_file = ready_file
        self._service_manager = service_manager
        self._inherited = inherited

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain and return.

        Raises (in a group, if one of several tasks fails):
            StartError: an address is in use, or the ready file cannot be written.
            MetadataLogError, UnfitChangeError: the log is damaged or inconsistent.
            LogWriteError: the log cannot be written.
        """
        parts = self._parts
        async with AsyncExitStack() as stack:
            stack.enter_context(automatic_collection_off())
            endpoints = await self._bind(stack)
            cluster = new_cluster(
                parts.configuration, self._properties.cluster_id, endpoints, socket.gethostname()
            )
            gate = self._start_authorizer(cluster, endpoints)
            readiness = Readiness(
                parts.applier, gate, lambda: parts.log.source.high_watermark, parts.workers
            )
            servers = new_servers(parts, cluster, gate, readiness)
            reconfigure = partial(reconfigure_servers, servers, parts.configuration)
            parts.settings.follow(reconfigure)
            parts.settings.follow(self._follow)
            signals = stack.enter_context(trio.open_signal_receiver(*_SIGNALS))
            release_reload_signal()
            async with trio.open_nursery() as lasting:
                if parts.audit_log is not None:
                    await lasting.start(parts.audit_log.run)
                async with trio.open_nursery() as actors:
                    await actors.start(parts.applier.run)
                    await actors.start(gate.run)
                    await actors.start(self._service_manager.run, readiness)
                    actors.start_soon(parts.collector.run)
                    actors.start_soon(parts.checkpointer.run)
                    if parts.workers is not None:
                        actors.start_soon(parts.workers.relay)
                    async with trio.open_nursery() as writing:
                        await writing.start(parts.updates.run)
                        async with trio.open_nursery() as serving:
                            for name, server in servers.items():
                                serving.start_soon(_serve, server, endpoints[name], gate, name)
                            if parts.workers is not None:
                                serving.start_soon(
                                    _run_workers, parts.workers, endpoints, parts.audit
                                )
                            serving.start_soon(self._load, endpoints, gate, servers)
                            try:
                                await self._heed(signals)
                            finally:  # by a signal, or by a fault
                                self._forced_end.begin(self._end_seconds)
                            self._service_manager.report_stopping()
                            self._forced_end.phase = "draining connections"
                            await _drain(servers.values(), parts.workers)
                            serving.cancel_scope.cancel()
                        self._forced_end.phase = "writing accepted changes"
                        parts.updates.close()
                        if parts.applier.snapshot.newest is None:
                            writing.cancel_scope.cancel()
                    self._forced_end.phase = "ending the actors"
                    actors.cancel_scope.cancel()
                self._forced_end.phase = "writing audit lines"
                if parts.audit_log is not None:
                    parts.audit_log.close()
            self._forced_end.phase = "closing files"
        _logger.info("ended")

    async def _bind(self, stack: AsyncExitStack) -> dict[str, BoundEndpoint]:
        shared = DECISION_PORTS if self._parts.workers is not None else ()
        endpoints = await bind_all(self._parts.configuration, shared, self._inherited)
        for name, endpoint in endpoints.items():
            stack.callback(endpoint.close)
            _logger.info("%s: bound to %s", name, endpoint.address)
        return endpoints

    def _start_authorizer(
        self, cluster: Cluster, endpoints: Mapping[str, BoundEndpoint]
    ) -> ListenerGate:
        parts = self._parts
        server_info = new_server_info(parts.configuration, cluster, endpoints)
        started = dict(parts.authorizer.start(server_info))
        if parts.workers is not None:
            started |= {name: parts.workers.opened for name in DECISION_PORTS if name in started}
        return ListenerGate(started, free=(ADMIN_HTTP,))

    @property
    def _end_seconds(self) -> int:
        """Return the time limit of the end: for connections, for workers, and for the rest."""
        waited_ms = self._drain_timeout_ms
        if self._parts.workers is not None:
            waited_ms += self._parts.configuration.worker_timeout_ms
        return math.ceil(waited_ms / 1000) + ENDING_SECONDS

    async def _heed(self, signals: AsyncIterator[int]) -> None:
        """Reload at SIGHUP; return at SIGTERM or SIGINT, even while a reload hangs."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reload_when_asked)
            async for number in signals:
                if number != signal.SIGHUP:
                    _logger.info("%s: draining", signal.Signals(number).name)
                    break
                self._reload_asked.set()
            nursery.cancel_scope.cancel()

    async def _reload_when_asked(self) -> None:
        """Reload; requests that arrive during a reload cause one more reload in total."""
        while True:
            await self._reload_asked.wait()
            self._reload_asked = trio.Event()
            _logger.info("SIGHUP: reloading")
            with self._service_manager.reloading():
                with trio.move_on_after(RELOAD_SECONDS_MAX) as reading:
                    await self._parts.settings.reload()
                if reading.cancelled_caught:
                    reason = f"reading its files has taken more than {RELOAD_SECONDS_MAX:g} s"
                    _logger.error("the configuration is not reloaded: %s", reason)
                if self._parts.workers is not None:
                    await self._parts.workers.applied_everywhere()
                    _logger.info("every worker has the settings in force")

    def _follow(self, settings: Reloadable) -> None:
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

    async def _load(
        self,
        endpoints: Mapping[str, BoundEndpoint],
        gate: ListenerGate,
        served: Collection[str],
    ) -> None:
        """Load the log, then report that the daemon is ready."""
        parts, started = self._parts, trio.current_time()
        await self._read_log()
        snapshot = await parts.applier.snapshot.wait_until(lambda newest: newest is not None)
        assert snapshot is not None
        parts.settings.refresh()
        parts.standard.complete_initial_load()
        if parts.workers is not None:
            parts.workers.begin()
            await parts.workers.wait_until_complete()
        await gate.wait_until_wide_open()
        for name in served:
            await endpoints[name].wait_until_listening()
        self._report_log()
        _logger.info(
            "ready: %d ACLs at log offset %d, loaded in %.3f s",
            len(snapshot.acls),
            snapshot.offset,
            trio.current_time() - started,
        )
        if self._ready_file is not None:
            kafka_names = [each.listener_name for each in parts.configuration.listeners]
            ready = ReadyFile(
                listeners={name: endpoints[name].address for name in kafka_names},
                decision_http=endpoints[DECISION_HTTP].address,
                decision_stream=(
                    endpoints[DECISION_STREAM].address if DECISION_STREAM in endpoints else None
                ),
                admin_http=endpoints[ADMIN_HTTP].address,
                offset=snapshot.offset,
            )
            await trio.to_thread.run_sync(write_ready_file, self._ready_file, ready)
        self._service_manager.report_ready()

    async def _read_log(self) -> None:
        parts = self._parts
        try:
            await parts.log.source.run(parts.feed.clone())
        except OSError as error:
            log_dir = parts.configuration.metadata_log_dir
            fault = StartError(f"{error.filename or log_dir}: {error.strerror or error}")
            parts.standard.complete_initial_load(fault)
            raise fault from error
        except CorruptLogError as error:
            log_dir = parts.configuration.metadata_log_dir
            cure = f"run `authorizerd check-log {log_dir}`, then again with --repair"
            corrupt = StartError(f"{error}; {cure}")
            parts.standard.complete_initial_load(corrupt)
            raise corrupt from error
        except Exception as error:
            parts.standard.complete_initial_load(error)
            raise

    def _report_log(self) -> None:
        source = self._parts.log.source
        torn = source.torn_tail
        if torn is not None:
            _logger.warning(
                "%s: the last %d bytes, from byte %d, were an unfinished write and are cut off: %s",
                torn.path, torn.size, torn.position, torn.reason,
            )  # fmt: skip
        if source.metadata_version > METADATA_VERSION_KNOWN:
            _logger.warning(
                "metadata.version %d is above %d, the newest known: records of new kinds are "
                "passed over",
                source.metadata_version,
                METADATA_VERSION_KNOWN,
            )


async def _serve(server: Server, endpoint: BoundEndpoint, gate: ListenerGate, name: str) -> None:
    await gate.wait_until_open(name)
    await server.serve(endpoint.listen())


async def _run_workers(
    workers: WorkerPool, endpoints: Mapping[str, BoundEndpoint], audit: Audit | None
) -> None:
    places = [endpoints[name].place(name) for name in DECISION_PORTS if name in endpoints]
    inherited = [descriptor for place in places for descriptor in place.descriptors]
    turns = None if audit is None else audit.turns.descriptor
    if turns is not None:
        inherited.append(turns)
    await workers.run(places, partial(start_worker, inherited), turns)


async def _drain(servers: Iterable[Server], workers: WorkerPool | None) -> None:
    async with trio.open_nursery() as nursery:
        if workers is not None:
            nursery.start_soon(workers.drain)
        for server in servers:
            nursery.start_soon(server.drain)


def run_daemon(
    read_configuration: Callable[[], Configuration],
    properties: MetaProperties,
    ready_file: Path | None,
) -> None:
    """Run one daemon to its end; the caller holds the lock of its log directory."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    if ready_file is not None:
        remove_stale_ready_file(ready_file)
    inherited = take_inherited_sockets(os.environ)
    with (
        closing(ForcedEnd()) as forced_end,
        closing(ServiceManager(os.environ)) as service_manager,
        closing(Parts(read_configuration)) as parts,
    ):
        daemon = Daemon(parts, properties, ready_file, service_manager, inherited, forced_end)
        trio.run(daemon.run)
