"""Floods: clients misbehave towards every interface of one daemon, while polite clients ask.

**Invariant:** the run fails if the peak of the daemon's memory exceeds its memory at rest plus the
sum of the configured limits (``config.bounds``).

The polite clients ask a fixed number of times per second, on connections that they opened before
the flood. Daemon, flood and clients share the machine's cores; the flood has the lowest priority.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.config.bounds import memory_bound_bytes
from authorizerd.config.configuration import parse
from tests.support.flood_surfaces import ADMIN, HTTP, KAFKA, OPA, STREAM, Surface, surfaces
from tools.bench.figures import MeasurementError, Row, percentile_rows
from tools.bench.flood_load import Flood, FloodReport, Plan
from tools.bench.protocols import ANSWERED
from tools.bench.run import Run
from tools.bench.sender import Plan as PolitePlan
from tools.bench.sender import Report, send
from tools.bench.sets import kind
from tools.daemon_process import DaemonProcess, ready_daemon
from tools.processes import Command, capture_json, status_bytes

PACE: Final = 320.0
"""Requests per second of all polite clients."""
TIMES: Final = 10
"""The open loop offers this multiple of the measured rate."""
_LEAD_SECONDS: Final = 1.0
_TIMEOUT_SECONDS: Final = 60.0
_CAPACITY_CONNECTIONS: Final = 16
_NO_LIMIT_PER_SECOND: Final = 1e9
_ANSWER_BYTES_EACH: Final = 512
"""Memory per ACL while a list of all ACLs is made."""
_MIB: Final = 1 << 20
_HELD_BACK: Final = 1024
"""The last bytes of a largest request, which slow writers send one by one."""
_SETTINGS: Final = {
    # Every client may list all ACLs: a listener's largest answer.
    "super.users": "User:ANONYMOUS",
    # Short limits, so that slow clients reach them during a run.
    "connections.max.idle.ms": "3000",
    "authorizerd.http.header.timeout.ms": "2000",
}
_CONNECTIONS: Final = (("http", HTTP), ("http", ADMIN), ("stream", STREAM), ("kafka", KAFKA))


class Flooded:
    """A daemon that is flooded, the addresses of its endpoints, and the memory that it may use."""

    def __init__(self, run: Run, daemon: DaemonProcess, directory: Path) -> None:
        self._daemon: Final = daemon
        self._directory: Final = directory
        self.seconds: Final = run.pick(3.3, 0.5)
        self.idle, self.slow, self.callers = run.pick((2000, 250, 256), (50, 5, 8))
        self.hosts: Final = {
            HTTP: daemon.decision_http,
            STREAM: daemon.decision_stream,
            ADMIN: daemon.admin_http,
            KAFKA: daemon.listeners[KAFKA],
        }
        self.configuration: Final = parse(
            (directory / "server.properties").read_text(), source="floods"
        )
        acls = sum(1 for _ in kind().acls())
        self.allowed_bytes = memory_bound_bytes(self.configuration, acls * _ANSWER_BYTES_EACH)

    def memory(self, name: str) -> int:
        """Return the daemon's resident memory (``VmRSS``) or its peak (``VmHWM``)."""
        return status_bytes(self._daemon.process_id, name)

    def begin_peak(self) -> None:
        """Reset the peak of the memory. Source: proc(5), ``/proc/<pid>/clear_refs``."""
        Path(f"/proc/{self._daemon.process_id}/clear_refs").write_text("5")

    def ask(self, surface: Surface, lead_seconds: float = 0.0) -> Report:
        """Run the polite clients."""
        plan = PolitePlan(
            address=self.hosts[surface.endpoint],
            protocol=surface.protocol,
            opening=surface.opening,
            requests=[surface.request],
            rate=PACE,
            seconds=lead_seconds + self.seconds,
            skipped_seconds=lead_seconds,
            may_refuse=True,
        )
        return send(plan)

    def flood(self, plan: Plan) -> FloodReport:
        """Run a flood to its end."""
        path = self._directory / "flood.plan"
        path.write_bytes(msgspec.msgpack.encode(plan))
        command: Command = [sys.executable, "-m", "tools.bench.flood_load", path]
        return capture_json(command, FloodReport, timeout_seconds=_TIMEOUT_SECONDS + plan.seconds)

    def recover(self) -> float:
        """Wait until all connections are closed; return how long that took."""
        started = time.monotonic()
        while left := self._open_connections():
            if time.monotonic() - started > _TIMEOUT_SECONDS:
                raise MeasurementError(f"{left} connections are still open after a flood")
            time.sleep(0.1)
        return time.monotonic() - started

    def _open_connections(self) -> int:
        names = (
            f'authorizerd_{kind}_connections{{listener="{name}"}}' for kind, name in _CONNECTIONS
        )
        # Without the connection of this request.
        return sum(int(self._daemon.metric(name)) for name in names) - 1

    def plans(self, surface: Surface, capacity: float) -> dict[str, Plan]:
        """Return every flood of an interface by name."""

        def plan(connections: int, **fields: object) -> Plan:
            known: dict[str, object] = {"protocol": surface.protocol, "seconds": self.seconds}
            known |= {"address": self.hosts[surface.endpoint], "connections": connections}
            return msgspec.convert({**known, **fields}, Plan)

        opening = surface.opening
        held_back = opening + surface.largest[:-_HELD_BACK]
        plans = {
            Flood.IDLE.value: plan(self.idle),
            Flood.READERS.value: plan(self.slow, first=opening, again=surface.costly, reads=False),
            Flood.WRITERS.value: plan(self.slow, first=held_back, trickle=b" "),
            Flood.OVERSIZED.value: plan(
                self.callers, first=opening + surface.oversized, reconnects=True
            ),
        }
        if surface.endpoint != ADMIN:  # it is loopback only, and limits no rate
            plans[f"{TIMES} times the rate"] = plan(
                self.callers,
                first=opening,
                again=surface.request,
                requests_per_second=TIMES * capacity,
            )
        for number, (first, again) in enumerate(surface.endless):
            name = Flood.ENDLESS.value if not number else f"{Flood.ENDLESS.value}, chunks"
            plans[name] = plan(self.callers, first=opening + first, again=again, reconnects=True)
        return plans


def measure_floods(run: Run) -> Iterator[Row]:
    """Measure every flood of every interface. OPA's API shares its port and server with AuthZEN."""
    place = run.new_place("floods")
    with ready_daemon(place, run.log_of(kind()), _SETTINGS) as daemon:
        flooded = Flooded(run, daemon, place)
        every = surfaces(flooded.configuration, next(kind().questions()), flooded.hosts)
        every = [each for each in every if each.name != OPA][: run.pick(None, 1)]
        calm = {surface.name: flooded.ask(surface) for surface in every}
        # After the calm requests, so that the limits need not cover their memory.
        base_bytes = flooded.memory("VmHWM")
        for metric, size in (
            ("memory at rest", base_bytes),
            ("the sum of the configured limits", flooded.allowed_bytes),
        ):
            yield Row(what="floods", metric=metric, unit="MiB", ours=size / _MIB)
        for surface in every:
            yield from _measure_surface(run, flooded, surface, base_bytes, calm[surface.name])


def _measure_surface(
    run: Run, flooded: Flooded, surface: Surface, base_bytes: int, calm: Report
) -> Iterator[Row]:
    name = surface.name
    yield from percentile_rows(f"{name}, calm", calm.times_ms, of=" of polite clients")
    capacity = _capacity(flooded, surface)
    metric = f"answered, {_CAPACITY_CONNECTIONS} connections"
    yield Row(what=f"{name}, calm", metric=metric, unit="/s", ours=capacity, more_is_better=True)
    plans = flooded.plans(surface, capacity)
    for flood in run.pick([*plans], [Flood.IDLE.value, Flood.OVERSIZED.value]):
        flooded.recover()
        # From rest: the last flood's connections would count towards this peak.
        flooded.begin_peak()
        with ThreadPoolExecutor(1) as threads:
            asking = threads.submit(flooded.ask, surface, _LEAD_SECONDS)
            time.sleep(_LEAD_SECONDS)
            report, polite = flooded.flood(plans[flood]), asking.result()
        peak, what = flooded.memory("VmHWM"), f"{name}, {flood}"
        yield Row(what=what, metric="connections opened", unit="", ours=report.opened)
        if report.offered:
            offered = report.offered / plans[flood].seconds
            yield Row(what=what, metric="requests offered", unit="/s", ours=offered)
        limit = (base_bytes + flooded.allowed_bytes) / _MIB
        yield Row(
            what=what, metric="memory, peak", unit="MiB", ours=peak / _MIB, limit=limit,
            enforced=True,
        )  # fmt: skip
        for outcome, count in sorted(report.outcomes.items()):
            yield Row(what=what, metric=outcome, unit="", ours=count)
        gone = "all connections gone after"
        yield Row(what=what, metric=gone, unit="s", ours=flooded.recover())
        yield from _polite_rows(what, calm, polite)
    yield from _polite_rows(f"{name}, after all floods", calm, flooded.ask(surface))
    memory = flooded.memory("VmRSS") / _MIB
    yield Row(what=f"{name}, after all floods", metric="memory", unit="MiB", ours=memory)


def _capacity(flooded: Flooded, surface: Surface) -> float:
    """Return the answered requests per second without overload."""
    plan = Plan(
        address=flooded.hosts[surface.endpoint],
        protocol=surface.protocol,
        connections=_CAPACITY_CONNECTIONS,
        seconds=flooded.seconds / 2,
        first=surface.opening,
        again=surface.request,
        requests_per_second=_NO_LIMIT_PER_SECOND,
    )
    answered = flooded.flood(plan).outcomes.get(ANSWERED, 0)
    if not answered:
        raise MeasurementError(f"{surface.name} answered nothing")
    return answered / plan.seconds


def _polite_rows(what: str, calm: Report, polite: Report) -> Iterator[Row]:
    """Yield the polite clients' latencies beside those without a flood, and their refusals."""
    of = " of polite clients"
    if polite.times_ms:
        yield from percentile_rows(what, polite.times_ms, calm=calm.times_ms, of=of)
    yield Row(what=what, metric="polite requests refused", unit="", ours=polite.refused)
