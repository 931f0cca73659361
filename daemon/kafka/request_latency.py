"""Request latency by API: the daemon's own time, and the time waited in purgatory.

The counters are plain integers, collected at each scrape, because those of prometheus_client cost
more than a decision.

Source: Kafka's RequestMetrics, LocalTimeMs and RemoteTimeMs; KIP-504.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

BOUNDS_S: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)


class Histogram:
    """Counts by upper bound in seconds; the last one counts values above all bounds."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1  # bounds are inclusive
        self.sum_s += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return cumulative counts by upper bound, in Prometheus's form."""
        total = 0
        cumulated: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), self.counts, strict=True):
            total += count
            cumulated.append((bound, total))
        return cumulated


class RequestTimes:
    """The histograms of all APIs."""

    def __init__(self) -> None:
        self.local: Final[dict[str, Histogram]] = {}
        self.remote: Final[dict[str, Histogram]] = {}

    def observe(self, request_name: str, *, local_s: float, remote_s: float) -> None:
        """Count one request. The names are those of APIs, so there are few histograms."""
        self.local.setdefault(request_name, Histogram()).observe(local_s)
        self.remote.setdefault(request_name, Histogram()).observe(remote_s)
