"""What the metrics and the console's page of the load are read from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

from authorizerd.actors.audit_log import AuditLog
from authorizerd.actors.decider import DecidingAuthorizer, DecisionCounts
from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.actors.purgatory import Purgatory
from authorizerd.actors.record_applier import RecordApplier
from authorizerd.daemon.certificates import Certificates
from authorizerd.daemon.decisions.stream_server import StreamServer
from authorizerd.daemon.decisions.watchers import WatchStatistics
from authorizerd.daemon.endpoints import DECISION_HTTP, DECISION_STREAM
from authorizerd.daemon.http.server import HttpServer, HttpStatistics
from authorizerd.daemon.kafka.listener import KafkaListener
from authorizerd.daemon.kafka.request_latency import RequestTimes
from authorizerd.daemon.logging.setup import log_statistics
from authorizerd.daemon.net.connection_statistics import ConnectionStatistics
from authorizerd.daemon.origins.origin import Origin
from authorizerd.daemon.settings import ReloadStatistics
from authorizerd.daemon.workers.counters import WATCH, Counted
from authorizerd.daemon.workers.pool import WorkerPool

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Statistics = TypeVar("Statistics", bound="DataclassInstance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The parts of the daemon that the metrics are read from."""

    authorizer: DecidingAuthorizer
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
    workers: WorkerPool | None = None


def sum_decisions(measured: Measured) -> Mapping[str, DecisionCounts]:
    """Return the numbers of questions by surface, of all processes.

    Workers serve the decision ports. This process then counts the console's questions, and Kafka's.
    """
    own, workers = measured.authorizer.counts, measured.workers
    if workers is None:
        return own
    theirs, none = workers.sums().decisions, DecisionCounts()
    return {
        surface: _add(own.get(surface, none), theirs.get(surface, none))
        for surface in {**own, **theirs}
    }


def _add(own: Statistics, theirs: Statistics) -> Statistics:
    names = (field.name for field in fields(own))
    return type(own)(*(getattr(own, name) + getattr(theirs, name) for name in names))


def count_in_workers(
    measured: Measured, name: str, kind: type[ConnectionStatistics]
) -> Mapping[str, Counted]:
    """Return the sum of the workers' servers of this name; empty if there are no workers."""
    workers = measured.workers
    if workers is None or name not in measured.gate.endpoints:
        return {}
    return {name: workers.sums().server(kind, name)}


class Scrape:
    """What the metrics of one scrape are read from, at one moment."""

    def __init__(self, daemon: Measured) -> None:
        self.daemon = daemon
        self.workers = daemon.workers
        self.snapshot = daemon.applier.snapshot.newest
        self.release = daemon.applier.release.newest
        self.source = daemon.origin.source
        self.updates = daemon.origin.updates.statistics
        self.decisions = sum_decisions(daemon)
        self.servers: Mapping[str, Mapping[str, Counted]] = {
            "http": {
                **daemon.http_servers,
                **count_in_workers(daemon, DECISION_HTTP, HttpStatistics),
            },
            "kafka": daemon.kafka_listeners,
            "stream": {
                **daemon.stream_servers,
                **count_in_workers(daemon, DECISION_STREAM, ConnectionStatistics),
            },
        }
        self.audit = None if daemon.audit_log is None else daemon.audit_log.statistics
        self.watch = daemon.watch
        self.log_lines_dropped = log_statistics().lines_dropped
        if self.workers is not None:
            sums = self.workers.sums()
            self.watch = sums.statistics(WatchStatistics, WATCH)
            self.log_lines_dropped += sums.log.lines_dropped
            self.audit = self.audit and _add(self.audit, sums.audit)
