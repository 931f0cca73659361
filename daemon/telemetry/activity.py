"""The decisions and the latency of the last hour, in spans of ten seconds.

The counters of the metrics are read at the end of each span, so this adds nothing to a decision.

**Invariant:** a span is known only if the counters were read at both of its ends. While the daemon
did not run, was paused, or had its clock set, spans are unknown, and never count as 0.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from operator import sub
from typing import Final

import msgspec
import trio

from authorizerd.daemon.kafka.request_latency import BOUNDS_S
from authorizerd.daemon.process.utc_time import now_ms
from authorizerd.daemon.telemetry.metric_sources import MetricSources, Scrape

SPAN_MS: Final = 10_000
SPANS_MAX: Final = 360
_MARGIN_MS: Final = 10
"""The counters are read this long after the end, because two clocks may differ by a millisecond."""
_LATE_MS_MAX: Final = 1_000
"""Counters that are read later than this after the end of a span belong to no span."""


class Totals(msgspec.Struct, frozen=True):
    """The counters at one moment.

    Attributes:
        requests: Kafka requests by latency, as in ``Histogram.counts``, those of all APIs.
    """

    allowed: int
    denied: int
    requests: tuple[int, ...]


class Span(msgspec.Struct, frozen=True):
    """Ten seconds: the decisions, and the latency of Kafka requests.

    Attributes:
        begin_ms: in milliseconds since 1970.
        p50_s, p99_s: the upper bounds of the histogram's buckets with the 50th and 99th percentile;
            ``inf`` above all bounds, None if there were no requests.
    """

    begin_ms: int
    allowed: int
    denied: int
    requests: int
    p50_s: float | None
    p99_s: float | None


def read_totals(sources: MetricSources) -> Totals:
    """Return the counters now, those of workers included."""
    decisions = Scrape(sources).decisions.values()
    counts = [histogram.counts for histogram in sources.times.local.values()]
    return Totals(
        sum(each.allowed for each in decisions),
        sum(each.denied for each in decisions),
        tuple(map(sum, zip(*counts, strict=True))) or (0,) * (len(BOUNDS_S) + 1),
    )


class Activity:
    """The spans of the last hour."""

    def __init__(self) -> None:
        self._spans: Final[deque[Span]] = deque(maxlen=SPANS_MAX)
        self._last: tuple[int, Totals] | None = None

    async def run(self, read: Callable[[], Totals]) -> None:
        """Read the counters at the end of each span, until cancelled."""
        while True:
            await trio.sleep((SPAN_MS - now_ms() % SPAN_MS + _MARGIN_MS) / 1000)
            self.add(now_ms(), read())

    def add(self, at_ms: int, totals: Totals) -> None:
        """Add the counters at a moment."""
        end_ms = at_ms - at_ms % SPAN_MS
        if at_ms - end_ms > _LATE_MS_MAX:
            self._last = None
            return
        if self._last is not None and self._last[0] == end_ms - SPAN_MS:
            self._spans.append(_compare(end_ms - SPAN_MS, self._last[1], totals))
        self._last = end_ms, totals

    def list_spans(self, at_ms: int) -> list[Span | None]:
        """Return the spans of the hour before a moment, None for those that are unknown."""
        known = {span.begin_ms: span for span in self._spans}
        return [known.get(begin_ms) for begin_ms in list_begins(at_ms)]


def list_begins(at_ms: int) -> Sequence[int]:
    """Return when each span of the hour before a moment begins."""
    end_ms = at_ms - at_ms % SPAN_MS
    return range(end_ms - SPANS_MAX * SPAN_MS, end_ms, SPAN_MS)


def _compare(begin_ms: int, before: Totals, after: Totals) -> Span:
    requests = [max(count, 0) for count in map(sub, after.requests, before.requests)]
    return Span(
        begin_ms,
        max(after.allowed - before.allowed, 0),
        max(after.denied - before.denied, 0),
        sum(requests),
        find_quantile(requests, 0.5),
        find_quantile(requests, 0.99),
    )


def find_quantile(counts: Sequence[int], quantile: float) -> float | None:
    """Return the upper bound of the bucket that has a quantile, None if all buckets are empty."""
    wanted, total = quantile * sum(counts), 0
    for bound, count in zip((*BOUNDS_S, math.inf), counts, strict=True):
        total += count
        if count and total >= wanted:
            return bound
    return None
