"""The daemon's life: bind, load, open, serve, drain.

State actors live in the outer nursery, servers in the inner one. A signal ends the servers first,
each with the requests it has under way answered, then what they asked; a fault anywhere ends all.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from acl.decision import AuthorizerSettings
from acl.model import ChangeBatch
from actors.audit_log import AuditLog
from actors.listener_gate import ListenerGate
from actors.published import Published
from actors.record_applier import CaughtUp, RecordApplier
from actors.standard_authorizer import StandardAuthorizer
from config.configuration import Configuration
from daemon.admin import AdminHandler
from daemon.audit_file import FORMATS, AuditFile
from daemon.authzen import AuthZenHandler
from daemon.binding import BoundEndpoint, bind
from daemon.errors import StartError
from daemon.http_server import Handler, HttpServer
from daemon.log_source import LocalLogSource
from daemon.metrics import Measured, new_registry
from metadata.log import MetadataLog
from protocol.authzen import Vocabulary
from protocol.http import LOOPBACK_HOSTS, HttpLimits
from protocol.metadata_records import METADATA_VERSION_KNOWN

DECISION_HTTP: Final = "decision_http"
ADMIN_HTTP: Final = "admin_http"
BATCHES_WAITING_MAX: Final = 16
_ADMIN_REQUEST_BYTES_MAX: Final = 4096

_logger = logging.getLogger("authorizerd")


class ReadyFile(msgspec.Struct, frozen=True):
    """What ``--ready-file`` gets once the ACLs are loaded: addresses as ``host:port``."""

    listeners: Mapping[str, str]
    decision_http: str
    admin_http: str
    offset: int


class Daemon:
    """One run of the daemon; ``run`` once."""

    def __init__(self, configuration: Configuration, ready_file: Path | None) -> None:
        """Open the log and the audit file.

        Raises:
            MetadataLogError: there is no log.
            StartError: the audit file cannot be opened.
        """
        self._configuration = configuration
        self._ready_file = ready_file
        reloadable = configuration.reloadable
        self._source = LocalLogSource(MetadataLog.open(Path(configuration.metadata_log_dir)))
        self._feed, inbox = trio.open_memory_channel[ChangeBatch | CaughtUp](BATCHES_WAITING_MAX)
        self._applier = RecordApplier(inbox)
        self._gate = ListenerGate(
            (DECISION_HTTP, ADMIN_HTTP), early=(ADMIN_HTTP,), snapshot=self._applier.snapshot
        )
        self._audit_file = _open_audit_file(configuration.audit_log)
        self._audit_log = self._new_audit_log()
        self._authorizer = StandardAuthorizer(
            self._applier.snapshot,
            Published(
                AuthorizerSettings(
                    super_users=reloadable.super_users,
                    allow_everyone_if_no_acl_found=reloadable.allow_everyone_if_no_acl_found,
                )
            ),
            audit_log=self._audit_log,
            now_s=time.time,
        )
        self._servers = self._new_servers()

    def _new_audit_log(self) -> AuditLog | None:
        if self._audit_file is None:
            return None
        configuration = self._configuration
        return AuditLog(
            self._audit_file,
            level=configuration.reloadable.audit_level,
            format_event=FORMATS[configuration.audit_format],
            events_max=configuration.audit_queue_max,
            on_failure=partial(_logger.error, "audit log %s: %s", configuration.audit_log),
        )

    def _new_servers(self) -> dict[str, HttpServer]:
        configuration = self._configuration
        servers: dict[str, HttpServer] = {}
        registry = new_registry(
            Measured(
                authorizer=self._authorizer,
                applier=self._applier,
                source=self._source,
                gate=self._gate,
                audit_log=self._audit_log,
                servers=servers,
            )
        )
        vocabulary = Vocabulary(
            configuration.authzen_subject_types, configuration.authzen_resource_types
        )
        servers[DECISION_HTTP] = self._new_server(
            DECISION_HTTP,
            AuthZenHandler(self._authorizer, vocabulary),
            configuration.http_request_max_bytes,
        )
        servers[ADMIN_HTTP] = self._new_server(
            ADMIN_HTTP,
            AdminHandler(registry, self._applier, lambda: self._source.high_watermark),
            _ADMIN_REQUEST_BYTES_MAX,
        )
        return servers

    def _new_server(self, name: str, handler: Handler, body_bytes_max: int) -> HttpServer:
        configuration = self._configuration
        allowed_hosts: re.Pattern[bytes] = LOOPBACK_HOSTS
        return HttpServer(
            name=name,
            handler=handler,
            limits=HttpLimits(body_bytes_max=body_bytes_max),
            max_connections=configuration.max_connections,
            header_timeout_ms=configuration.http_header_timeout_ms,
            idle_timeout_ms=configuration.connections_max_idle_ms,
            drain_timeout_ms=configuration.http_drain_timeout_ms,
            allowed_hosts=allowed_hosts,
        )

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain and return.

        Raises (in a group, where the fault is one of several tasks'):
            StartError: an address is in use, or the ready file cannot be written.
            MetadataLogError, UnfitChangeError: the log cannot be believed.
        """
        async with AsyncExitStack() as stack:
            endpoints = await self._bind(stack)
            signals = stack.enter_context(trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT))
            async with trio.open_nursery() as lasting:
                if self._audit_log is not None:
                    await lasting.start(self._audit_log.run)
                async with trio.open_nursery() as actors:
                    await actors.start(self._applier.run)
                    await actors.start(self._gate.run)
                    async with trio.open_nursery() as servers:
                        for name, server in self._servers.items():
                            servers.start_soon(self._serve, name, server, endpoints[name])
                        servers.start_soon(self._load, endpoints)
                        number = await anext(aiter(signals))
                        _logger.info("%s: draining", signal.Signals(number).name)
                        await self._drain()
                        servers.cancel_scope.cancel()
                    actors.cancel_scope.cancel()
                if self._audit_log is not None:
                    self._audit_log.close()
        _logger.info("ended")

    async def _bind(self, stack: AsyncExitStack) -> dict[str, BoundEndpoint]:
        configuration = self._configuration
        endpoints: dict[str, BoundEndpoint] = {}
        for name, endpoint, key in (
            (DECISION_HTTP, configuration.decision_http, "authorizerd.decision.http"),
            (ADMIN_HTTP, configuration.admin_http, "authorizerd.admin.http"),
        ):
            endpoints[name] = await bind(endpoint, key)
            stack.callback(endpoints[name].close)
            _logger.info("%s: bound to %s", name, endpoints[name].address)
        return endpoints

    async def _drain(self) -> None:
        async with trio.open_nursery() as nursery:
            for server in self._servers.values():
                nursery.start_soon(server.drain)

    def close(self) -> None:
        if self._audit_file is not None:
            self._audit_file.close()

    async def _serve(self, name: str, server: HttpServer, endpoint: BoundEndpoint) -> None:
        await self._gate.wait_until_open(name)
        await server.serve(endpoint.listen())

    async def _load(self, endpoints: Mapping[str, BoundEndpoint]) -> None:
        """Load the log with the garbage collector at rest, then say that the daemon is ready."""
        started = trio.current_time()
        gc.disable()
        try:
            await self._source.run(self._feed)
            snapshot = await self._applier.snapshot.wait_until(lambda newest: newest is not None)
        finally:
            gc.freeze()
            gc.enable()
        assert snapshot is not None
        await self._gate.wait_until_open(DECISION_HTTP)
        self._report_log()
        _logger.info(
            "ready: %d ACLs at log offset %d, loaded in %.3f s",
            len(snapshot.acls),
            snapshot.offset,
            trio.current_time() - started,
        )
        if self._ready_file is not None:
            ready = ReadyFile(
                listeners={},
                decision_http=endpoints[DECISION_HTTP].address,
                admin_http=endpoints[ADMIN_HTTP].address,
                offset=snapshot.offset,
            )
            await trio.to_thread.run_sync(_write_ready_file, self._ready_file, ready)

    def _report_log(self) -> None:
        torn = self._source.torn_tail
        if torn is not None:
            _logger.warning(
                "%s: the last %d bytes, from byte %d, are an unfinished write and do not count: %s",
                torn.path, torn.size, torn.position, torn.reason,
            )  # fmt: skip
        if self._source.metadata_version > METADATA_VERSION_KNOWN:
            _logger.warning(
                "metadata.version %d is above %d, the newest known: records of new kinds are "
                "passed over",
                self._source.metadata_version,
                METADATA_VERSION_KNOWN,
            )


def _open_audit_file(path: str | None) -> AuditFile | None:
    if path is None:
        return None
    try:
        return AuditFile(path)
    except OSError as error:
        raise StartError(f"authorizerd.audit.log: {path}: {error.strerror or error}") from error


def _write_ready_file(path: Path, ready: ReadyFile) -> None:
    """Write the file aside and move it into place, so that a reader never sees half of it."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        aside.write_bytes(msgspec.json.encode(ready) + b"\n")
        aside.replace(path)
    except OSError as error:
        raise StartError(f"--ready-file: {path}: {error.strerror or error}") from error


def run_daemon(configuration: Configuration, ready_file: Path | None) -> None:
    """Run one daemon to its end; the caller holds the lock of its log directory."""
    with closing(Daemon(configuration, ready_file)) as daemon:
        trio.run(daemon.run)
