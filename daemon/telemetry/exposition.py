"""The text of all metrics, written in steps.

A daemon that has served every API has a thousand samples, and writing them takes several
milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import Final

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from authorizerd.acl.steps import Steps

SAMPLES_PER_STEP: Final = 64
_HEAD_LINES: Final = 2
"""The lines before the samples of a metric: its help and its type."""


class _One(Collector):
    """A metric by itself."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


def encode_metrics(registry: Collector) -> Steps[bytes]:
    """Return, in steps, what ``generate_latest`` returns."""
    # Collected at once, so that no part of the daemon changes within a metric.
    metrics = list(registry.collect())
    yield
    parts: list[bytes] = []
    for metric in metrics:
        for number, some in enumerate(_split(metric)):
            text = generate_latest(_One(some))
            parts.append(text.split(b"\n", _HEAD_LINES)[_HEAD_LINES] if number else text)
            yield
    return b"".join(parts)


def _split(metric: Metric) -> Iterator[Metric]:
    """Yield a metric with its first samples, then with the next ones, and so on."""
    samples = metric.samples
    for start in range(0, len(samples) or 1, SAMPLES_PER_STEP):
        some = copy(metric)
        some.samples = samples[start : start + SAMPLES_PER_STEP]
        yield some
