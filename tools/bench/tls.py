"""TLS: decisions over HTTPS, handshakes, and decisions during a flood of them, beside OPA's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final

from msgspec.structs import replace

from authorizerd.acl.model import Question
from tools.bench.certificates import KeyKind, issue_certificate
from tools.bench.event_loop import measure_stretches_of
from tools.bench.figures import Absent, MeasurementError, Row, percentile_rows, row_of_rounds
from tools.bench.http_decisions import USUAL, USUAL_BATCHES, expected_answers
from tools.bench.opa_peer import NAME, ready_opa
from tools.bench.run import Run
from tools.bench.sender import Report, send, send_together
from tools.bench.servers import Extent, Load, Server, compare_loads, server_of
from tools.bench.sets import kind, kind_with_many_questions
from tools.daemon_process import PATIENT, DaemonProcess, ready_daemon
from tools.processes import cpu_seconds

HANDSHAKES: Final = Load(connections=16, rate=200)
"""The connections in progress at a time, each with one request."""
PACE: Final = 200.0
"""Requests per second of the client during a flood."""
NICENESS: Final = 10
_FULL: Final = Extent(rounds=2, seconds=2.0, warm_up=1.0, timed=3.0)
_QUICK: Final = Extent(rounds=1, seconds=0.1, warm_up=0.0, timed=0.1)

_Sides = Sequence[Server | Absent]


def measure_tls(run: Run) -> Iterator[Row]:
    """Measure decisions with an ECDSA key, and handshakes with each kind of key."""
    acl_set, place = run.pick(kind_with_many_questions(), kind()), run.new_place("tls")
    questions, expected = [*acl_set.questions()], expected_answers(acl_set)
    log_dir = run.log_of(acl_set)
    for key in run.pick(tuple(KeyKind), (KeyKind.ECDSA,)):
        certificate = issue_certificate(place, key)
        settings = {**PATIENT, **certificate.settings()}
        ca_file = str(certificate.ca_file)
        with ExitStack() as stack:
            theirs = stack.enter_context(ready_opa(place, acl_set.acls(), certificate))
            daemon = stack.enter_context(ready_daemon(place / "daemon", log_dir, settings))
            ours = server_of(daemon, ca_file=ca_file)
            copied = run.copy_log(acl_set, place / "plain")
            plain = server_of(stack.enter_context(ready_daemon(place / "plain", copied, PATIENT)))
            for server in (ours, theirs, plain):
                if isinstance(server, Server):
                    server.check(questions[: len(expected)], expected)
            # One kind of key is enough for decisions and floods: only handshakes depend on it.
            if key is KeyKind.ECDSA:
                yield from _measure_decisions(run, questions, ours, theirs, plain)
            yield from _measure_handshakes(run, key, questions, (theirs, ours))
            if key is KeyKind.ECDSA:
                yield from _measure_flood(run, questions, (theirs, ours))
        works = {f"handshakes, {key.value}": HANDSHAKES}
        if key is KeyKind.ECDSA:
            works[f"HTTPS, {USUAL_BATCHES}"] = USUAL_BATCHES
        for what, load in works.items():

            def work(daemon: DaemonProcess, load: Load = load, ca_file: str = ca_file) -> None:
                server = server_of(daemon, ca_file=ca_file)
                if load is HANDSHAKES:
                    _shake(server, questions, run.pick(3.0, 0.1))
                else:
                    server.count(questions, load, run.pick(2.0, 0.1))

            rounds = run.pick(3, 1)
            yield from measure_stretches_of(
                what, log_dir, place / "daemon", settings, work, rounds=rounds
            )


def _measure_decisions(
    run: Run, questions: Sequence[Question], ours: Server, theirs: Server | Absent, plain: Server
) -> Iterator[Row]:
    for load in run.pick((USUAL, USUAL_BATCHES), (USUAL_BATCHES,)):
        sides = [("", ours), (", without TLS", plain)]
        extent = run.pick(_FULL, _QUICK)
        yield from compare_loads("HTTPS", load, extent, questions, sides, NAME, theirs)


def _shake(
    server: Server,
    questions: Sequence[Question],
    seconds: float,
    rate: float = 0.0,
    **more: Any,  # noqa: ANN401
) -> Report:
    """Open connections, each with a full handshake and one decision."""
    return send(server.plan(questions, HANDSHAKES, seconds, rate=rate, is_fresh=True, **more))


def _measure_handshakes(
    run: Run, key: KeyKind, questions: Sequence[Question], sides: _Sides
) -> Iterator[Row]:
    """Yield the rate and the CPU of each, then latencies at a fixed rate."""
    rates: list[list[float]] = [[] for _ in sides]
    cpu_us: list[list[float]] = [[] for _ in sides]
    times_ms: list[list[float]] = [[] for _ in sides]
    rounds, seconds, timed = run.pick((3, 3.0, 2.0), (1, 0.1, 0.1))
    for _ in range(rounds):
        for number, server in enumerate(sides):
            if isinstance(server, Server):
                before = cpu_seconds(server.process_id)
                report = _shake(server, questions, seconds)
                used = cpu_seconds(server.process_id) - before
                rates[number].append(report.per_second)
                cpu_us[number].append(used / report.asked * 1e6)
                times_ms[number] += _shake(server, questions, timed, HANDSHAKES.rate).times_ms
    what, metrics = (
        f"handshakes, {key.value}",
        ("with a decision each", "the server's CPU for each"),
    )
    for metric, unit, found in zip(metrics, ("/s", "µs"), (rates, cpu_us), strict=True):
        theirs = _or_absent(sides[0], found[0])
        is_rate = unit == "/s"
        yield row_of_rounds(what, metric, unit, found[1], NAME, theirs, more_is_better=is_rate)
    theirs = _or_absent(sides[0], times_ms[0])
    yield from percentile_rows(what, times_ms[1], NAME, theirs, of=f" at {HANDSHAKES.rate:g}/s")


def _or_absent(server: Server | Absent, figures: list[float]) -> list[float] | Absent:
    return server if isinstance(server, Absent) else figures


def _measure_flood(run: Run, questions: Sequence[Question], sides: _Sides) -> Iterator[Row]:
    """Yield decisions on open connections, without and during a flood of a lower priority."""
    seconds, lead = run.pick((6.0, 1.0), (0.2, 0.1))
    reports: dict[str, list[Report | Absent]] = {"before": [], "during": []}
    for server in sides:
        if isinstance(server, Absent):
            reports["before"].append(server)
            reports["during"].append(server)
            continue
        plan = server.plan(questions, USUAL, seconds, rate=PACE, may_refuse=True)
        reports["before"].append(send(plan))
        asking = replace(plan, seconds=seconds + lead, skipped_seconds=lead)
        flood = server.plan(
            questions, HANDSHAKES, seconds + 2 * lead, is_fresh=True, niceness=NICENESS
        )
        during, flooding = send_together(asking, flood)
        if not flooding.answered:
            raise MeasurementError(f"{server.api.name}: the flood had no handshake")
        reports["during"].append(during)
    for when, (theirs, ours) in reports.items():
        assert isinstance(ours, Report)
        what = f"decisions {when} a flood of handshakes"
        their_ms = theirs if isinstance(theirs, Absent) else theirs.times_ms
        yield from percentile_rows(what, ours.times_ms, NAME, their_ms)
        refused = theirs if isinstance(theirs, Absent) else [float(theirs.refused)]
        yield row_of_rounds(what, "refused", "", [float(ours.refused)], NAME, refused)
