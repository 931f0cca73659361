"""Prometheus metrics: plain integers of the actors and servers, collected at each scrape.

**Invariant:** the request path never touches prometheus_client; its counters cost more than a
decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from authorizerd.actors.audit_log import AuditLog, AuditStatistics
from authorizerd.actors.decider import Decider, DecisionCounts
from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.actors.purgatory import Purgatory
from authorizerd.actors.record_applier import RecordApplier
from authorizerd.actors.update_queue import UpdateQueue
from authorizerd.daemon.decisions.stream_server import StreamServer
from authorizerd.daemon.endpoints import DECISION_HTTP, DECISION_STREAM
from authorizerd.daemon.http.server import HttpServer, HttpStatistics
from authorizerd.daemon.kafka.listener import KafkaListener
from authorizerd.daemon.kafka.request_latency import RequestTimes
from authorizerd.daemon.logging.setup import log_statistics
from authorizerd.daemon.net.connection_server import ConnectionStatistics
from authorizerd.daemon.sources.own_log_reader import LocalLogSource
from authorizerd.daemon.sources.own_log_writer import Checkpointer
from authorizerd.daemon.workers.counters import Counted
from authorizerd.daemon.workers.pool import WorkerPool
from authorizerd.protocol.records.metadata import METADATA_VERSION_KNOWN

_ACCEPTS_FAILED: Final = "Connections that could not be accepted, for want of files or memory."
_REFUSED: Final = "Requests refused for want of time or of room: overload."
_LISTENER: Final = ["listener"]
_REASONS: Final = ("refused", "evicted", "timed_out", "broken")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The parts of the daemon that the metrics are read from."""

    authorizer: Decider
    applier: RecordApplier
    source: LocalLogSource
    gate: ListenerGate
    audit_log: AuditLog | None
    updates: UpdateQueue
    checkpointer: Checkpointer
    purgatory: Purgatory
    times: RequestTimes
    http_servers: Mapping[str, HttpServer]
    kafka_listeners: Mapping[str, KafkaListener]
    stream_servers: Mapping[str, StreamServer]
    workers: WorkerPool | None = None


class DaemonCollector(Collector):
    def __init__(self, measured: Measured) -> None:
        self._measured = measured

    def collect(self) -> Iterable[Metric]:
        measured = self._measured
        applier = measured.applier.statistics()
        yield _gauge(
            "authorizerd_acls",
            "ACLs in force, -1 until loaded (the AclCount of KIP-801).",
            measured.authorizer.acl_count(),
        )
        yield _gauge(
            "authorizerd_snapshot_offset",
            "Log offset up to which decisions know the metadata, -1 until loaded.",
            applier.offset,
        )
        yield _gauge(
            "authorizerd_high_watermark",
            "Last committed log offset that the source has read, -1 before the first.",
            measured.source.high_watermark,
        )
        yield _gauge(
            "authorizerd_metadata_version",
            "Level of the log's metadata.version, -1 where it names none.",
            measured.source.metadata_version,
        )
        yield _gauge(
            "authorizerd_metadata_version_known",
            "Highest level of metadata.version that this version knows.",
            METADATA_VERSION_KNOWN,
        )
        yield self._decisions()
        yield self._endpoints()
        yield from self._audit()
        yield from self._updates()
        yield from self._times()
        yield from self._connections()
        yield from self._workers()
        yield self._log()

    def _decisions(self) -> Metric:
        family = CounterMetricFamily(
            "authorizerd_decisions",
            "Questions put, by surface and by how they ended.",
            labels=["surface", "result"],
        )
        workers = self._measured.workers
        counts_of = dict(self._measured.authorizer.counts)
        if workers is not None:  # who decides on surfaces that this process does not have
            counts_of |= workers.sums().decisions
        for surface, counts in counts_of.items():
            for field in fields(DecisionCounts):
                family.add_metric([surface, field.name], getattr(counts, field.name))
        return family

    def _endpoints(self) -> Metric:
        family = GaugeMetricFamily(
            "authorizerd_endpoint_open",
            "Whether the endpoint is accepted from: 1 open, 0 waiting for the ACLs to be loaded.",
            labels=["listener"],
        )
        gate = self._measured.gate
        for endpoint in sorted(gate.endpoints):
            family.add_metric([endpoint], gate.is_open(endpoint))
        return family

    def _audit(self) -> Iterable[Metric]:
        audit_log = self._measured.audit_log
        if audit_log is None:
            return
        own, workers = audit_log.statistics, self._measured.workers
        beside = AuditStatistics() if workers is None else workers.sums().audit
        dropped = CounterMetricFamily(
            "authorizerd_audit_dropped",
            "Audit lines lost: the queue was full, or the output could not be written.",
            labels=["reason"],
        )
        dropped.add_metric(["queue"], own.dropped_queue + beside.dropped_queue)
        dropped.add_metric(["output"], own.dropped_output + beside.dropped_output)
        yield dropped
        yield _gauge(
            "authorizerd_audit_failing",
            "Processes that cannot write their audit lines now: 0 where all is well.",
            own.failing + beside.failing,
        )
        for name, help_text, value in (
            (
                "authorizerd_audit_written",
                "Audit lines handed to the output.",
                own.written + beside.written,
            ),
            (
                "authorizerd_audit_filtered",
                "Decisions not audited for their principal or resource.",
                own.filtered + beside.filtered,
            ),
            (
                "authorizerd_audit_sampled",
                "Allowed decisions not audited since only a share of them is.",
                own.sampled + beside.sampled,
            ),
        ):
            yield CounterMetricFamily(name, help_text, value)

    def _updates(self) -> Iterable[Metric]:
        measured = self._measured
        for name, help_text, value in (
            (
                "authorizerd_purgatory_size",
                "Items of creations and deletions that are waited for.",
                measured.purgatory.items_waiting,
            ),
            (
                "authorizerd_delayed_operations",
                "Requests of creations and deletions that wait for their items.",
                measured.purgatory.requests_waiting,
            ),
        ):
            family = GaugeMetricFamily(name, help_text, labels=["operation"])
            family.add_metric(["acl-update"], value)
            yield family
        updates, checkpoints = measured.updates.statistics, measured.checkpointer.statistics
        yield _gauge(
            "authorizerd_updates_waiting",
            "Requests that the update queue has accepted and not answered.",
            updates.requests_waiting,
        )
        for name, help_text, value in (
            ("authorizerd_log_flushes", "Appends to the log, each with one sync.", updates.flushes),
            (
                "authorizerd_log_batches",
                "Batches written to the log, one a request of changes.",
                updates.batches_written,
            ),
            ("authorizerd_checkpoints", "Checkpoints written.", checkpoints.written),
            (
                "authorizerd_checkpoint_failures",
                "Checkpoints that could not be written, to be tried again.",
                checkpoints.failures,
            ),
        ):
            yield CounterMetricFamily(name, help_text, value)

    def _times(self) -> Iterable[Metric]:
        times = self._measured.times
        for name, help_text, histograms in (
            (
                "authorizerd_request_local_seconds",
                "Kafka requests: the daemon's own time, in seconds (Kafka's LocalTimeMs).",
                times.local,
            ),
            (
                "authorizerd_request_remote_seconds",
                "Kafka requests: time waited in purgatory, in seconds (Kafka's RemoteTimeMs).",
                times.remote,
            ),
        ):
            family = HistogramMetricFamily(name, help_text, labels=["request"])
            for request, histogram in histograms.items():
                family.add_metric([request], histogram.buckets(), histogram.sum_s)
            yield family

    def _connections(self) -> Iterable[Metric]:
        """Yield each server's counters, with its name as the label ``listener``."""
        measured = self._measured
        yield from _seen_by(
            "http",
            {**measured.http_servers, **self._in_workers(DECISION_HTTP, HttpStatistics)},
            counters={
                "requests": "Whole requests received.",
                "requests_bad": "Requests refused unread: no HTTP, or too large.",
                "requests_failed": "Requests answered with 500: a fault of the daemon's own.",
                "requests_refused": _REFUSED,
            },
        )
        yield from _seen_by(
            "kafka",
            measured.kafka_listeners,
            counters={
                "requests": "Requests read.",
                "requests_refused": _REFUSED,
                "logins_failed": "Log-ins that failed, whatever for.",
            },
        )
        yield from _seen_by(
            "stream",
            {**measured.stream_servers, **self._in_workers(DECISION_STREAM, ConnectionStatistics)},
            counters={
                "requests": "Frames read, hellos among them.",
                "requests_refused": _REFUSED,
            },
        )

    def _in_workers(self, name: str, kind: type[Any]) -> Mapping[str, Counted]:
        """Return the workers' servers of a name, as one; empty if there are none."""
        workers = self._measured.workers
        if workers is None or name not in self._measured.gate.endpoints:
            return {}
        return {name: workers.sums().server(kind, name)}

    def _workers(self) -> Iterable[Metric]:
        workers = self._measured.workers
        if workers is None:
            return
        yield _gauge("authorizerd_workers", "Workers that listen.", workers.listening)
        yield _gauge(
            "authorizerd_workers_offset",
            "Lowest log offset up to which a worker knows the metadata, -1 where none listens.",
            workers.offset,
        )
        yield CounterMetricFamily(
            "authorizerd_worker_restarts",
            "Workers that had ended, or did not keep up, and were replaced.",
            workers.restarts,
        )

    def _log(self) -> Metric:
        dropped, workers = log_statistics().lines_dropped, self._measured.workers
        if workers is not None:
            dropped += workers.sums().log.lines_dropped
        return CounterMetricFamily(
            "authorizerd_log_lines_dropped",
            "Lines of the daemon's own log lost: standard error did not take them in time.",
            dropped,
        )


def _seen_by(
    kind: str,
    servers: Mapping[str, Counted],
    counters: Mapping[str, str],
) -> Iterable[Metric]:
    """Yield the counters of the servers of one kind.

    Args:
        counters: further counters by their names in ``statistics``, with their help texts.
    """
    connections = GaugeMetricFamily(
        f"authorizerd_{kind}_connections", "Connections open now.", labels=_LISTENER
    )
    ended = CounterMetricFamily(
        f"authorizerd_{kind}_connections_ended",
        "Connections refused for being too many, or ended: evicted for a newcomer, timed_out, or "
        "broken by what was sent on them or by a fault.",
        labels=[*_LISTENER, "reason"],
    )
    for name, server in servers.items():
        connections.add_metric([name], server.statistics.connections_open)
        for reason in _REASONS:
            ended.add_metric([name, reason], getattr(server.statistics, f"connections_{reason}"))
    yield from (connections, ended)
    for counter, help_text in {"accepts_failed": _ACCEPTS_FAILED, **counters}.items():
        family = CounterMetricFamily(f"authorizerd_{kind}_{counter}", help_text, labels=_LISTENER)
        for name, server in servers.items():
            family.add_metric([name], getattr(server.statistics, counter))
        yield family


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value)


def new_registry(measured: Measured) -> CollectorRegistry:
    """Return a registry of this daemon's metrics and of the process's own."""
    registry = CollectorRegistry()
    registry.register(DaemonCollector(measured))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
