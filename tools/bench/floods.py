"""Floods: clients misbehave towards every interface of one daemon, while polite clients ask.

    python -m tools.bench.floods [--quick] [--directory DIRECTORY]

**Invariant:** the run fails if the peak of the daemon's memory exceeds its memory at rest plus the
sum of the configured limits (``config.bounds``).

The polite clients ask a fixed number of times per second, on connections that they opened before
the flood. Daemon, flood and clients share the machine's cores; the flood has the lowest priority.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.config.bounds import memory_bound_bytes
from authorizerd.config.configuration import Configuration, parse
from tools.bench.checkpoint import write_checkpoint
from tools.bench.daemon_process import DaemonProcess, ready_daemon
from tools.bench.figures import Line, format_table
from tools.bench.flood_load import Flood, FloodReport, Plan
from tools.bench.flood_surfaces import ADMIN, ANSWERED, HTTP, KAFKA, OPA, STREAM, Surface, surfaces
from tools.bench.machine import describe_machine
from tools.bench.polite_client import ClientPlan, ClientReport
from tools.bench.processes import ProcessError, capture_json, status_bytes
from tools.bench.rounds import percents
from tools.bench.sets import AclSet, kind

PACE: Final = 320.0
"""Requests per second of all polite clients."""

TIMES: Final = 10
"""The open loop offers this multiple of the measured rate."""

_LEAD_SECONDS: Final = 1.0
_TIMEOUT_SECONDS: Final = 60.0
_RECOVERY_SECONDS: Final = 60.0
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The size of the floods: ``slow`` is the number of slow readers, and of slow writers.

    ``left_out`` names interfaces that are not flooded. If ``is_whole`` is False, only one is
    flooded, in two ways.
    """

    idle: int
    slow: int
    callers: int
    seconds: float
    left_out: frozenset[str] = frozenset()
    is_whole: bool = True


WHOLE: Final = Extent(idle=2000, slow=250, callers=256, seconds=4.0)
FULL: Final = replace(WHOLE, seconds=3.3, left_out=frozenset({OPA}))
"""Without OPA's API, which shares its port and its server with AuthZEN."""
QUICK: Final = Extent(idle=50, slow=5, callers=8, seconds=0.5, is_whole=False)


class Flooded:
    """A daemon that is flooded, its memory, and the memory that it may use."""

    def __init__(
        self, daemon: DaemonProcess, configuration: Configuration, acls: int, directory: Path
    ) -> None:
        self._daemon = daemon
        self._directory = directory
        ready = msgspec.json.decode((directory / "ready.json").read_bytes())
        self.hosts: Final[dict[str, str]] = {
            HTTP: daemon.decision_http,
            STREAM: daemon.decision_stream,
            ADMIN: daemon.admin_http,
            KAFKA: ready["listeners"][KAFKA],
        }
        self.base_bytes = 0
        self.allowed_bytes = memory_bound_bytes(configuration, acls * _ANSWER_BYTES_EACH)

    def begin_peak(self) -> None:
        """Reset the peak of the memory. Source: proc(5), ``/proc/<pid>/clear_refs``."""
        Path(f"/proc/{self._daemon.process_id}/clear_refs").write_text("5")

    def peak_bytes(self) -> int:
        return status_bytes(self._daemon.process_id, "VmHWM")

    def resident_bytes(self) -> int:
        return status_bytes(self._daemon.process_id, "VmRSS")

    def open_connections(self) -> int:
        """Return the number of open connections, except the one of this request."""
        names = (("http", HTTP), ("http", ADMIN), ("stream", STREAM), ("kafka", KAFKA))
        return (
            sum(
                int(self._daemon.metric(f'authorizerd_{kind}_connections{{listener="{name}"}}'))
                for kind, name in names
            )
            - 1
        )

    def ask(self, surface: Surface, seconds: float, *, skipped_seconds: float = 0) -> ClientReport:
        """Run the polite clients without a flood."""
        with self.asking(surface, seconds, skipped_seconds=skipped_seconds) as client:
            return _report(client, ClientReport)

    @contextmanager
    def asking(
        self, surface: Surface, seconds: float, *, skipped_seconds: float = 0
    ) -> Iterator[subprocess.Popen[bytes]]:
        plan = ClientPlan(
            address=self.hosts[surface.endpoint],
            outcomes=surface.outcomes,
            opening=surface.opening,
            request=surface.request,
            requests_per_second=PACE,
            seconds=seconds,
            skipped_seconds=skipped_seconds,
        )
        path = self._directory / "client.plan"
        path.write_bytes(msgspec.msgpack.encode(plan))
        command: list[str | Path] = [sys.executable, "-m", "tools.bench.polite_client", path]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
            try:
                yield client
            finally:
                client.kill()

    def flood(self, plan: Plan) -> FloodReport:
        path = self._directory / "flood.plan"
        path.write_bytes(msgspec.msgpack.encode(plan))
        command: list[str | Path] = [sys.executable, "-m", "tools.bench.flood_load", path]
        return capture_json(command, FloodReport, timeout_seconds=_TIMEOUT_SECONDS + plan.seconds)

    def recover(self) -> float:
        """Wait until all connections are closed; return how long that took.

        Raises:
            ProcessError: some stay open.
        """
        started = time.monotonic()
        while left := self.open_connections():
            if time.monotonic() - started > _RECOVERY_SECONDS:
                raise ProcessError(f"{left} connections are still open after a flood")
            time.sleep(0.1)
        return time.monotonic() - started


def _report(client: subprocess.Popen[bytes], kind: type[ClientReport]) -> ClientReport:
    printed, _ = client.communicate(timeout=_TIMEOUT_SECONDS)
    try:
        return msgspec.json.decode(printed, type=kind)
    except msgspec.MsgspecError as error:
        raise ProcessError(f"the polite clients: {error}") from error


def flood_plans(surface: Surface, host: str, extent: Extent, capacity: float) -> dict[str, Plan]:
    """Return every flood of an interface by name."""

    def plan(connections: int, **fields: object) -> Plan:
        known = {"address": host, "outcomes": surface.outcomes, "seconds": extent.seconds}
        return msgspec.convert({**known, "connections": connections, **fields}, Plan)

    opening = surface.opening
    plans = {
        Flood.IDLE.value: plan(extent.idle),
        Flood.READERS.value: plan(extent.slow, first=opening, again=surface.costly, reads=False),
        Flood.WRITERS.value: plan(
            extent.slow, first=opening + surface.largest[:-_HELD_BACK], trickle=b" "
        ),
        Flood.OVERSIZED.value: plan(
            extent.callers, first=opening + surface.oversized, reconnects=True
        ),
    }
    if surface.endpoint != ADMIN:  # it is loopback only, and limits no rate
        plans[f"{TIMES} times the rate"] = plan(
            extent.callers,
            first=opening,
            again=surface.request,
            requests_per_second=TIMES * capacity,
        )
    for number, (first, again) in enumerate(surface.endless):
        name = Flood.ENDLESS.value if not number else f"{Flood.ENDLESS.value}, chunks"
        plans[name] = plan(extent.callers, first=opening + first, again=again, reconnects=True)
    if not extent.is_whole:
        plans = {flood.value: plans[flood.value] for flood in (Flood.IDLE, Flood.OVERSIZED)}
    return plans


def measure_floods(
    acl_set: AclSet, log_dir: Path, directory: Path, extent: Extent
) -> Iterator[Line]:
    """Yield the lines of every flood of every interface.

    Args:
        log_dir: holds a checkpoint of the set.

    Raises:
        ProcessError: the daemon ended or did not recover.
    """
    with ready_daemon(directory, log_dir, _SETTINGS) as daemon:
        configuration = parse((directory / "server.properties").read_text(), source="floods")
        acls = sum(1 for _ in acl_set.acls())
        flooded = Flooded(daemon, configuration, acls, directory)
        question = next(acl_set.questions())
        known = surfaces(configuration, question, flooded.hosts)[: None if extent.is_whole else 1]
        every = [surface for surface in known if surface.name not in extent.left_out]
        calm = {surface.name: flooded.ask(surface, extent.seconds) for surface in every}
        # After the calm requests, so that the limits need not cover their memory.
        flooded.base_bytes = flooded.peak_bytes()
        yield _mib("floods: memory at rest", flooded.base_bytes)
        yield _mib("floods: the sum of the configured limits", flooded.allowed_bytes)
        for surface in every:
            yield from _measure_surface(flooded, surface, extent, calm[surface.name])


def _measure_surface(
    flooded: Flooded, surface: Surface, extent: Extent, calm: ClientReport
) -> Iterator[Line]:
    name, host = surface.name, flooded.hosts[surface.endpoint]
    for percent in percents([calm]):
        what = f"{name}, calm: p{percent} of polite clients"
        yield Line(what=what, unit="ms", ours=calm.at(percent))
    capacity = _capacity(flooded, surface, extent)
    yield Line(
        what=f"{name}: requests that are answered, {_CAPACITY_CONNECTIONS} connections",
        unit="/s",
        ours=capacity,
        more_is_better=True,
    )
    for flood, plan in flood_plans(surface, host, extent, capacity).items():
        flooded.recover()
        # From rest: the last flood's connections would count towards this peak.
        flooded.begin_peak()
        lead = _LEAD_SECONDS + extent.seconds
        with flooded.asking(surface, lead, skipped_seconds=_LEAD_SECONDS) as client:
            time.sleep(_LEAD_SECONDS)
            report = flooded.flood(plan)
            polite = _report(client, ClientReport)
        peak = flooded.peak_bytes()
        recovery_s = flooded.recover()
        what = f"{name}, {flood}"
        yield from _daemon_lines(what, flooded, plan, report, peak, recovery_s)
        yield from _polite_lines(what, calm, polite)
    after = flooded.ask(surface, extent.seconds)
    yield from _polite_lines(f"{name}, after all floods", calm, after)
    yield _mib(f"{name}, after all floods: memory", flooded.resident_bytes())


def _capacity(flooded: Flooded, surface: Surface, extent: Extent) -> float:
    """Return the answered requests per second without overload."""
    plan = Plan(
        address=flooded.hosts[surface.endpoint],
        outcomes=surface.outcomes,
        connections=_CAPACITY_CONNECTIONS,
        seconds=extent.seconds / 2,
        first=surface.opening,
        again=surface.request,
        requests_per_second=_NO_LIMIT_PER_SECOND,
    )
    report = flooded.flood(plan)
    return report.outcomes.get(ANSWERED, 0) / plan.seconds


def _daemon_lines(
    what: str, flooded: Flooded, plan: Plan, report: FloodReport, peak: int, recovery_s: float
) -> Iterator[Line]:
    yield Line(what=f"{what}: connections opened", unit="", ours=report.opened)
    if report.offered:
        offered = report.offered / plan.seconds
        yield Line(what=f"{what}: requests offered", unit="/s", ours=offered)
    yield Line(
        what=f"{what}: memory, peak",
        unit="MiB",
        ours=peak / _MIB,
        limit=(flooded.base_bytes + flooded.allowed_bytes) / _MIB,
        enforced=True,
    )
    for outcome, count in sorted(report.outcomes.items()):
        if count:
            yield Line(what=f"{what}: {outcome}", unit="", ours=count)
    yield Line(what=f"{what}: all connections gone after", unit="s", ours=recovery_s)


def _polite_lines(what: str, calm: ClientReport, polite: ClientReport) -> Iterator[Line]:
    """Yield the polite clients' latencies beside those without a flood, and their refusals."""
    for percent in percents([calm], [polite]):
        yield Line(
            what=f"{what}: p{percent} of polite clients",
            unit="ms",
            ours=polite.at(percent),
            calm=calm.at(percent),
        )
    refused = sum(polite.refused.values())
    shown = f"{what}: refused, of {polite.timed + refused:,} polite requests"
    yield Line(what=shown, unit="", ours=refused)


def _mib(what: str, size: int) -> Line:
    return Line(what=what, unit="MiB", ours=size / _MIB)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.floods")
    parser.add_argument("--quick", action="store_true", help="two small floods")
    parser.add_argument(
        "--directory", type=Path, default=Path(".run"), help="for files (default: %(default)s)"
    )
    arguments = parser.parse_args()
    directory = arguments.directory.absolute() / "bench" / "floods"
    machine, acl_set = describe_machine(), kind()
    log_dir = directory / acl_set.name
    write_checkpoint(log_dir, acl_set.added())
    lines: list[Line] = []
    try:
        extent = QUICK if arguments.quick else WHOLE
        for line in measure_floods(acl_set, log_dir, directory, extent):
            print(f"floods: {line.what}: {line.ours:.3g} {line.unit}", file=sys.stderr, flush=True)
            lines.append(line)
    except ProcessError as error:
        print(f"floods: {error}", file=sys.stderr)
        return 1
    print(f"{machine}\n\n{format_table(lines)}")
    return 1 if any(line.is_broken for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
