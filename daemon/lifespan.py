"""The daemon's life: bind, load, begin to write, open, serve, drain.

State actors live in the outer nurseries, servers in the inner one. A signal ends the servers
first, each with the requests it has under way answered, then the update queue with what it
accepted, then the audit log with what is queued. A fault anywhere ends all.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import trio

from acl.model import ChangeBatch
from actors.listener_gate import ListenerGate
from actors.purgatory import Purgatory
from actors.record_applier import CaughtUp, RecordApplier
from actors.standard_authorizer import StandardAuthorizer
from config.bounds import connections_max
from config.configuration import Configuration, Reloadable
from daemon.admin import AdminHandler
from daemon.askers import Askers
from daemon.assembly import (
    ADMIN_HTTP,
    DECISION_HTTP,
    DECISION_STREAM,
    Log,
    bind_all,
    configure,
    new_cluster,
    new_decision_server,
    new_http_server,
    new_kafka_listener,
    new_server_info,
    new_stream_server,
    new_update_queue,
    new_worker_pool,
)
from daemon.audit import open_audit
from daemon.binding import BoundEndpoint
from daemon.decision_stream import StreamServer
from daemon.errors import StartError
from daemon.garbage import Collector, automatic_collection_off
from daemon.http_server import HttpServer
from daemon.inherited_sockets import InheritedSockets, take_inherited_sockets
from daemon.kafka_answers import Cluster
from daemon.kafka_handlers import KafkaHandlers
from daemon.kafka_listener import KafkaListener
from daemon.metrics import Measured, new_registry
from daemon.open_files import allow_open_files
from daemon.plug_in import choose_authorizer
from daemon.readiness import Readiness
from daemon.ready_file import ReadyFile, remove_stale_ready_file, write_ready_file
from daemon.request_times import RequestTimes
from daemon.service_manager import ServiceManager
from daemon.settings import Settings
from daemon.worker_pool import WorkerPool
from daemon.worker_process import start_worker
from metadata.meta_properties import MetaProperties
from metadata.storage import DISK
from protocol.http import LOOPBACK_HOSTS
from protocol.metadata_records import METADATA_VERSION_KNOWN

BATCHES_WAITING_MAX: Final = 16
SWITCH_INTERVAL_S: Final = 0.0005
"""How long a worker thread may keep the loop waiting; Python's own 5 ms is too long."""

DECISION_PORTS: Final = (DECISION_HTTP, DECISION_STREAM)

_ADMIN_REQUEST_BYTES_MAX: Final = 4096
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_logger = logging.getLogger("authorizerd")


class Server(Protocol):
    """What accepts connections."""

    async def serve(self, listeners: Sequence[trio.SocketListener]) -> None: ...

    async def drain(self) -> None: ...

    def reconfigure(self, settings: Reloadable) -> None: ...


class Daemon:
    """One run of the daemon; ``run`` once."""

    def __init__(
        self,
        read_configuration: Callable[[], Configuration],
        properties: MetaProperties,
        ready_file: Path | None,
        service_manager: ServiceManager,
        inherited: InheritedSockets,
    ) -> None:
        """Open the log and the audit file, and make the authorizer.

        Args:
            read_configuration: blocks; called again at each SIGHUP.

        Raises:
            MetadataLogError: there is no log.
            ConfigurationError: a line of the tokens file is no entry.
            StartError: the audit or tokens file or the authorizer cannot be used.
        """
        configuration = read_configuration()
        self._configuration = configuration
        self._properties = properties
        self._ready_file = ready_file
        self._service_manager = service_manager
        self._inherited = inherited
        self._log = Log(configuration, DISK)
        self._collector = Collector()
        feed, inbox = trio.open_memory_channel[ChangeBatch | CaughtUp](BATCHES_WAITING_MAX)
        self._applier = RecordApplier(inbox, settle=self._collector.settle)
        snapshot = self._applier.snapshot
        self._workers = new_worker_pool(configuration, feed, snapshot)
        self._feed = feed if self._workers is None else self._workers.feed
        self._kafka_names = [endpoint.listener_name for endpoint in configuration.listeners]
        self._audit = open_audit(configuration)
        self._audit_log = None if self._audit is None else self._audit.log
        self._updates = new_update_queue(
            configuration, self._log, self._feed, snapshot, self._applier.cluster, self._workers
        )
        self._checkpointer = self._log.new_checkpointer(snapshot, self._applier.cluster)
        self._standard = StandardAuthorizer(
            snapshot, audit_log=self._audit_log, now_s=time.time, updates=self._updates
        )
        self._authorizer = choose_authorizer(
            configuration.authorizer_class_name, self._standard, snapshot
        )
        for authorizer in dict.fromkeys((self._standard, self._authorizer)):
            configure(authorizer, configuration)
        self._settings = Settings(
            configuration, self._applier.cluster, self._authorizer, read=read_configuration
        )
        self._askers = Askers(self._authorizer, configuration.tokens_file)
        self._settings.follow_file(self._askers.read_anew)
        if self._audit is not None:
            self._settings.follow_file(self._audit.read_anew)
        if self._workers is not None:
            self._settings.follow_file(self._workers.read_anew)
        self._purgatory = Purgatory(configuration.reloadable.update_timeout_ms)
        self._times = RequestTimes()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain and return.

        Raises (in a group, where the fault is one of several tasks'):
            StartError: an address is in use, or the ready file cannot be written.
            MetadataLogError, UnfitChangeError: the log cannot be believed.
            LogWriteError: the log cannot be written.
        """
        async with AsyncExitStack() as stack:
            stack.enter_context(automatic_collection_off())
            endpoints = await self._bind(stack)
            cluster = new_cluster(
                self._configuration, self._properties.cluster_id, endpoints, socket.gethostname()
            )
            gate = self._start_authorizer(cluster, endpoints)
            readiness = Readiness(
                self._applier, gate, lambda: self._log.source.high_watermark, self._workers
            )
            servers = self._new_servers(cluster, gate, readiness)
            signals = stack.enter_context(trio.open_signal_receiver(*_SIGNALS))
            async with trio.open_nursery() as lasting:
                if self._audit_log is not None:
                    await lasting.start(self._audit_log.run)
                async with trio.open_nursery() as actors:
                    await actors.start(self._applier.run)
                    await actors.start(gate.run)
                    await actors.start(self._service_manager.keep_told, readiness)
                    actors.start_soon(self._collector.run)
                    actors.start_soon(self._checkpointer.run)
                    if self._workers is not None:
                        actors.start_soon(self._workers.relay)
                    async with trio.open_nursery() as writing:
                        await writing.start(self._updates.run)
                        async with trio.open_nursery() as serving:
                            for name, server in servers.items():
                                serving.start_soon(_serve, server, endpoints[name], gate, name)
                            if self._workers is not None:
                                serving.start_soon(_run_workers, self._workers, endpoints)
                            serving.start_soon(self._load, endpoints, gate, servers)
                            await self._heed(signals)
                            self._service_manager.tell_stopping()
                            await _drain(servers.values(), self._workers)
                            serving.cancel_scope.cancel()
                        self._updates.close()
                        if self._applier.snapshot.newest is None:
                            writing.cancel_scope.cancel()
                    actors.cancel_scope.cancel()
                if self._audit_log is not None:
                    self._audit_log.close()
        _logger.info("ended")

    async def _bind(self, stack: AsyncExitStack) -> dict[str, BoundEndpoint]:
        shared = DECISION_PORTS if self._workers is not None else ()
        endpoints = await bind_all(self._configuration, shared, self._inherited)
        for name, endpoint in endpoints.items():
            stack.callback(endpoint.close)
            _logger.info("%s: bound to %s", name, endpoint.address)
        return endpoints

    def _start_authorizer(
        self, cluster: Cluster, endpoints: Mapping[str, BoundEndpoint]
    ) -> ListenerGate:
        server_info = new_server_info(self._configuration, cluster, endpoints)
        started = dict(self._authorizer.start(server_info))
        if self._workers is not None:
            started |= {name: self._workers.opened for name in DECISION_PORTS if name in started}
        return ListenerGate(started, free=(ADMIN_HTTP,))

    def _new_servers(
        self, cluster: Cluster, gate: ListenerGate, readiness: Readiness
    ) -> dict[str, Server]:
        configuration = self._configuration
        handlers = KafkaHandlers(
            authorizer=self._authorizer,
            image=self._applier.cluster,
            purgatory=self._purgatory,
            cluster=cluster,
            leadership=lambda: self._log.leadership(self._applier.snapshot.newest),
            updates=self._updates,
            settings=self._settings,
            times=self._times,
        )
        kafka: dict[str, KafkaListener] = {
            endpoint.listener_name: new_kafka_listener(configuration, endpoint, handlers)
            for endpoint in configuration.listeners
        }
        http: dict[str, HttpServer] = {}
        streams: dict[str, StreamServer] = {}
        registry = new_registry(
            Measured(
                authorizer=self._authorizer,
                applier=self._applier,
                source=self._log.source,
                gate=gate,
                audit_log=self._audit_log,
                updates=self._updates,
                checkpointer=self._checkpointer,
                purgatory=self._purgatory,
                times=self._times,
                http_servers=http,
                kafka_listeners=kafka,
                stream_servers=streams,
                workers=self._workers,
            )
        )
        http[ADMIN_HTTP] = new_http_server(
            configuration,
            ADMIN_HTTP,
            AdminHandler(registry, readiness),
            _ADMIN_REQUEST_BYTES_MAX,
            math.inf,  # who looks why there is overload is answered
            LOOPBACK_HOSTS,
        )
        if self._workers is None:
            http[DECISION_HTTP] = new_decision_server(configuration, self._authorizer, self._askers)
            if configuration.decision_stream is not None:
                streams[DECISION_STREAM] = new_stream_server(
                    configuration, self._authorizer, self._askers
                )
        servers: dict[str, Server] = {**http, **kafka, **streams}
        for server in servers.values():
            self._settings.follow(server.reconfigure)
        self._settings.follow(self._follow)
        return servers

    async def _heed(self, signals: AsyncIterator[int]) -> None:
        """Reload at each SIGHUP; return at a signal to end."""
        async for number in signals:
            name = signal.Signals(number).name
            if number != signal.SIGHUP:
                _logger.info("%s: draining", name)
                return
            _logger.info("%s: reloading", name)
            with self._service_manager.reloading():
                await self._settings.reload()
                if self._workers is not None:
                    await self._workers.applied_everywhere()
                    _logger.info("every worker has the settings in force")

    def _follow(self, settings: Reloadable) -> None:
        """Take over what is nobody else's."""
        logging.getLogger().setLevel(settings.log_level)
        allow_open_files(connections_max(self._configuration, settings.max_connections))
        self._purgatory.timeout_ms = settings.update_timeout_ms
        if self._audit is not None:
            self._audit.take_settings(settings)
        if self._workers is not None:
            self._workers.drain_timeout_ms = settings.http_drain_timeout_ms
            self._workers.take_settings(self._settings.layers.in_force())

    def close(self) -> None:
        """Close the authorizer and the files; a log that is whole is marked so."""
        for authorizer in dict.fromkeys((self._authorizer, self._standard)):
            authorizer.close()
        try:
            self._log.writer.close()
        except OSError as error:
            _logger.warning("the clean shutdown could not be marked: %s", error)
        if self._audit is not None:
            self._audit.close()

    async def _load(
        self,
        endpoints: Mapping[str, BoundEndpoint],
        gate: ListenerGate,
        served: Collection[str],
    ) -> None:
        """Load the log, then say that the daemon is ready."""
        started = trio.current_time()
        await self._read_log()
        snapshot = await self._applier.snapshot.wait_until(lambda newest: newest is not None)
        assert snapshot is not None
        self._settings.refresh()
        self._standard.complete_initial_load()
        if self._workers is not None:
            self._workers.begin()
            await self._workers.wait_until_complete()
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
            ready = ReadyFile(
                listeners={name: endpoints[name].address for name in self._kafka_names},
                decision_http=endpoints[DECISION_HTTP].address,
                decision_stream=(
                    endpoints[DECISION_STREAM].address if DECISION_STREAM in endpoints else None
                ),
                admin_http=endpoints[ADMIN_HTTP].address,
                offset=snapshot.offset,
            )
            await trio.to_thread.run_sync(write_ready_file, self._ready_file, ready)
        self._service_manager.tell_ready()

    async def _read_log(self) -> None:
        try:
            await self._log.source.run(self._feed.clone())
        except OSError as error:
            log_dir = self._configuration.metadata_log_dir
            fault = StartError(f"{error.filename or log_dir}: {error.strerror or error}")
            self._standard.complete_initial_load(fault)
            raise fault from error
        except Exception as error:
            self._standard.complete_initial_load(error)
            raise

    def _report_log(self) -> None:
        source = self._log.source
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


async def _run_workers(workers: WorkerPool, endpoints: Mapping[str, BoundEndpoint]) -> None:
    places = [endpoints[name].place(name) for name in DECISION_PORTS if name in endpoints]
    inherited = [descriptor for place in places for descriptor in place.descriptors]
    await workers.run(places, partial(start_worker, inherited))


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
        closing(ServiceManager(os.environ)) as service_manager,
        closing(
            Daemon(read_configuration, properties, ready_file, service_manager, inherited)
        ) as daemon,
    ):
        trio.run(daemon.run)
