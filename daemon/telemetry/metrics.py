"""Prometheus metrics: plain integers in actors and servers, collected at each scrape.

**Invariant:** only a scrape touches prometheus_client, because its counters cost more than a
decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from authorizerd.daemon.telemetry.family import MetricFamily
from authorizerd.daemon.telemetry.grant_metrics import GRANT_METRICS, of_origin
from authorizerd.daemon.telemetry.metric_sources import MetricSources, Scrape
from authorizerd.daemon.telemetry.process_metrics import PROCESS_METRICS
from authorizerd.daemon.telemetry.server_metrics import SERVER_METRICS
from authorizerd.daemon.telemetry.source_metrics import SOURCE_METRICS
from authorizerd.daemon.telemetry.state_metrics import STATE_METRICS

METRICS: Final[tuple[MetricFamily, ...]] = (
    *STATE_METRICS,
    *SERVER_METRICS,
    *PROCESS_METRICS,
    *SOURCE_METRICS,
    *map(of_origin, GRANT_METRICS),
)


class DaemonCollector(Collector):
    """Read the parts' counters at each scrape."""

    def __init__(self, sources: MetricSources) -> None:
        self._measured = sources

    def collect(self) -> Iterable[Metric]:
        scrape = Scrape(self._measured)
        return [metric for each in METRICS if (metric := each.collect(scrape)) is not None]


def register_metrics(registry: CollectorRegistry, sources: MetricSources) -> None:
    """Register this daemon's metrics and those of its process."""
    registry.register(DaemonCollector(sources))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
