"""TLS: decisions over HTTPS, handshakes, and decisions during a flood of them, beside OPA's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from msgspec.structs import replace

from authorizerd.acl.model import Question
from tools.bench.certificates import KeyKind, issue_certificate
from tools.bench.event_loop import measure_stretches_of
from tools.bench.figures import (
    Absent,
    MeasurementError,
    Row,
    percentile_rows,
    pick_from,
    row_of_rounds,
)
from tools.bench.http_decisions import USUAL, USUAL_BATCHES
from tools.bench.loads import FULL, QUICK, Extent
from tools.bench.opa_peer import NAME, ready_opa
from tools.bench.run import Run
from tools.bench.sender import Report, send, send_together
from tools.bench.servers import Load, Server, check_servers, compare_servers, server_of
from tools.bench.sets import kind, kind_with_many_questions
from tools.daemon_process import PATIENT, DaemonProcess, ready_daemon

HANDSHAKES: Final = Load(connections=16, rate=200, is_fresh=True)
"""The connections in progress at a time, each with one request."""
PACE: Final = 200.0
"""Requests per second of the client during a flood."""
NICENESS: Final = 10
_SHAKEN: Final = Extent(rounds=3, seconds=2.0, warm_up=1.0, timed=6.0)


def measure_tls(run: Run) -> Iterator[Row]:
    """Measure decisions with an ECDSA key, and handshakes with each kind of key."""
    acl_set, place = run.pick(kind_with_many_questions(), kind()), run.new_place("tls")
    questions, log_dir = [*acl_set.questions()], run.log_of(acl_set)
    for key in run.pick(tuple(KeyKind), (KeyKind.ECDSA,)):
        certificate = issue_certificate(place, key)
        settings, ca_file = {**PATIENT, **certificate.settings()}, str(certificate.ca_file)
        # One kind of key is enough for decisions and floods: only handshakes depend on it.
        is_first = key is KeyKind.ECDSA
        with ExitStack() as stack:
            opa = stack.enter_context(ready_opa(place, acl_set.acls(), certificate))
            daemon = stack.enter_context(ready_daemon(place / "daemon", log_dir, settings))
            ours, peers = server_of(daemon, ca_file=ca_file), {NAME: opa}
            copied = run.copy_log(acl_set, place / "plain")
            plain = server_of(stack.enter_context(ready_daemon(place / "plain", copied, PATIENT)))
            check_servers(acl_set, questions, ours, opa, plain)
            sides, extent = {"": ours, ", without TLS": plain}, run.pick(FULL, QUICK)
            for load in run.pick((USUAL, USUAL_BATCHES), (USUAL_BATCHES,)) if is_first else ():
                yield from compare_servers("HTTPS", load, extent, questions, sides, peers=peers)
            yield from compare_servers(
                f"handshakes, {key.value}", HANDSHAKES, run.pick(_SHAKEN, QUICK), questions,
                {"": ours}, "handshakes", peers,
            )  # fmt: skip
            if is_first:
                yield from _measure_flood(run, questions, ours, opa)

        def work(daemon: DaemonProcess, *, load: Load, ca_file: str = ca_file) -> None:
            server_of(daemon, ca_file=ca_file).target(questions, load).count(run.pick(3.0, 0.1))

        works = {f"handshakes, {key.value}": HANDSHAKES}
        if is_first:
            works[f"HTTPS, {USUAL_BATCHES}"] = USUAL_BATCHES
        for what, load in works.items():
            yield from measure_stretches_of(
                what, log_dir, place / "daemon", settings, partial(work, load=load),
                rounds=run.pick(3, 1),
            )  # fmt: skip


def _measure_flood(
    run: Run, questions: Sequence[Question], ours: Server, opa: Server | Absent
) -> Iterator[Row]:
    """Yield decisions on open connections, without and during a flood of a lower priority."""
    seconds, lead = run.pick((6.0, 1.0), (0.2, 0.1))

    def ask(server: Server) -> tuple[Report, Report]:
        plan = server.target(questions, USUAL).next_plan(seconds, PACE)
        plan = replace(plan, may_refuse=True)
        flood = server.target(questions, HANDSHAKES).next_plan(seconds + 2 * lead)
        calm = send(plan)
        during, flooding = send_together(
            replace(plan, seconds=seconds + lead, skipped_seconds=lead),
            replace(flood, niceness=NICENESS),
        )
        if not flooding.answered:
            raise MeasurementError(f"{server.api.name}: the flood had no handshake")
        return calm, during

    theirs, mine = pick_from(opa, ask), ask(ours)
    for number, when in enumerate(("before", "during")):
        report, other = mine[number], theirs if isinstance(theirs, Absent) else theirs[number]
        what = f"decisions {when} a flood of handshakes"
        times = pick_from(other, lambda it: it.times_ms)
        refused = pick_from(other, lambda it: [float(it.refused)])
        yield from percentile_rows(what, report.times_ms, NAME, times)
        yield row_of_rounds(what, "refused", "", [float(report.refused)], NAME, refused)
