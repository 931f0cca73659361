"""The metrics of watchers, on all processes that serve the decision port."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from authorizerd.daemon.decisions.watchers import WatchStatistics
from authorizerd.daemon.workers.counters import WATCH
from authorizerd.daemon.workers.pool import WorkerPool

_ENDINGS: Final = ("closed", "slow", "expired", "forbidden", "not_ready")


def watch_metrics(own: WatchStatistics, workers: WorkerPool | None) -> Iterable[Metric]:
    """Yield the metrics of this process, or of its workers if there are any.

    Args:
        own: this process's counters.
    """
    seen = own if workers is None else workers.sums().statistics(WatchStatistics, WATCH)
    yield GaugeMetricFamily(
        "authorizerd_watchers", "Clients that watch changes of ACLs now.", seen.watchers_open
    )
    yield CounterMetricFamily(
        "authorizerd_watchers_refused",
        "Watches refused because authorizerd.watch.max.connections was reached.",
        seen.watchers_refused,
    )
    yield CounterMetricFamily(
        "authorizerd_watch_events",
        "Batches of changes sent to watchers, counted once for each watcher.",
        seen.events_sent,
    )
    ended = CounterMetricFamily(
        "authorizerd_watchers_ended",
        "Watches that have ended, by reason.",
        labels=["reason"],
    )
    for reason in _ENDINGS:
        ended.add_metric([reason], getattr(seen, f"watchers_ended_{reason}"))
    yield ended
