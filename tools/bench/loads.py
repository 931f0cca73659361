"""Load servers in turn: first as fast as each answers, then at a rate that all of them can serve.

**Invariant:** the sides of a comparison get the same questions, warm-ups, rates and samples.
Questions are distinct: each load continues after the last question that the server was asked.

wrk only measures rates over HTTP: it asks nothing while a server stalls, so its percentiles leave
out what a stall delays (coordinated omission). The sender measures other protocols, new
connections, and the loads of quick runs, which are shorter than wrk can be.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import msgspec
from msgspec.structs import replace

from tools.bench.figures import (
    Absent,
    MeasurementError,
    Row,
    percentile_rows,
    pick_from,
    row_of_rounds,
)
from tools.bench.protocols import HTTP, STREAM
from tools.bench.sender import ANSWER_SECONDS, Plan, send, send_together
from tools.processes import Command, capture_output, cpu_seconds, decode_output

_TIMED_SECONDS_MAX: Final = 12.0
_SAMPLES: Final = 1100
"""A 99th percentile needs 1,000 samples. Loads that would take too long for it have a 90th."""
_SCRIPT: Final = Path(__file__).with_name("wrk.lua")
_MORE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The rounds and seconds for rates, the warm-up before them, and the seconds for latencies."""

    rounds: int
    seconds: float
    warm_up: float
    timed: float


FULL: Final = Extent(rounds=2, seconds=2.0, warm_up=1.0, timed=2.0)
QUICK: Final = Extent(rounds=1, seconds=0.1, warm_up=0.0, timed=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests of ``each`` questions; latencies are measured at ``rate`` requests per second.

    With a rate of 0, latencies are measured with one request after another. With ``is_fresh``, each
    request has a new connection; with ``resumes``, it resumes a TLS session.
    """

    connections: int = 1
    each: int = 1
    rate: float = 1000.0
    in_flight: int = 1
    is_fresh: bool = False
    resumes: bool = False

    def __str__(self) -> str:
        if self.in_flight > 1:
            on = "" if self.connections == 1 else f" on each of {self.connections} connections"
            return f"{self.each} a frame, {self.in_flight} in flight{on}"
        plural = "" if self.connections == 1 else "s"
        return f"{self.each} a request, {self.connections} connection{plural}"


@dataclass(slots=True)
class Process:
    """A server's process, and how many questions it was asked."""

    process_id: int
    asked: int = 0


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """The number of answers, answers per second and per CPU-second of the server, and refusals."""

    answered: int
    refused: int
    per_second: float
    per_cpu: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A load of one server. The plan has its address and the requests."""

    process: Process
    plan: Plan
    load: Load

    def next_plan(self, seconds: float, rate: float = 0.0) -> Plan:
        """Return a load that continues after the last one."""
        load = self.load
        return replace(
            self.plan, seconds=seconds, rate=rate, first=self.process.asked // load.each,
            connections=load.connections, in_flight=load.in_flight, is_fresh=load.is_fresh,
            resumes=load.resumes,
        )  # fmt: skip

    def count(self, seconds: float) -> Rate:
        """Ask as fast as the server answers."""
        each, before = self.load.each, cpu_seconds(self.process.process_id)
        rate = measure_rate(self.next_plan(seconds))
        used = cpu_seconds(self.process.process_id) - before
        # Requests that were in flight at the end may have been answered as well.
        self.process.asked += (rate.answered + rate.refused + self.load.connections) * each
        # A quick run may use less than one clock tick of CPU time.
        per_cpu = rate.answered * each / used if used else 0.0
        return replace(rate, per_second=rate.per_second * each, per_cpu=per_cpu)

    def time(self, seconds: float) -> list[float]:
        """Return the latencies in ms at the load's rate."""
        report = send(self.next_plan(seconds, self.load.rate))
        self.process.asked += report.asked * self.load.each
        return report.times_ms


class Printed(msgspec.Struct):
    """What ``wrk.lua`` prints: counts of requests, the run's time, and two latencies."""

    requests: int
    microseconds: int
    refused: int
    failed: int
    p99_microseconds: float
    longest_microseconds: float


def measure_rate(plan: Plan) -> Rate:
    """Ask as fast as the server answers; on streams, each connection from its own process.

    A load whose requests fail, or which gets no answer, is an error.
    """
    if plan.protocol != HTTP or plan.is_fresh or plan.seconds < 1:
        count = plan.connections if plan.protocol == STREAM else 1
        each = replace(plan, rate=0.0, connections=plan.connections // count)
        reports = send_together(*[each] * count)
        return Rate(
            answered=sum(report.answered for report in reports),
            refused=sum(report.refused for report in reports),
            per_second=sum(report.per_second for report in reports),
        )
    found = run_wrk(plan)
    answered = found.requests - found.refused
    if found.failed or answered <= 0:
        raise MeasurementError(
            f"{plan.address}: {found.failed} requests failed, {answered} of {found.requests} "
            "were answered with 2xx"
        )
    seconds = found.microseconds / 1e6
    return Rate(answered=answered, refused=found.refused, per_second=answered / seconds)


def run_wrk(plan: Plan) -> Printed:
    """Ask as fast as the server answers over HTTP, for whole seconds."""
    scheme = "https" if plan.ca_file else "http"
    # wrk does not verify certificates; a client that does has checked the answers.
    command: Command = [
        "wrk", "-t1", f"-c{plan.connections}", f"-d{round(plan.seconds)}s",
        f"--timeout={ANSWER_SECONDS:.0f}s", "-s", _SCRIPT, f"{scheme}://{plan.address}",
    ]  # fmt: skip
    with NamedTemporaryFile(prefix="bench-", suffix=".requests") as file:
        for request in plan.requests:
            file.write(b"%d\n%b" % (len(request), request))
        file.flush()
        environment = {**os.environ, "REQUESTS": file.name, "FIRST": str(plan.first)}
        limit = plan.seconds + _MORE_SECONDS
        printed = capture_output(command, timeout_seconds=limit, environment=environment)
    # wrk prints its own summary first.
    return decode_output(printed.splitlines()[-1] if printed else b"", Printed, command)


@dataclass(slots=True)
class _Measured:
    """The rate of each round, and all latencies in ms."""

    rates: list[Rate] = field(default_factory=list)
    times_ms: list[float] = field(default_factory=list)


def compare(
    what: str, extent: Extent, sides: Mapping[str, Target], noun: str = "decisions",
    peers: Mapping[str, Target | Absent] | None = None,
) -> Iterator[Row]:  # fmt: skip
    """Measure our servers, keyed by what their rows are called, and peers, keyed by their names."""
    peers = peers or {}
    targets = [each for each in (*sides.values(), *peers.values()) if isinstance(each, Target)]
    measured = {id(target): _Measured() for target in targets}
    rate, timed = targets[0].load.rate, extent.timed
    if rate and extent.warm_up and _SAMPLES / rate <= _TIMED_SECONDS_MAX:
        timed = max(timed, _SAMPLES / rate)
    for target in targets if extent.warm_up else ():
        target.count(extent.warm_up)
    for _ in range(extent.rounds):
        for target in targets:
            measured[id(target)].rates.append(target.count(extent.seconds))
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
    for metric, name in ((noun, "per_second"), (f"{noun} per CPU-second", "per_cpu")):

        def pick(side: _Measured, name: str = name) -> list[float]:
            return [getattr(rate, name) for rate in side.rates]

        other = pick_from(theirs, pick)
        yield row_of_rounds(what, metric, "/s", pick(ours), peer, other, more_is_better=True)
    yield from percentile_rows(what, ours.times_ms, peer, pick_from(theirs, lambda it: it.times_ms))
    if refused := sum(rate.refused for rate in ours.rates):
        yield Row(what=what, metric="refused", unit="", ours=refused)
