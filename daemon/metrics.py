"""What Prometheus scrapes: plain integers of the actors and servers, collected at scrape.

Law: nothing on the request path touches prometheus_client; its counters cost more than a decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from actors.audit_log import AuditLog
from actors.decider import Decider, DecisionCounts
from actors.listener_gate import ListenerGate
from actors.purgatory import Purgatory
from actors.record_applier import RecordApplier
from actors.update_queue import UpdateQueue
from daemon.http_server import HttpServer
from daemon.kafka_listener import KafkaListener
from daemon.log_source import LocalLogSource
from daemon.own_log import Checkpointer
from daemon.request_times import RequestTimes
from protocol.metadata_records import METADATA_VERSION_KNOWN

_LISTENER: Final = ["listener"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the metrics are read from."""

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


class DaemonCollector(Collector):
    def __init__(self, measured: Measured) -> None:
        self._measured = measured

    def collect(self) -> Iterable[Metric]:
        measured = self._measured
        applier = measured.applier.statistics()
        yield _gauge(
            "authorizerd_acl_count",
            "Number of ACLs in force (Kafka's AclCount), -1 until loaded.",
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
        yield from self._http()
        yield from self._kafka()

    def _decisions(self) -> Metric:
        family = CounterMetricFamily(
            "authorizerd_decisions",
            "Questions put, by surface and by how they ended.",
            labels=["surface", "result"],
        )
        for surface, counts in self._measured.authorizer.counts.items():
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
        yield CounterMetricFamily(
            "authorizerd_audit_written",
            "Audit lines handed to the file.",
            audit_log.statistics.written,
        )
        yield CounterMetricFamily(
            "authorizerd_audit_dropped",
            "Audit lines lost: the queue was full, or the file could not be written.",
            audit_log.statistics.dropped,
        )

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
            ("authorizerd_log_batches", "Batches written to the log.", updates.batches_written),
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

    def _kafka(self) -> Iterable[Metric]:
        """Yield what each Kafka listener has seen."""
        families = (
            GaugeMetricFamily(
                "authorizerd_kafka_connections", "Open connections.", labels=_LISTENER
            ),
            CounterMetricFamily(
                "authorizerd_kafka_connections_ended",
                "Connections refused for being too many, or closed for what was sent on them.",
                labels=[*_LISTENER, "reason"],
            ),
            CounterMetricFamily("authorizerd_kafka_requests", "Requests read.", labels=_LISTENER),
            CounterMetricFamily(
                "authorizerd_kafka_logins_failed", "Log-ins that failed.", labels=_LISTENER
            ),
        )
        connections, ended, requests, failed = families
        for name, listener in self._measured.kafka_listeners.items():
            seen = listener.statistics
            connections.add_metric([name], seen.connections_open)
            ended.add_metric([name, "refused"], seen.connections_refused)
            ended.add_metric([name, "broken"], seen.connections_broken)
            requests.add_metric([name], seen.requests)
            failed.add_metric([name], seen.logins_failed)
        return families

    def _http(self) -> Iterable[Metric]:
        """Yield what each HTTP server has seen, its name as the label ``listener``."""
        families = (
            GaugeMetricFamily(
                "authorizerd_http_connections", "Open connections.", labels=_LISTENER
            ),
            CounterMetricFamily(
                "authorizerd_http_connections_ended",
                "Connections refused for being too many, or ended for taking too long.",
                labels=[*_LISTENER, "reason"],
            ),
            CounterMetricFamily("authorizerd_http_requests", "Whole requests.", labels=_LISTENER),
            CounterMetricFamily(
                "authorizerd_http_requests_bad", "Requests refused unread.", labels=_LISTENER
            ),
        )
        connections, ended, requests, bad = families
        for name, server in self._measured.http_servers.items():
            seen = server.statistics
            connections.add_metric([name], seen.connections_open)
            ended.add_metric([name, "refused"], seen.connections_refused)
            ended.add_metric([name, "timed_out"], seen.connections_timed_out)
            requests.add_metric([name], seen.requests)
            bad.add_metric([name], seen.requests_bad)
        return families


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
