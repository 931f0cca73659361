"""Benchmark TLS: decisions over HTTPS, handshakes, and decisions during a flood of handshakes.

The peer is Open Policy Agent over HTTPS. Both servers run at the same time and are asked in turn,
in several rounds: the medians of the rounds are compared, and the lines show their range.

**Invariant:** before anything is timed, each server has given the answer of ``acl.decision``. More
questions are asked than the answer cache keeps, so none is answered from the cache.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from authorizerd.acl.builder import build
from authorizerd.acl.model import Question
from ops.bench import authzen
from ops.bench.certificates import Certificate, KeyKind, issue_certificate
from ops.bench.daemon_process import PATIENT, DaemonProcess, ready_daemon
from ops.bench.decisions import collect_answers
from ops.bench.event_loop import measure_stretches_of
from ops.bench.figures import Absent, Line
from ops.bench.flood_load import NICENESS
from ops.bench.handshake_load import HandshakeReport
from ops.bench.http_load import post
from ops.bench.http_surface import Load, Server, ServerFigures
from ops.bench.opa_peer import ready_opa
from ops.bench.polite_client import ClientPlan, ClientReport
from ops.bench.processes import Command, ProcessError, capture_json, cpu_seconds
from ops.bench.rounds import compare, compare_rounds, measure_in_turn
from ops.bench.sets import QUESTIONS, AclSet

LOADS: Final = (
    *(Load(connections=connections, each=1) for connections in (1, 16, 64)),
    Load(connections=16, each=100),
)
HANDSHAKES_AT_ONCE: Final = 16
PACE: Final = 200.0
"""Requests per second of the client during a flood."""

_LEAD_SECONDS: Final = 1.0
_TIMEOUT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The extent of a benchmark: its rounds, the seconds of each measurement, loads and keys."""

    rounds: int
    seconds: float
    loads: Sequence[Load] = LOADS
    keys: Sequence[KeyKind] = tuple(KeyKind)


FULL: Final = Extent(rounds=5, seconds=3.0)
QUICK: Final = Extent(rounds=1, seconds=0.05, loads=LOADS[-1:], keys=(KeyKind.ECDSA,))


class HandshakeFigures(msgspec.Struct, frozen=True):
    """Full handshakes, each with one decision. The CPU is the server's, for one handshake."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float


class FloodFigures(msgspec.Struct, frozen=True):
    """The p99 of decisions on one connection, without and during a flood of handshakes."""

    calm_ms: float
    flooded_ms: float
    refused: float


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
    for kind in extent.keys:
        certificate = issue_certificate(directory, kind)
        with ExitStack() as stack:
            theirs = stack.enter_context(ready_opa(directory, acl_set.acls(), certificate))
            ours = stack.enter_context(_secured(directory, log_dir, certificate))
            for server in (ours, theirs):
                if isinstance(server, Server):
                    server.check(questions[:QUESTIONS], expected)
            if kind is KeyKind.ECDSA:  # one kind is enough: only handshakes depend on the key
                plain = stack.enter_context(_plain(directory / "plain", log_dir))
                plain.check(questions[:QUESTIONS], expected)
                yield from _measure_decisions(ours, theirs, plain, questions, directory, extent)
            bench = _Handshakes(directory, questions, extent)
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
            what, log_dir, directory, settings, run, rounds=bench.extent.rounds
        )


def _measure_decisions(
    ours: Server,
    theirs: Server | Absent,
    plain: Server,
    questions: Sequence[Question],
    directory: Path,
    extent: Extent,
) -> Iterator[Line]:
    for load in extent.loads:
        our, their, without = measure_in_turn(
            extent.rounds,
            (ours, theirs, plain),
            partial(_drive, questions, load, directory, extent.seconds),
        )
        assert not isinstance(our, Absent)
        assert not isinstance(without, Absent)
        what = f"HTTPS, {load}"
        rate = attrgetter("decisions_per_second")
        yield from compare_rounds(f"{what}: decisions", "/s", our, their, rate, more_is_better=True)
        for field, shown, unit in (
            ("p50_ms", "p50", "ms"),
            ("p99_ms", "p99", "ms"),
            ("cpu_us", "CPU for a decision", "µs"),
        ):
            yield compare(f"{what}: {shown}", unit, our, their, attrgetter(field))
        yield Line(what=f"{what}: decisions over HTTP", unit="/s", ours=median(map(rate, without)))


def _drive(
    questions: Sequence[Question], load: Load, directory: Path, seconds: float, server: Server
) -> ServerFigures:
    return server.drive(questions, load, directory, seconds)


class _Handshakes:
    """Measure servers during a flood of handshakes."""

    def __init__(self, directory: Path, questions: Sequence[Question], extent: Extent) -> None:
        self.directory = directory
        self._every_question = questions
        self._questions = questions[:QUESTIONS]
        self.extent = extent

    def measure(self, ours: Server, theirs: Server | Absent, kind: KeyKind) -> Iterator[Line]:
        what = f"handshakes, {kind.value}"
        our, their = measure_in_turn(self.extent.rounds, (ours, theirs), self.count)
        assert not isinstance(our, Absent)
        rate = attrgetter("per_second")
        name = f"{what}: with a decision each"
        yield from compare_rounds(name, "/s", our, their, rate, more_is_better=True)
        for field, shown, unit in (
            ("p50_ms", "p50", "ms"),
            ("p99_ms", "p99", "ms"),
            ("cpu_us", "the server's CPU for each", "µs"),
        ):
            yield compare(f"{what}: {shown}", unit, our, their, attrgetter(field))
        our_flood, their_flood = measure_in_turn(self.extent.rounds, (ours, theirs), self._flood)
        assert not isinstance(our_flood, Absent)
        for field, shown in (("calm_ms", "before"), ("flooded_ms", "during")):
            name = f"{what}: p99 of decisions {shown} a flood"
            yield from compare_rounds(name, "ms", our_flood, their_flood, attrgetter(field))
        name = f"{what}: decisions refused during a flood"
        yield compare(name, "", our_flood, their_flood, attrgetter("refused"))

    def count(self, server: Server) -> HandshakeFigures:
        """Connect and ask once, again and again."""
        before = cpu_seconds(server.process_id)
        command = self._command(server, self.extent.seconds)
        report = capture_json(command, HandshakeReport, timeout_seconds=_TIMEOUT_SECONDS)
        used = cpu_seconds(server.process_id) - before
        if report.failed:
            raise ProcessError(f"{server.surface.name}: {report.failed} handshakes failed")
        load = report.load
        return HandshakeFigures(
            load.requests_per_second, load.p50_ms, load.p99_ms, used / load.requests * 1e6
        )

    def decide(self, server: Server) -> ServerFigures:
        """Ask for decisions on open connections."""
        seconds = self.extent.seconds
        return server.drive(self._every_question, LOADS[-1], self.directory, seconds)

    def _flood(self, server: Server) -> FloodFigures:
        """Ask without a flood, then during one that has a lower priority."""
        seconds = self.extent.seconds
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
        return FloodFigures(calm.p99_ms, asked.p99_ms, sum(asked.refused.values()))

    def _command(self, server: Server, seconds: float) -> Command:
        surface = server.surface
        bodies = self.directory / f"{surface.name}-handshakes.bodies"
        asked = (msgspec.json.encode(surface.one(each)) for each in self._questions)
        bodies.write_bytes(b"\n".join(asked))
        assert server.ca_file is not None
        return [
            sys.executable, "-m", "ops.bench.handshake_load", server.host, surface.one_path,
            bodies, str(HANDSHAKES_AT_ONCE), str(seconds), server.ca_file,
        ]  # fmt: skip

    def _client(self, server: Server, seconds: float, skipped_seconds: float) -> Command:
        surface = server.surface
        body = msgspec.json.encode(surface.one(self._questions[0]))
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
        return [sys.executable, "-m", "ops.bench.polite_client", path]


@contextmanager
def _secured(directory: Path, log_dir: Path, certificate: Certificate) -> Iterator[Server]:
    with ready_daemon(directory / "daemon", log_dir, _settings(certificate)) as daemon:
        yield _server(daemon, certificate)


def _settings(certificate: Certificate) -> dict[str, str]:
    return {**PATIENT, **certificate.settings()}


def _server(daemon: DaemonProcess, certificate: Certificate) -> Server:
    return Server(
        surface=authzen.SURFACE,
        host=daemon.decision_http,
        process_id=daemon.process_id,
        ca_file=certificate.ca_file,
    )


@contextmanager
def _plain(directory: Path, log_dir: Path) -> Iterator[Server]:
    """Run a daemon without TLS on a copy of the log, which the other daemon has locked."""
    shutil.rmtree(directory, ignore_errors=True)
    copy = Path(shutil.copytree(log_dir, directory / "log"))
    with ready_daemon(directory, copy, PATIENT) as daemon:
        yield Server(
            surface=authzen.SURFACE, host=daemon.decision_http, process_id=daemon.process_id
        )
