"""Floods: clients misbehave towards every interface of one daemon, while polite clients ask.

**Invariant:** the run fails if the peak of the daemon's memory exceeds its memory at rest plus the
sum of the configured limits (``config.bounds``).

The polite clients ask a fixed number of times per second, on connections that they opened before
the flood. Daemon, flood and clients share the machine's cores; the flood has the lowest priority.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from authorizerd.config.bounds import memory_bound_bytes
from authorizerd.config.configuration import parse
from tests.support.daemon_process import wait_until
from tests.support.flood_surfaces import ADMIN, HTTP, KAFKA, OPA, STREAM, Surface, surfaces
from tools.bench.figures import MIB, MeasurementError, Row, percentile_rows, rows
from tools.bench.flood_load import FloodReport, Plan
from tools.bench.protocols import ANSWERED
from tools.bench.run import Run
from tools.bench.sender import Plan as PolitePlan
from tools.bench.sender import Report, run_plan, send
from tools.bench.sets import kind
from tools.daemon_process import DaemonProcess, ready_daemon
from tools.processes import status_bytes

PACE: Final = 320.0
"""Requests per second of all polite clients."""
TIMES: Final = 10
"""The open loop offers this multiple of the measured capacity."""
_LEAD_SECONDS: Final = 1.0
_TIMEOUT_SECONDS: Final = 60.0
_CAPACITY_CONNECTIONS: Final = 16
_NO_LIMIT_PER_SECOND: Final = 1e9
_ANSWER_BYTES_EACH: Final = 512
"""Memory per ACL while a list of all ACLs is created."""
_HELD_BACK: Final = 1024
"""The last bytes of a request of maximum size, which slow writers send one by one."""
_SETTINGS: Final = {
    # Every client may list all ACLs, which is a listener's largest answer.
    "super.users": "User:ANONYMOUS",
    # Short limits, so that slow clients reach them during a run.
    "connections.max.idle.ms": "2000",
    "authorizerd.http.header.timeout.ms": "1500",
}
_CONNECTIONS: Final = (("http", HTTP), ("http", ADMIN), ("stream", STREAM), ("kafka", KAFKA))
_OF: Final = "polite clients"


@dataclass(frozen=True, slots=True)
class Flooded:
    """The daemon to be flooded, and the addresses of its endpoints."""

    run: Run
    daemon: DaemonProcess
    hosts: dict[str, str]

    @property
    def seconds(self) -> float:
        """How long each flood takes: enough for a 99th percentile of the polite clients."""
        return self.run.pick(3.3, 0.5)

    def memory(self, name: str) -> float:
        """Return the daemon's resident memory (``VmRSS``) or its peak (``VmHWM``), in MiB."""
        return status_bytes(self.daemon.process_id, name) / MIB

    def ask(self, surface: Surface, lead_seconds: float = 0.0) -> Report:
        """Run the polite clients."""
        return send(
            PolitePlan(
                address=self.hosts[surface.endpoint], protocol=surface.protocol,
                opening=surface.opening, requests=[surface.request], rate=PACE,
                seconds=lead_seconds + self.seconds, skipped_seconds=lead_seconds, may_refuse=True,
            )
        )  # fmt: skip

    def flood(self, plan: Plan) -> FloodReport:
        """Run a flood to its end."""
        return run_plan("flood_load", plan, FloodReport, _TIMEOUT_SECONDS + plan.seconds)

    def recover(self) -> float:
        """Wait until all connections are closed; return how long that took."""
        started = time.monotonic()
        names = [f'{name}_connections{{listener="{of}"}}' for name, of in _CONNECTIONS]

        def are_closed() -> bool:  # except the connection of this request
            return sum(self.daemon.metric(f"authorizerd_{name}") for name in names) <= 1

        wait_until(are_closed, "no connection is open after a flood", _TIMEOUT_SECONDS, 0.1)
        return time.monotonic() - started

    def capacity(self, surface: Surface) -> float:
        """Return the answered requests per second without overload."""
        plan = replace(
            self._plan(surface, _CAPACITY_CONNECTIONS), seconds=self.seconds / 2,
            first=surface.opening, again=surface.request, requests_per_second=_NO_LIMIT_PER_SECOND,
        )  # fmt: skip
        answered = self.flood(plan).outcomes.get(ANSWERED, 0)
        if not answered:
            raise MeasurementError(f"{surface.name} answered nothing")
        return answered / plan.seconds

    def _plan(self, surface: Surface, connections: int) -> Plan:
        return Plan(
            address=self.hosts[surface.endpoint], protocol=surface.protocol,
            connections=connections, seconds=self.seconds,
        )  # fmt: skip

    def plans(self, surface: Surface, capacity: float) -> dict[str, Plan]:
        """Return every flood of an interface, by name.

        *Idle* clients connect and send nothing. *Slow readers* request large answers and read
        nothing. *Slow writers* send most of a large request, and its end slowly. *Oversized*
        clients announce a request above the limit, and *endless* ones never finish a request; both
        reconnect when they are refused. An open loop offers a multiple of the ``capacity``.
        """
        idle, slow, callers = self.run.pick((2000, 250, 256), (50, 5, 8))
        opening, some = surface.opening, self._plan(surface, slow)
        many = replace(self._plan(surface, callers), first=opening, reconnects=True)
        plans = {
            "idle": self._plan(surface, idle),
            "slow readers": replace(some, first=opening, again=surface.costly, reads=False),
            "slow writers": replace(
                some, first=opening + surface.largest[:-_HELD_BACK], trickle=b" "
            ),
            "oversized": replace(many, first=opening + surface.oversized),
        }
        if surface.endpoint != ADMIN:  # it is loopback only, and has no rate limit
            rate = TIMES * capacity
            plans[f"{TIMES} times the rate"] = replace(
                many, again=surface.request, requests_per_second=rate, reconnects=False
            )
        for number, (first, again) in enumerate(surface.endless):
            name = "endless, chunks" if number else "endless"
            plans[name] = replace(many, first=opening + first, again=again)
        return plans


def measure_floods(run: Run) -> Iterator[Row]:
    """Measure every flood of every interface. OPA's API shares its port and server with AuthZEN."""
    place = run.new_place("floods")
    with ready_daemon(place, run.log_of(kind()), _SETTINGS) as daemon:
        hosts = {
            HTTP: daemon.decision_http,
            STREAM: daemon.decision_stream,
            ADMIN: daemon.admin_http,
            KAFKA: daemon.listeners[KAFKA],
        }
        configuration = parse((place / "server.properties").read_text(), source="floods")
        acls = sum(1 for _ in kind().acls())
        allowed = memory_bound_bytes(configuration, acls * _ANSWER_BYTES_EACH) / MIB
        flooded = Flooded(run, daemon, hosts)
        every = surfaces(configuration, next(kind().questions()), hosts)
        every = [each for each in every if each.name != OPA][: run.pick(None, 1)]
        calm = {surface.name: flooded.ask(surface) for surface in every}
        # After the calm requests, so that their memory counts as memory at rest.
        base = flooded.memory("VmHWM")
        figures = ("memory at rest", "MiB", base), ("sum of the configured limits", "MiB", allowed)
        yield from rows("floods", *figures)
        for surface in every:
            yield from _measure_surface(flooded, surface, base + allowed, calm[surface.name])


def _measure_surface(
    flooded: Flooded, surface: Surface, limit: float, calm: Report
) -> Iterator[Row]:
    capacity, alone = flooded.capacity(surface), f"{surface.name}, without a flood"
    yield from percentile_rows(alone, calm.times_ms, of=_OF)
    metric = f"answered, {_CAPACITY_CONNECTIONS} connections"
    yield Row(what=alone, metric=metric, unit="/s", ours=capacity, more_is_better=True)
    plans = flooded.plans(surface, capacity)
    for flood in flooded.run.pick([*plans], ["idle", "oversized"]):
        flooded.recover()
        # Start from rest, and reset the peak: otherwise the previous flood's connections would
        # count towards it. Source: proc(5), ``/proc/<pid>/clear_refs``.
        Path(f"/proc/{flooded.daemon.process_id}/clear_refs").write_text("5")
        with ThreadPoolExecutor(1) as threads:
            asking = threads.submit(flooded.ask, surface, _LEAD_SECONDS)
            time.sleep(_LEAD_SECONDS)
            report, polite = flooded.flood(plans[flood]), asking.result()
        peak, what = flooded.memory("VmHWM"), f"{surface.name}, {flood}"
        yield Row(
            what=what, metric="memory, peak", unit="MiB", ours=peak, limit=limit, enforced=True
        )
        yield from rows(what, ("connections opened", "", report.opened))
        if report.offered:
            offered = report.offered / plans[flood].seconds
            yield from rows(what, ("requests offered", "/s", offered))
        yield from rows(what, *((name, "", each) for name, each in sorted(report.outcomes.items())))
        yield from rows(what, ("all connections gone after", "s", flooded.recover()))
        yield from _polite_rows(what, calm, polite)
    yield from _polite_rows(alone, calm, flooded.ask(surface), f"{_OF} after all floods")
    yield from rows(alone, ("memory after all floods", "MiB", flooded.memory("VmRSS")))


def _polite_rows(what: str, calm: Report, polite: Report, of: str = _OF) -> Iterator[Row]:
    """Yield the polite clients' latencies with and without a flood, and their refusals."""
    if polite.times_ms:
        yield from percentile_rows(what, polite.times_ms, calm=calm.times_ms, of=of)
    yield from rows(what, ("polite requests refused", "", polite.refused))
