"""One declaration for each metric: its name, its texts, and the source of its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, cast

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric

from authorizerd.daemon.kafka.request_latency import Histogram
from authorizerd.daemon.telemetry.metric_sources import Scrape

_KINDS: Final = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}
Values: TypeAlias = float | Mapping[Any, float] | Mapping[str, Histogram]

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Family(Generic[S]):
    """A metric, as exported and explained in docs/metrics.md; ``S`` is what it is read from.

    Attributes:
        name: the name of the sample, including ``_total`` for a counter. For a histogram, the name
            of the family.
        unit: what the value counts or measures.
        help: the help text of the exposition, word for word.
        advice: what an operator should do about unusual values.
        condition: when the metric is exported, unless always.
        read: returns the value; with one label, the values by label value; with several labels, the
            values by tuples of label values; None if the metric is not exported.
    """

    name: str
    labels: tuple[str, ...] = ()
    unit: str
    help: str
    advice: str
    condition: str = ""
    is_histogram: bool = False
    read: Callable[[S], Values | None]

    @property
    def kind(self) -> Literal["counter", "gauge", "histogram"]:
        """Prometheus' name of the metric's type."""
        if self.is_histogram:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"

    def collect(self, scrape: S) -> Metric | None:
        """Return the metric with its values now, or None if it is not exported."""
        read = self.read(scrape)
        if read is None:
            return None
        make: Any = _KINDS[self.kind]
        metric = make(self.name, self.help, labels=self.labels)
        for labels, value in (read if isinstance(read, Mapping) else {(): read}).items():
            of = (labels,) if isinstance(labels, str) else labels
            if isinstance(value, Histogram):
                metric.add_metric(of, value.buckets(), value.sum_s)
            else:
                metric.add_metric(of, value)
        return cast(Metric, metric)


MetricFamily: TypeAlias = Family[Scrape]
"""A metric of the daemon."""
