"""One worker: a process that makes decisions from the daemon's feed, and writes no log.

**Invariant:** a worker accepts connections only after the daemon's order. It ends at once if the
daemon ends or an order fails, because an answer from an old state is worse than no answer. Workers
ignore signals sent to them directly; the daemon passes on what they need.
"""

from __future__ import annotations

import logging
import math
import signal
import socket
from collections.abc import Mapping
from contextlib import closing, nullcontext
from functools import partial
from typing import Final

import trio

from authorizerd.actors.published_state import STALE
from authorizerd.actors.record_applier import BATCHES_WAITING_MAX, Message, RecordApplier
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.config.configuration import Configuration, parse_values
from authorizerd.config.values import UnknownRelease
from authorizerd.daemon.audit.setup import Audit, open_audit
from authorizerd.daemon.certificates import Certificates
from authorizerd.daemon.decision_servers import (
    end_identified,
    new_decision_handler,
    new_decision_server,
    new_stream_server,
    reconfigure_servers,
)
from authorizerd.daemon.decisions.callers import new_callers
from authorizerd.daemon.decisions.route_file import RouteFile
from authorizerd.daemon.decisions.stream_server import StreamServer
from authorizerd.daemon.endpoints import DECISION_HTTP, DECISION_STREAM
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.http.server import HttpServer
from authorizerd.daemon.logging.setup import log_statistics, set_log_format
from authorizerd.daemon.net.binding import listen_at
from authorizerd.daemon.process.gc_control import automatic_collection_off, collect_regularly
from authorizerd.daemon.process.stages import Stage, run_stages
from authorizerd.daemon.process.thread_switching import switch_threads_soon
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.daemon.queries.client import QueryClient
from authorizerd.daemon.queries.watchers import new_watchers
from authorizerd.daemon.releases import new_judge
from authorizerd.daemon.session_keys import renew_session_keys
from authorizerd.daemon.workers.counters import collect_counters
from authorizerd.daemon.workers.feed_source import SILENT, FeedSource, WorkerActions
from authorizerd.daemon.workers.spawn import FEED_FLAG
from authorizerd.protocol.worker_feed import (
    Files,
    Stores,
    WorkerAddress,
)

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SOURCE: Final = "the daemon's configuration"


def run_worker(feed_descriptor: int) -> None:
    """Run one worker to its end.

    Args:
        feed_descriptor: the descriptor of this end of the feed, a socket.

    Raises:
        StartError: the descriptor is not a socket.
        ConfigurationError, StartError, UnfitChangeError (in a group): see ``Worker.run``.
    """
    # A terminal or a service manager may signal all processes, but a worker drains only on the
    # daemon's order.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    switch_threads_soon()
    trio.run(_open_feed, feed_descriptor)


async def _open_feed(descriptor: int) -> None:
    try:
        feed = trio.socket.socket(fileno=descriptor)
    except OSError as error:
        reason = f"{error.strerror}; only the daemon starts workers"
        raise StartError(f"{FEED_FLAG}: {descriptor}: {reason}") from error
    await follow_feed(trio.SocketStream(feed))


async def follow_feed(stream: trio.abc.Stream) -> None:
    """Run the worker that is ordered through ``stream``, and close it at the end."""
    async with stream:
        source = FeedSource(stream)
        begin = await source.begin()
        if begin is None:
            return
        configuration = parse_values(begin.configuration, source=_SOURCE)
        set_log_format(configuration.log_format)
        audit = open_audit(configuration, begin.audit_secret, begin.audit_turns)
        with nullcontext() if audit is None else closing(audit):
            assert begin.questions is not None, "a worker has a socket to the query process"
            questions = socket.fromfd(begin.questions, socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with questions:
                worker = Worker(configuration, begin.places, audit, questions, begin.stores)
                await worker.run(source)


class Worker(WorkerActions):
    """Makes decisions and serves the decision ports, on the daemon's orders.

    Args:
        places: where to accept connections once the daemon orders it.
        stores: the certificates of the decision ports, or None without TLS.
        questions: the socket for questions to the query process.
    """

    def __init__(
        self,
        configuration: Configuration,
        places: tuple[WorkerAddress, ...],
        audit: Audit | None,
        questions: socket.socket,
        stores: Stores | None = None,
    ) -> None:
        self._configuration = configuration
        self._places = places
        self._feed, inbox = trio.open_memory_channel[Message](BATCHES_WAITING_MAX)
        self._watchers = new_watchers(configuration, serves=True)
        self._applier = RecordApplier(
            inbox,
            journal=self._watchers.journal,
            judge=new_judge(configuration),
            stops_if_newer=configuration.kafka_release_unknown is UnknownRelease.STOP,
            deadline=-math.inf,
            why_expired=SILENT if configuration.follow is None else STALE,
        )
        self._audit = audit
        self._audit_log = None if audit is None else audit.log
        self._audited = trio.Event()
        self._authorizer = StandardAuthorizer(
            self._applier.snapshot,
            auditor=None if audit is None else audit.auditor,
            why_no_snapshot=lambda: self._applier.not_ready_reason,
        )
        self._callers = new_callers(configuration)
        self._routes = RouteFile(configuration.routes_file)
        self._certificates = Certificates(configuration)
        self._certificates.on_client_auth(self._callers.require_credentials)
        self._certificates.prepare_stores(stores)()
        own_tls = self._certificates.own_ports
        self._servers: dict[str, HttpServer | StreamServer] = {
            DECISION_HTTP: new_decision_server(
                configuration,
                self._callers,
                own_tls,
                new_decision_handler(
                    configuration,
                    self._authorizer,
                    self._callers,
                    self._watchers,
                    QueryClient(questions, configuration.search_timeout_ms),
                    self._routes,
                ),
            )
        }
        if configuration.decision_stream is not None:
            self._servers[DECISION_STREAM] = new_stream_server(
                configuration, self._authorizer, self._callers, own_tls
            )
        self._certificates.on_lost_trust(partial(end_identified, self._servers.values()))
        self._serving: trio.Nursery

    async def run(self, source: FeedSource) -> None:
        """Carry out the daemon's orders until it orders a drain, or ends.

        Raises (in a group):
            StartError, ConfigurationError: an order cannot be carried out.
            UnfitChangeError, DecodeError: the feed is invalid.
        """
        auditing = Stage(
            name="writing audit lines", services=(self._run_audit,), end=lambda _: self._end_audit()
        )
        acting = Stage(
            name="ending the actors",
            awaited=(self._applier.run,),
            services=(collect_regularly, partial(renew_session_keys, self._certificates)),
        )
        with automatic_collection_off():
            await run_stages((auditing, acting), partial(self._obey, source))

    async def _obey(self, source: FeedSource) -> None:
        async with trio.open_nursery() as self._serving:
            await source.run(
                self._feed,
                self._applier.applied,
                self,
            )
            self._serving.cancel_scope.cancel()

    async def _run_audit(self) -> None:
        if self._audit_log is not None:
            await self._audit_log.run()
        self._audited.set()

    async def _end_audit(self) -> None:
        """Return when the queued audit lines are written."""
        if self._audit_log is not None:
            self._audit_log.close()
        await self._audited.wait()

    # Each method below carries out one order; see ``WorkerActions``.

    def apply_settings(self, texts: Mapping[str, str]) -> None:
        self._authorizer.reconfigure(texts)
        settings = self._configuration.reload(texts)
        self._callers.reconfigure(settings)
        reconfigure_servers(self._servers, settings)
        logging.getLogger().setLevel(settings.log_level)
        if self._audit is not None:
            self._audit.apply_settings(settings)

    async def apply_files(self, files: Files) -> None:
        # In a thread, because a long file would block decisions.
        apply_tokens = await run_in_thread(self._callers.parse, files.tokens)
        apply_routes = await run_in_thread(self._routes.parse, files.routes)
        apply_stores = await run_in_thread(self._certificates.prepare_stores, files.stores)
        apply_tokens()
        apply_routes()
        apply_stores()
        if self._audit is not None:
            self._audit.use_secret(files.audit_secret)

    async def listen(self) -> None:
        for place in self._places:
            server = self._servers[place.name]
            self._serving.start_soon(server.serve, await listen_at(place))

    async def drain(self) -> None:
        async with trio.open_nursery() as nursery:
            for server in self._servers.values():
                nursery.start_soon(server.drain)
        # Do this last, since draining servers still produce audit lines.
        await self._end_audit()

    def counters(self) -> dict[str, int]:
        audit = None if self._audit_log is None else self._audit_log.statistics
        return collect_counters(
            self._authorizer.counts,
            {name: server.statistics for name, server in self._servers.items()},
            audit,
            log_statistics(),
            self._watchers.statistics,
        )
