"""Prometheus metrics: plain integers of the actors and servers, collected at each scrape.

**Invariant:** only a scrape touches prometheus_client, because its counters cost more than a
decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Final

import trio
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from authorizerd.acl.explanation.failing_acls import count_failing
from authorizerd.acl.release_in_force import ReleaseInForce
from authorizerd.acl.releases import Release
from authorizerd.actors.audit_log import AuditLog, AuditStatistics
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
from authorizerd.daemon.telemetry.build import read_build, read_version
from authorizerd.daemon.telemetry.login_metrics import login_metrics
from authorizerd.daemon.telemetry.source_metrics import change_metrics, source_metrics
from authorizerd.daemon.telemetry.watch_metrics import watch_metrics
from authorizerd.daemon.workers.counters import Counted
from authorizerd.daemon.workers.pool import WorkerPool
from authorizerd.image.features import METADATA_VERSION_KNOWN

_ACCEPTS_FAILED: Final = (
    "Failed attempts to accept a connection, usually for lack of file descriptors or memory."
)
_REFUSED: Final = "Requests refused because of overload or the memory limit."
_LISTENER: Final = ["listener"]
_REASONS: Final = ("refused", "evicted", "timed_out", "expired", "broken")
_OF_ALL_SERVERS: Final = {
    "accepts_failed": _ACCEPTS_FAILED,
    "connections_never_established": (
        "Connections that timed out before a log-in (including the TLS handshake), a hello or an"
        " answered request."
    ),
    "handshakes": "TLS handshakes that succeeded.",
    "handshakes_failed": "TLS handshakes that failed, for any reason.",
}


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
    theirs = workers.sums().decisions
    none = DecisionCounts()
    return {
        surface: DecisionCounts(
            *(
                getattr(own.get(surface, none), field.name)
                + getattr(theirs.get(surface, none), field.name)
                for field in fields(DecisionCounts)
            )
        )
        for surface in {**own, **theirs}
    }


def count_in_workers(
    measured: Measured, name: str, kind: type[ConnectionStatistics]
) -> Mapping[str, Counted]:
    """Return the sum of the workers' servers of this name; empty if there are no workers."""
    workers = measured.workers
    if workers is None or name not in measured.gate.endpoints:
        return {}
    return {name: workers.sums().server(kind, name)}


def _release_metrics(release: ReleaseInForce) -> Iterable[Metric]:
    family = GaugeMetricFamily(
        "authorizerd_kafka_release",
        "1 for a Kafka release whose rules are in force; for several while they are mixed.",
        labels=["release"],
    )
    for each in Release:
        family.add_metric([each], each in release.rules.releases)
    yield family
    yield _gauge(
        "authorizerd_kafka_release_newer",
        "1 while a Kafka release is in use that is newer than those tested, else 0.",
        bool(release.newer),
    )


class DaemonCollector(Collector):
    """Read the parts' counters at each scrape, and name them as metrics."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self._build = {"version": read_version(), "build": read_build()}

    def collect(self) -> Iterable[Metric]:
        measured = self._measured
        applier = measured.applier.statistics()
        yield InfoMetricFamily(
            "authorizerd_build", "Version of the daemon, and a hash of its modules.", self._build
        )
        yield _gauge(
            "authorizerd_ready", "1 while `/readyz` says ready, else 0.", measured.is_ready()
        )
        yield _gauge(
            "authorizerd_acls",
            "Number of ACLs in force, -1 until they are loaded (AclCount of KIP-801).",
            measured.authorizer.acl_count(),
        )
        snapshot = measured.applier.snapshot.newest
        yield _gauge(
            "authorizerd_acls_failing",
            "Number of ACLs that Kafka cannot judge, because their principal has no colon.",
            0 if snapshot is None else count_failing(snapshot),
        )
        yield _gauge(
            "authorizerd_snapshot_offset",
            "Log offset of the ACLs that decisions use, -1 until they are loaded.",
            applier.offset,
        )
        yield _gauge(
            "authorizerd_high_watermark",
            "Last committed log offset that the daemon has read, -1 before the first.",
            measured.origin.source.high_watermark,
        )
        yield _gauge(
            "authorizerd_metadata_version",
            "Level of metadata.version in the log, -1 if the log does not set it.",
            measured.origin.source.metadata_version,
        )
        yield _gauge(
            "authorizerd_metadata_version_known",
            "Highest level of metadata.version that this version of the daemon supports.",
            METADATA_VERSION_KNOWN,
        )
        yield from _release_metrics(measured.applier.release.newest)
        status = measured.origin.source.status
        if status is not None:
            applied = measured.applier.applied.newest
            yield from source_metrics(status, -1 if applied is None else applied.offset)
            yield from change_metrics(measured.origin.updates.statistics)
        yield self._decisions()
        yield self._endpoints()
        yield from self._audit()
        yield from self._updates()
        yield from self._times()
        yield from self._connections()
        yield from watch_metrics(measured.watch, measured.workers)
        yield from self._workers()
        yield self._certificates()
        yield from self._reloads()
        yield self._log()
        yield _gauge(
            "authorizerd_tasks",
            "Tasks of the event loop, in the daemon's own process.",
            trio.lowlevel.current_statistics().tasks_living,
        )

    def _decisions(self) -> Metric:
        family = CounterMetricFamily(
            "authorizerd_decisions",
            "Questions asked, by surface and result.",
            labels=["surface", "result"],
        )
        for surface, counts in sum_decisions(self._measured).items():
            for field in fields(DecisionCounts):
                family.add_metric([surface, field.name], getattr(counts, field.name))
        return family

    def _endpoints(self) -> Metric:
        family = GaugeMetricFamily(
            "authorizerd_endpoint_open",
            "1 if the endpoint accepts connections, 0 while it waits for the ACLs to load.",
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
        others = AuditStatistics() if workers is None else workers.sums().audit
        dropped = CounterMetricFamily(
            "authorizerd_audit_dropped",
            "Audit lines lost because the queue was full or the output could not be written.",
            labels=["reason"],
        )
        dropped.add_metric(["queue"], own.dropped_queue + others.dropped_queue)
        dropped.add_metric(["output"], own.dropped_output + others.dropped_output)
        yield dropped
        yield _gauge(
            "authorizerd_audit_failing",
            "Processes that currently cannot write their audit lines.",
            own.failing + others.failing,
        )
        for name, help_text, value in (
            (
                "authorizerd_audit_written",
                "Audit lines written to the output.",
                own.written + others.written,
            ),
            (
                "authorizerd_audit_filtered",
                "Decisions not audited because a filter excludes their principal or resource.",
                own.filtered + others.filtered,
            ),
            (
                "authorizerd_audit_sampled",
                "Allowed decisions not audited because of sampling.",
                own.sampled + others.sampled,
            ),
        ):
            yield CounterMetricFamily(name, help_text, value)

    def _updates(self) -> Iterable[Metric]:
        measured = self._measured
        for name in ("authorizerd_purgatory_size", "authorizerd_delayed_operations"):
            help_text = "Creation and deletion requests that wait for their items to finish."
            family = GaugeMetricFamily(name, help_text, labels=["operation"])
            family.add_metric(["acl-update"], measured.purgatory.requests_waiting)
            yield family
        updates, checkpoints = measured.origin.updates.statistics, measured.origin.checkpoints
        yield _gauge(
            "authorizerd_updates_waiting",
            "Requests that the update queue has accepted but not answered.",
            updates.requests_waiting,
        )
        for name, help_text, value in (
            (
                "authorizerd_updates_timed_out",
                "Creation and deletion requests answered after authorizerd.update.timeout.ms,"
                " before their items finished.",
                measured.purgatory.requests_timed_out,
            ),
            (
                "authorizerd_log_flushes",
                "Appends to the log; each one includes one sync.",
                updates.flushes,
            ),
            (
                "authorizerd_log_batches",
                "Batches written to the log; each change request is one batch.",
                updates.batches_written,
            ),
            ("authorizerd_checkpoints", "Checkpoints written.", checkpoints.written),
            (
                "authorizerd_checkpoint_failures",
                "Failed attempts to write a checkpoint; the daemon retries.",
                checkpoints.failures,
            ),
        ):
            yield CounterMetricFamily(name, help_text, value)

    def _times(self) -> Iterable[Metric]:
        times = self._measured.times
        for name, help_text, histograms in (
            (
                "authorizerd_request_local_seconds",
                "Kafka requests: processing time in the daemon, in seconds (Kafka's LocalTimeMs).",
                times.local,
            ),
            (
                "authorizerd_request_remote_seconds",
                "Kafka requests: waiting time in purgatory, in seconds (Kafka's RemoteTimeMs).",
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
        yield from _server_metrics(
            "http",
            {**measured.http_servers, **count_in_workers(measured, DECISION_HTTP, HttpStatistics)},
            counters={
                "requests": "Complete requests received.",
                "requests_bad": "Requests rejected because they are invalid HTTP or too large.",
                "requests_failed": "Requests answered with status 500: an internal error.",
                "requests_refused": _REFUSED,
            },
        )
        yield from _server_metrics(
            "kafka",
            measured.kafka_listeners,
            counters={
                "requests": "Requests received.",
                "requests_refused": _REFUSED,
                "logins_failed": "Failed log-ins, for any reason.",
                "accepts_delayed": "Connections delayed by max.connection.creation.rate.",
                "accept_delay_seconds": (
                    "Time by which max.connection.creation.rate delayed connections, in seconds."
                ),
            },
        )
        yield from login_metrics(measured.kafka_listeners)
        yield from _server_metrics(
            "stream",
            {
                **measured.stream_servers,
                **count_in_workers(measured, DECISION_STREAM, ConnectionStatistics),
            },
            counters={
                "requests": "Frames received, including hellos.",
                "requests_refused": _REFUSED,
            },
        )

    def _workers(self) -> Iterable[Metric]:
        workers = self._measured.workers
        if workers is None:
            return
        yield _gauge("authorizerd_workers", "Workers that accept connections.", workers.listening)
        yield _gauge(
            "authorizerd_workers_offset",
            "Lowest log offset that all workers have applied, -1 if none accepts connections.",
            workers.offset,
        )
        yield CounterMetricFamily(
            "authorizerd_worker_restarts",
            "Workers replaced because they ended or fell behind.",
            workers.restarts,
        )

    def _certificates(self) -> Metric:
        family = GaugeMetricFamily(
            "authorizerd_certificate_expiry_timestamp_seconds",
            "Time at which a certificate in use expires. Position 0 is the server's certificate.",
            labels=[*_LISTENER, "store", "position", "serial"],
        )
        for each in self._measured.certificates.listed:
            validity = each.validity
            labels = [each.port, each.store, str(each.position), validity.serial_text]
            family.add_metric(labels, validity.not_after.timestamp())
        return family

    def _reloads(self) -> Iterable[Metric]:
        reloads = self._measured.reloads
        family = CounterMetricFamily(
            "authorizerd_reloads",
            "Reloads of the configuration and the files that it names, by result.",
            labels=["result"],
        )
        family.add_metric(["succeeded"], reloads.succeeded)
        family.add_metric(["failed"], reloads.failed)
        yield family
        yield _gauge(
            "authorizerd_reload_failing",
            "1 if the last reload failed, so that the previous settings are still in force.",
            reloads.failing,
        )

    def _log(self) -> Metric:
        dropped, workers = log_statistics().lines_dropped, self._measured.workers
        if workers is not None:
            dropped += workers.sums().log.lines_dropped
        return CounterMetricFamily(
            "authorizerd_log_lines_dropped",
            "Log lines dropped because standard error was not read fast enough.",
            dropped,
        )


def _server_metrics(
    kind: str,
    servers: Mapping[str, Counted],
    counters: Mapping[str, str],
) -> Iterable[Metric]:
    """Yield the counters of the servers of one kind.

    Args:
        counters: further counters by their names in ``statistics``, with their help texts.
    """
    connections = GaugeMetricFamily(
        f"authorizerd_{kind}_connections", "Open connections.", labels=_LISTENER
    )
    ended = CounterMetricFamily(
        f"authorizerd_{kind}_connections_ended",
        "Connections refused at a limit, evicted for a new connection, timed out, outliving "
        "the client's certificate (expired), or broken by invalid data or a fault.",
        labels=[*_LISTENER, "reason"],
    )
    refused = CounterMetricFamily(
        f"authorizerd_{kind}_connections_refused",
        "Connections refused, by the key whose limit was reached.",
        labels=[*_LISTENER, "reason"],
    )
    for name, server in servers.items():
        seen = server.statistics
        connections.add_metric([name], seen.connections_open)
        for reason in _REASONS:
            ended.add_metric([name, reason], getattr(seen, f"connections_{reason}"))
        per_ip = seen.connections_refused_per_ip
        refused.add_metric([name, "max.connections"], seen.connections_refused - per_ip)
        refused.add_metric([name, "max.connections.per.ip"], per_ip)
    yield from (connections, ended, refused)
    for counter, help_text in {**_OF_ALL_SERVERS, **counters}.items():
        family = CounterMetricFamily(f"authorizerd_{kind}_{counter}", help_text, labels=_LISTENER)
        for name, server in servers.items():
            family.add_metric([name], getattr(server.statistics, counter))
        yield family


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value)


def register_metrics(registry: CollectorRegistry, measured: Measured) -> None:
    """Register this daemon's metrics and those of its process."""
    registry.register(DaemonCollector(measured))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
