"""Benchmark TLS: decisions over HTTPS, handshakes, and decisions during a flood of handshakes.

The peer is Open Policy Agent over HTTPS. Both servers run at the same time and are asked in turn,
in several rounds: the medians of the rounds are compared, and the lines show their range.

**Invariant:** before anything is timed, each server has given the answer of ``acl.decision``. The
questions are distinct.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.index.builder import build
from tools.bench import authzen, opa_peer
from tools.bench.certificates import Certificate, KeyKind, issue_certificate
from tools.bench.closed_loop import LoadReport
from tools.bench.daemon_process import PATIENT, DaemonProcess, ready_daemon
from tools.bench.decisions import collect_answers
from tools.bench.event_loop import measure_stretches_of
from tools.bench.figures import Absent, Line
from tools.bench.flood_load import NICENESS
from tools.bench.handshake_load import HandshakeReport
from tools.bench.http_load import post
from tools.bench.http_surface import Asked, Load, Server, ServerFigures
from tools.bench.opa_peer import ready_opa
from tools.bench.polite_client import ClientPlan, ClientReport
from tools.bench.processes import Command, ProcessError, capture_json, cpu_seconds
from tools.bench.rounds import (
    HttpExtent,
    HttpRounds,
    compare,
    compare_latencies,
    compare_loads,
    measure_in_turn,
)
from tools.bench.sets import QUESTIONS, AclSet

LOADS: Final = (Load(connections=16, each=1), Load(connections=16, each=100))
HANDSHAKES_AT_ONCE: Final = 16
PACE: Final = 200.0
"""Requests per second of the client during a flood."""

_LEAD_SECONDS: Final = 1.0
_TIMEOUT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The extent of a benchmark: of decisions, of handshakes and floods, and the keys."""

    http: HttpExtent
    handshake_seconds: float
    flood_seconds: float
    loads: Sequence[Load] = LOADS
    keys: Sequence[KeyKind] = tuple(KeyKind)


FULL: Final = Extent(
    http=HttpExtent(rounds=3, seconds=2.0, warm_up=1.0, cold_seconds=0.0, settings=PATIENT),
    handshake_seconds=3.0,
    flood_seconds=3.5,
)
QUICK: Final = Extent(
    http=HttpExtent(rounds=1, seconds=0.05, warm_up=0.0, cold_seconds=0.0, settings=PATIENT),
    handshake_seconds=0.05,
    flood_seconds=0.05,
    loads=LOADS[-1:],
    keys=(KeyKind.ECDSA,),
)


class HandshakeFigures(msgspec.Struct, frozen=True):
    """Full handshakes, each with one decision. The CPU is the server's, for one handshake."""

    load: LoadReport
    cpu_us: float


class FloodFigures(msgspec.Struct, frozen=True):
    """Decisions on open connections, without and during a flood of handshakes."""

    calm: ClientReport
    flooded: ClientReport


def measure_tls(acl_set: AclSet, log_dir: Path, directory: Path, extent: Extent) -> Iterator[Line]:
    """Yield the lines for decisions, and then those for handshakes with each kind of key.

    Args:
        acl_set: has many distinct questions.
        log_dir: contains a checkpoint of the set.

    Raises:
        DisagreementError: a server answers a question differently.
        ProcessError: the daemon failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    questions = list(acl_set.questions())
    expected = collect_answers(build(acl_set.added()), questions[:QUESTIONS])
    rounds = HttpRounds(Asked(questions, directory), expected, extent.http)
    for kind in extent.keys:
        certificate = issue_certificate(directory, kind)
        bench = _Handshakes(rounds, directory, extent)
        with ExitStack() as stack:
            theirs = stack.enter_context(ready_opa(directory, acl_set.acls(), certificate))
            ours = stack.enter_context(_secured(directory, log_dir, certificate))
            rounds.check(ours, theirs)
            if kind is KeyKind.ECDSA:  # one kind is enough: only handshakes depend on the key
                copied = authzen.copy_log(log_dir, directory / "plain")
                plain = authzen.server_of(
                    stack.enter_context(ready_daemon(directory / "plain", copied, PATIENT))
                )
                rounds.check(plain)
                yield from _measure_decisions(rounds, ours, theirs, plain, extent.loads)
            yield from bench.measure(ours, theirs, kind)
        yield from _measure_loop(bench, log_dir, certificate, kind)


def _measure_loop(
    bench: _Handshakes, log_dir: Path, certificate: Certificate, kind: KeyKind
) -> Iterator[Line]:
    """Yield how long the event loop is held during handshakes and, once, during decisions."""
    works: dict[str, Callable[[Server], object]] = {f"handshakes, {kind.value}": bench.count}
    if kind is KeyKind.ECDSA:
        works[f"HTTPS, {LOADS[-1]}"] = bench.decide
    for what, work in works.items():

        def run(daemon: DaemonProcess, work: Callable[[Server], object] = work) -> None:
            work(_server(daemon, certificate))

        directory, settings = bench.directory / "daemon", _settings(certificate)
        yield from measure_stretches_of(
            what, log_dir, directory, settings, run, rounds=bench.extent.http.rounds
        )


def _measure_decisions(
    rounds: HttpRounds,
    ours: Server,
    theirs: Server | Absent,
    plain: Server,
    loads: Sequence[Load],
) -> Iterator[Line]:
    for load in loads:
        their, our, without = rounds.measure(load, theirs, ours, plain)
        what = rounds.name("HTTPS", load)
        yield from compare_loads(what, our, opa_peer.NAME, their)
        rate = attrgetter("decisions_per_second")
        what = f"{what}: decisions over HTTP"
        yield compare(what, "/s", without, opa_peer.NAME, None, rate, more_is_better=True)


class _Handshakes:
    """Measure servers during a flood of handshakes."""

    def __init__(self, rounds: HttpRounds, directory: Path, extent: Extent) -> None:
        self.directory = directory
        self.extent = extent
        self._rounds = rounds

    def measure(self, ours: Server, theirs: Server | Absent, kind: KeyKind) -> Iterator[Line]:
        what = f"handshakes, {kind.value}"
        count = self.extent.http.rounds
        their, our = measure_in_turn(count, (theirs, ours), self.count)
        yield compare(
            f"{what}: with a decision each", "/s", our, opa_peer.NAME, their,
            lambda figures: figures.load.requests_per_second, more_is_better=True,
        )  # fmt: skip
        yield from compare_latencies(what, our, opa_peer.NAME, their, attrgetter("load"))
        name = f"{what}: the server's CPU for each"
        yield compare(name, "µs", our, opa_peer.NAME, their, attrgetter("cpu_us"))
        if kind is not KeyKind.ECDSA:  # one kind is enough: the flood is the same, only slower
            return
        their_flood, our_flood = measure_in_turn(count, (theirs, ours), self._flood)
        for field, shown in (("calm", "before"), ("flooded", "during")):
            yield from compare_latencies(
                f"{what}, decisions {shown} a flood", our_flood, opa_peer.NAME, their_flood,
                attrgetter(field),
            )  # fmt: skip
        name = f"{what}: decisions refused during a flood"
        yield compare(
            name, "", our_flood, opa_peer.NAME, their_flood,
            lambda figures: sum(figures.flooded.refused.values()),
        )  # fmt: skip

    def count(self, server: Server) -> HandshakeFigures:
        """Connect and ask once, again and again."""
        before = cpu_seconds(server.process_id)
        command = self._command(server, self.extent.handshake_seconds)
        report = capture_json(command, HandshakeReport, timeout_seconds=_TIMEOUT_SECONDS)
        used = cpu_seconds(server.process_id) - before
        if report.failed:
            raise ProcessError(f"{server.surface.name}: {report.failed} handshakes failed")
        return HandshakeFigures(report.load, used / report.load.requests * 1e6)

    def decide(self, server: Server) -> ServerFigures:
        """Ask for decisions on open connections."""
        return server.drive(self._rounds.asked, LOADS[-1], self._rounds.extent.seconds)

    def _flood(self, server: Server) -> FloodFigures:
        """Ask without a flood, then during one that has a lower priority."""
        seconds = self.extent.flood_seconds
        calm = capture_json(
            self._client(server, seconds, 0), ClientReport, timeout_seconds=_TIMEOUT_SECONDS
        )
        lead = min(_LEAD_SECONDS, seconds / 2)
        flood = [*self._command(server, seconds + 2 * lead), str(NICENESS)]
        client = self._client(server, seconds + lead, lead)
        with subprocess.Popen(flood, stdout=subprocess.PIPE) as flooding:
            try:
                asked = capture_json(client, ClientReport, timeout_seconds=_TIMEOUT_SECONDS)
                flooding.communicate(timeout=_TIMEOUT_SECONDS)
            finally:
                flooding.kill()
        if flooding.returncode:
            raise ProcessError(f"{server.surface.name}: the flood of handshakes ended early")
        return FloodFigures(calm, asked)

    def _command(self, server: Server, seconds: float) -> Command:
        surface = server.surface
        bodies = self._rounds.asked.bodies(surface, 1)
        assert server.ca_file is not None
        return [
            sys.executable, "-m", "tools.bench.handshake_load", server.host, surface.one_path,
            bodies, str(HANDSHAKES_AT_ONCE), str(seconds), server.ca_file,
        ]  # fmt: skip

    def _client(self, server: Server, seconds: float, skipped_seconds: float) -> Command:
        surface = server.surface
        body = msgspec.json.encode(surface.one(self._rounds.asked.questions[0]))
        plan = ClientPlan(
            address=server.host,
            outcomes="http",
            opening=b"",
            request=post(server.host, surface.one_path, body),
            requests_per_second=PACE,
            seconds=seconds,
            skipped_seconds=skipped_seconds,
            ca_file=str(server.ca_file),
        )
        path = self.directory / "handshakes.plan"
        path.write_bytes(msgspec.msgpack.encode(plan))
        return [sys.executable, "-m", "tools.bench.polite_client", path]


@contextmanager
def _secured(directory: Path, log_dir: Path, certificate: Certificate) -> Iterator[Server]:
    with ready_daemon(directory / "daemon", log_dir, _settings(certificate)) as daemon:
        yield _server(daemon, certificate)


def _settings(certificate: Certificate) -> dict[str, str]:
    return {**PATIENT, **certificate.settings()}


def _server(daemon: DaemonProcess, certificate: Certificate) -> Server:
    return replace(authzen.server_of(daemon), ca_file=certificate.ca_file)
