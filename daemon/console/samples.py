"""Samples of counters, taken when somebody views a page, from which rates are computed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec

SECONDS_MIN: Final = 1.0
"""The time between two samples."""
SPAN_SECONDS: Final = 10.0
"""A rate covers at most this time, unless there was no view for longer."""
SAMPLES_MAX: Final = 60


class Sample(msgspec.Struct, frozen=True):
    """Counters by name, at a time in seconds."""

    time: float
    counters: Mapping[str, int]


class Rates(msgspec.Struct, frozen=True):
    """Counts per second, over the last ``seconds``."""

    seconds: float
    by_name: Mapping[str, float]


class Samples:
    """The latest samples. All viewers share them.

    Args:
        time: the time of the first sample, in which all counters are 0.
    """

    def __init__(self, time: float) -> None:
        self._samples: Final[deque[Sample]] = deque([Sample(time, {})], maxlen=SAMPLES_MAX)

    def measure(self, now: float, counters: Mapping[str, int]) -> Rates:
        """Return the rates until ``now``. A counter that was reset counts as 0."""
        before = next(
            (
                sample
                for sample in self._samples
                if SECONDS_MIN <= now - sample.time <= SPAN_SECONDS
            ),
            self._samples[-1],
        )
        if now - self._samples[-1].time >= SECONDS_MIN:
            self._samples.append(Sample(now, dict(counters)))
        seconds = max(now - before.time, 0.001)
        return Rates(
            seconds,
            {
                name: max(0, count - before.counters.get(name, 0)) / seconds
                for name, count in counters.items()
            },
        )
