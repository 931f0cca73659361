"""Take samples of what each process holds, and judge whether a series of samples grows.

The slope is Theil and Sen's: the median of the slopes between all pairs of samples. Peaks and a
sawtooth do not move it, as long as fewer than 29 % of the samples are unusual. What counts is how
much the slope adds over the time that is judged, not whether it differs from 0.

**Invariant:** too few samples are never flat: they are reported as not judged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from statistics import median
from typing import Final, NamedTuple

from tests.soak.sites import Site
from tools.processes import read_memory, status_bytes

WARM_UP_SHARE: Final = 1 / 3
"""The part of a process's life that is not judged: caches and allocators fill."""
SAMPLES_MIN: Final = 30
_SAMPLES_MAX: Final = 600
"""More samples are thinned evenly, because each pair of them is looked at."""

Sample = tuple[float, float]
"""A time in seconds, and a value."""


class Verdict(Enum):
    """The verdict on a series of samples."""

    FLAT = "flat"
    GROWS = "grows"
    NOT_JUDGED = "not judged"


class Limit(NamedTuple):
    """How much a series may grow over the time that is judged: the larger of the two.

    ``share`` is a part of the median, such as 0.03.
    """

    absolute: float
    share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict and its figures. ``growth`` is the slope times the seconds that are judged."""

    verdict: Verdict
    samples: int = 0
    seconds: float = 0.0
    typical: float = 0.0
    growth: float = 0.0
    allowed: float = 0.0


def judge(samples: Sequence[Sample], limit: Limit) -> Judgement:
    """Judge the samples after the warm-up; their times must rise."""
    first, last = (samples[0][0], samples[-1][0]) if samples else (0.0, 0.0)
    begin = first + (last - first) * WARM_UP_SHARE
    judged = [each for each in samples if each[0] >= begin]
    if len(judged) < SAMPLES_MIN:
        return Judgement(verdict=Verdict.NOT_JUDGED, samples=len(judged))
    seconds = last - judged[0][0]
    typical = median(value for _, value in judged)
    growth = estimate_slope(judged) * seconds
    allowed = max(limit.absolute, limit.share * typical)
    return Judgement(
        verdict=Verdict.GROWS if growth > allowed else Verdict.FLAT, samples=len(judged),
        seconds=seconds, typical=typical, growth=growth, allowed=allowed,
    )  # fmt: skip


def estimate_slope(samples: Sequence[Sample]) -> float:
    """Return Theil and Sen's slope, per second. The times must differ.

    Source: P. K. Sen, Estimates of the Regression Coefficient Based on Kendall's Tau (1968).
    """
    step = -(-len(samples) // _SAMPLES_MAX)
    return median(
        (later_value - value) / (later - time)
        for (time, value), (later, later_value) in combinations(samples[::step], 2)
    )


MIB: Final = 1 << 20
LIMITS: Final[Mapping[str, Limit]] = {
    "memory": Limit(3 * MIB, 0.03),
    "descriptors": Limit(4),
    "threads": Limit(2),
    "tasks": Limit(6),
    "queued": Limit(4),
    "connections": Limit(4),
}
"""How much each quantity may grow over the time that is judged."""
_QUEUES: Final = ("authorizerd_purgatory_size", "authorizerd_updates_waiting")
_CONNECTIONS: Final = tuple(
    f"authorizerd_{kind}_connections{{" for kind in ("http", "kafka", "stream")
)

Sampled = dict[str, float]
"""Values by the quantities of ``LIMITS``, and others that are only shown."""


def sample_process(process_id: int) -> Sampled:
    """Return what one process holds.

    ``memory`` are the bytes that no other process maps, so it does not depend on other processes.

    Raises:
        OSError: the process has ended.
    """
    memory = read_memory(process_id)
    return {
        "memory": memory.uss_bytes,
        "pss": memory.pss_bytes,
        "rss": status_bytes(process_id, "VmRSS"),
        "threads": len(os.listdir(f"/proc/{process_id}/task")),
        "descriptors": len(os.listdir(f"/proc/{process_id}/fd")),
    }


def sample_metrics(metrics: Mapping[str, float]) -> Sampled:
    """Return what the daemon itself counts."""
    sampled = {
        "queued": sum(v for name, v in metrics.items() if name.startswith(_QUEUES)),
        "connections": sum(v for name, v in metrics.items() if name.startswith(_CONNECTIONS)),
        "collections": sum(
            v for name, v in metrics.items() if name.startswith("python_gc_collections_total")
        ),
    }
    if "authorizerd_tasks" in metrics:
        sampled["tasks"] = metrics["authorizerd_tasks"]
    return sampled


def sample(site: Site) -> Iterator[tuple[str, Sampled]]:
    """Yield what each process of a daemon holds, by name; a worker's has its process id."""
    main = sample_process(site.process_id)
    yield f"{site.name}: daemon", main | sample_metrics(site.metrics())
    for worker in site.workers:
        with suppress(OSError):
            yield f"{site.name}: worker {worker}", sample_process(worker)
