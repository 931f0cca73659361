"""The parts of the daemon with metrics, and a reading of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

from authorizerd.actors.audit_log import AuditLog
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer, DecisionCounts
from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.actors.purgatory import Purgatory
from authorizerd.actors.record_applier import RecordApplier
from authorizerd.daemon.certificates import Certificates
from authorizerd.daemon.decisions.stream_server import StreamServer
from authorizerd.daemon.endpoints import DECISION_HTTP, DECISION_STREAM
from authorizerd.daemon.http.server import HttpServer
from authorizerd.daemon.kafka.listener import KafkaListener
from authorizerd.daemon.kafka.request_latency import RequestTimes
from authorizerd.daemon.logging.setup import log_statistics
from authorizerd.daemon.net.connection_server import ConnectionServer
from authorizerd.daemon.net.connection_statistics import ConnectionStatistics, HttpStatistics
from authorizerd.daemon.origins.origin import Origin
from authorizerd.daemon.queries.watchers import WatchStatistics
from authorizerd.daemon.settings import ReloadStatistics
from authorizerd.daemon.workers.counters import WATCH, Sums
from authorizerd.daemon.workers.pool import WorkerPool
from authorizerd.daemon.workers.query_pool import QueryPool

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Statistics = TypeVar("Statistics", bound="DataclassInstance")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSources:
    """The parts of the daemon that the metrics are read from."""

    authorizer: DaemonAuthorizer
    applier: RecordApplier
    origin: Origin
    gate: ListenerGate
    audit_log: AuditLog | None
    purgatory: Purgatory
    times: RequestTimes
    http_servers: Mapping[str, HttpServer]
    kafka_listeners: Mapping[str, KafkaListener]
    stream_servers: Mapping[str, StreamServer]
    certificates: Certificates
    reloads: ReloadStatistics
    watch: WatchStatistics
    is_ready: Callable[[], bool]
    query_process: QueryPool
    workers: WorkerPool | None = None


class Scrape:
    """The values of all metrics at one moment, of all processes.

    Attributes:
        decisions: the numbers of questions by surface. If workers serve the decision ports, this
            process counts only the console's and Kafka's questions.
        servers: the counters of the servers, by protocol and name.
    """

    def __init__(self, daemon: MetricSources) -> None:
        self.daemon = daemon
        self.workers = daemon.workers
        self.snapshot = daemon.applier.snapshot.newest
        self.release = daemon.applier.release.newest
        self.source = daemon.origin.source
        self.updates = daemon.origin.updates.statistics
        self.decisions = daemon.authorizer.counts
        self.servers: Mapping[str, dict[str, ConnectionStatistics]] = {
            "http": _statistics_of(daemon.http_servers),
            "kafka": _statistics_of(daemon.kafka_listeners),
            "stream": _statistics_of(daemon.stream_servers),
        }
        self.audit = None if daemon.audit_log is None else daemon.audit_log.statistics
        self.watch = daemon.watch
        self.log_lines_dropped = log_statistics().lines_dropped
        if self.workers is not None:
            self._add_workers(self.workers.sums())

    def _add_workers(self, sums: Sums) -> None:
        own, theirs, none = self.decisions, sums.decisions, DecisionCounts()
        self.decisions = {
            surface: _add(own.get(surface, none), theirs.get(surface, none))
            for surface in {**own, **theirs}
        }
        if DECISION_HTTP in self.daemon.gate.endpoints:
            self.servers["http"][DECISION_HTTP] = sums.statistics(HttpStatistics, DECISION_HTTP)
        if DECISION_STREAM in self.daemon.gate.endpoints:
            stream = sums.statistics(ConnectionStatistics, DECISION_STREAM)
            self.servers["stream"][DECISION_STREAM] = stream
        self.audit = self.audit and _add(self.audit, sums.audit)
        self.watch = sums.statistics(WatchStatistics, WATCH)
        self.log_lines_dropped += sums.log.lines_dropped


def _statistics_of(servers: Mapping[str, ConnectionServer]) -> dict[str, ConnectionStatistics]:
    return {name: server.statistics for name, server in servers.items()}


def _add(own: Statistics, theirs: Statistics) -> Statistics:
    names = (field.name for field in fields(own))
    return type(own)(*(getattr(own, name) + getattr(theirs, name) for name in names))
