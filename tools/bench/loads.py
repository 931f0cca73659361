"""Loads of servers, in turn: as fast as each answers, then at a rate that all of them serve.

**Invariant:** the sides of a comparison get the same questions, warm-ups, rates and samples.
Questions are distinct: each load goes on with the question after the last one that the server was
asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from tools.bench.figures import Absent, Row, percentile_rows, pick_from, row_of_rounds
from tools.bench.sender import Plan, send
from tools.bench.wrk import measure_rate
from tools.processes import cpu_seconds

_TIMED_SECONDS_MAX: Final = 12.0
_SAMPLES: Final = 1100
"""A 99th percentile needs 1,000 samples. Loads that would take too long for it have a 90th."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The rounds and seconds of a rate, the warm-up before it, and the seconds of latencies."""

    rounds: int
    seconds: float
    warm_up: float
    timed: float


FULL: Final = Extent(rounds=2, seconds=2.0, warm_up=1.0, timed=2.0)
QUICK: Final = Extent(rounds=1, seconds=0.1, warm_up=0.0, timed=0.1)


@dataclass(slots=True)
class Process:
    """A server's process, and how many questions it was asked."""

    process_id: int
    asked: int = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """Answers per second, and per second of the server's CPU; and how many it refused."""

    per_second: float
    per_cpu: float
    refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A load of one server: requests of ``each`` questions, and the rate of latencies.

    With a rate of 0, latencies are those of one request after another.
    """

    process: Process
    plan: Plan
    each: int = 1
    rate: float = 0.0

    def next_plan(self, seconds: float, rate: float = 0.0) -> Plan:
        """Return a load that goes on after the last one."""
        return replace(self.plan, seconds=seconds, rate=rate, first=self.process.asked // self.each)

    def count(self, seconds: float) -> Counted:
        """Ask as fast as the server answers."""
        before = cpu_seconds(self.process.process_id)
        rate = measure_rate(self.next_plan(seconds))
        used = cpu_seconds(self.process.process_id) - before
        # Those that were in flight at the end may have been answered, too.
        self.process.asked += (rate.requests + rate.refused + self.plan.connections) * self.each
        # A quick run may use less than one clock tick of CPU time.
        per_cpu = rate.requests * self.each / used if used else 0.0
        return Counted(rate.per_second * self.each, per_cpu, rate.refused)

    def time(self, seconds: float) -> list[float]:
        """Return the latencies in ms at the load's rate."""
        report = send(self.next_plan(seconds, self.rate))
        self.process.asked += report.asked * self.each
        return report.times_ms


@dataclass(slots=True)
class _Measured:
    """Answers per second and per CPU-second in each round, refusals, and all latencies."""

    rates: list[float] = field(default_factory=list)
    per_cpu: list[float] = field(default_factory=list)
    times_ms: list[float] = field(default_factory=list)
    refused: int = 0


def compare(
    what: str, extent: Extent, sides: Mapping[str, Target], noun: str = "decisions",
    peers: Mapping[str, Target | Absent] | None = None,
) -> Iterator[Row]:  # fmt: skip
    """Measure our servers, by the words that their rows add, and peers, by their names."""
    peers = peers or {}
    targets = [each for each in (*sides.values(), *peers.values()) if isinstance(each, Target)]
    measured = {id(target): _Measured() for target in targets}
    rate, timed = targets[0].rate, extent.timed
    if rate and extent.warm_up and _SAMPLES / rate <= _TIMED_SECONDS_MAX:
        timed = max(timed, _SAMPLES / rate)
    for target in targets if extent.warm_up else ():
        target.count(extent.warm_up)
    for _ in range(extent.rounds):
        for target in targets:
            counted, figures = target.count(extent.seconds), measured[id(target)]
            figures.rates.append(counted.per_second)
            figures.per_cpu.append(counted.per_cpu)
            figures.refused += counted.refused
        for target in targets:
            measured[id(target)].times_ms += target.time(timed / extent.rounds)
    paced = f", latency at {rate:g}/s" if rate else ""
    for words, ours in sides.items():
        for peer, theirs in peers.items() or (("", None),):
            beside = f", beside {peer}" if len(peers) > 1 else ""
            other = pick_from(theirs, lambda it: measured[id(it)])
            yield from _rows(f"{what}{paced}{words}{beside}", noun, measured[id(ours)], peer, other)


def _rows(
    what: str, noun: str, ours: _Measured, peer: str, theirs: _Measured | Absent | None
) -> Iterator[Row]:
    for metric, figures, other in (
        (noun, ours.rates, pick_from(theirs, lambda it: it.rates)),
        (f"{noun} per CPU-second", ours.per_cpu, pick_from(theirs, lambda it: it.per_cpu)),
    ):
        yield row_of_rounds(what, metric, "/s", figures, peer, other, more_is_better=True)
    yield from percentile_rows(what, ours.times_ms, peer, pick_from(theirs, lambda it: it.times_ms))
    if ours.refused:
        yield Row(what=what, metric="refused", unit="", ours=ours.refused)
