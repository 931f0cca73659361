"""Shared parts of the load generators: the warm-up, the latencies and the report.

They are *closed loops*: a client sends its next request when the last one is answered. So they
measure a server's highest throughput, and its latency at that throughput.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from tools.bench.figures import PERCENTS, percentile

WARM_UP_SHARE: Final = 0.2
"""The warm-up's share of the time; its answers are not timed."""


class LoadError(Exception):
    """The server did not answer, or gave an unexpected answer."""


class LoadReport(msgspec.Struct, frozen=True):
    """The results of one load.

    ``requests`` counts all answers, and ``refused`` those of them that decided nothing. The other
    figures leave out the warm-up and the refusals; ``timed`` is the number of their samples.
    ``latencies_ms`` has a time for each of ``PERCENTS``.
    """

    requests: int
    requests_per_second: float
    timed: int
    latencies_ms: dict[int, float]
    max_ms: float
    refused: int = 0

    def at(self, percent: int) -> float:
        """Return a percentile of the latencies, in ms."""
        return self.latencies_ms[percent]


def summarize(
    latencies_ns: Sequence[int], *, requests: int, requests_per_second: float
) -> LoadReport:
    """Return the report of these latencies, in any order."""
    ordered = sorted(latencies_ns)
    return LoadReport(
        requests=requests,
        requests_per_second=requests_per_second,
        timed=len(ordered),
        latencies_ms={percent: percentile(ordered, percent) / 1e6 for percent in PERCENTS},
        max_ms=ordered[-1] / 1e6,
    )


class Stopwatch:
    """Times the answers of one load, which starts now and runs for ``seconds``."""

    def __init__(self, seconds: float, warm_up_share: float = WARM_UP_SHARE) -> None:
        self.now_ns = time.perf_counter_ns()
        self._timed_from_ns: Final = self.now_ns + int(seconds * warm_up_share * 1e9)
        self._end_ns: Final = self.now_ns + int(seconds * 1e9)
        self._latencies_ns: Final[list[int]] = []
        self._answered = 0

    @property
    def is_running(self) -> bool:
        """True until the time is up and at least one answer was timed."""
        return self.now_ns < self._end_ns or not self._latencies_ns

    @property
    def is_warm(self) -> bool:
        """True once the warm-up is over."""
        return self.now_ns >= self._timed_from_ns

    def tick(self) -> None:
        """Read the clock: answers have arrived."""
        self.now_ns = time.perf_counter_ns()

    def record(self, asked_ns: int) -> None:
        """Count an answer, and time it unless its request was sent during the warm-up."""
        self._answered += 1
        if asked_ns >= self._timed_from_ns:
            self._latencies_ns.append(self.now_ns - asked_ns)

    def report(self) -> LoadReport:
        """Return the figures."""
        # Until the last answer, which may arrive after the planned end.
        seconds = (self.now_ns - self._timed_from_ns) / 1e9
        return summarize(
            self._latencies_ns,
            requests=self._answered,
            requests_per_second=len(self._latencies_ns) / seconds,
        )
