"""New connections: TLS handshakes compared with OPA, decisions meanwhile, and SCRAM logins."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from msgspec.structs import replace
from trustme import KeyType

from authorizerd.acl.model import Question
from authorizerd.protocol.records.scram import ScramMechanism
from tests.support.certificates import Authority
from tools.bench.decisions import USUAL, USUAL_BATCHES
from tools.bench.event_loop import measure_stretches_of
from tools.bench.figures import (
    Absent,
    MeasurementError,
    Row,
    percentile_rows,
    pick_from,
    row_of_rounds,
)
from tools.bench.loads import FULL, QUICK, Extent, Load, Process, Target, compare
from tools.bench.peers import OPA, ready_opa
from tools.bench.protocols import scram_opening
from tools.bench.run import Run
from tools.bench.sender import Plan, Report, send, send_together
from tools.bench.servers import Server, check_servers, compare_servers, server_of
from tools.bench.sets import HOST, MANY_QUESTIONS, QUESTIONS, kind
from tools.daemon_process import PATIENT, DaemonProcess, format_log, ready_daemon

HANDSHAKES: Final = Load(connections=16, rate=200, is_fresh=True)
"""Concurrent connections, each with one request."""
RESUMED: Final = dataclasses.replace(HANDSHAKES, resumes=True)
PACE: Final = 200.0
"""Requests per second of the client during a flood."""
_KEYS: Final = {"ECDSA P-256": KeyType.ECDSA, "RSA-2048": KeyType.RSA}
_FULL: Final = Extent(rounds=3, seconds=2.0, warm_up=1.0, timed=6.0)
_USER: Final = "bench"
_LISTENER: Final = "SASL_PLAINTEXT"
_LOG_INS: Final = {
    "listeners": f"{_LISTENER}://{HOST}:0",
    "sasl.enabled.mechanisms": ",".join(mechanism.text for mechanism in ScramMechanism),
}


def measure_tls(run: Run) -> Iterator[Row]:
    """Measure decisions with an ECDSA key, and handshakes with each kind of key."""
    acl_set, place = kind(run.pick(MANY_QUESTIONS, QUESTIONS)), run.new_place("tls")
    questions, log_dir = [*acl_set.questions()], run.log_of(acl_set)
    for key, key_type in [*_KEYS.items()][: run.pick(None, 1)]:
        authority = Authority(place, key_type=key_type)
        settings = {**PATIENT, "authorizerd.decision.http": f"https://{HOST}:0"}
        settings |= authority.server_keys()
        server = partial(server_of, ca_file=str(authority.ca_file))
        # One kind of key is enough for decisions and floods: only handshakes depend on it.
        is_first = key_type is KeyType.ECDSA
        with ExitStack() as stack:
            opa = stack.enter_context(ready_opa(place, acl_set.acls(), authority))
            ours = server(stack.enter_context(ready_daemon(place / "daemon", log_dir, settings)))
            copied, peers = run.copy_log(acl_set, place / "plain"), {OPA: opa}
            plain = server_of(stack.enter_context(ready_daemon(place / "plain", copied, PATIENT)))
            check_servers(acl_set, questions, ours, opa, plain)
            sides, extent = {"": ours, ", without TLS": plain}, run.pick(FULL, QUICK)
            for load in run.pick((USUAL, USUAL_BATCHES), (USUAL_BATCHES,)) if is_first else ():
                yield from compare_servers("HTTPS", load, extent, questions, sides, peers=peers)
            for what, load in (("handshakes", HANDSHAKES), ("resumed handshakes", RESUMED)):
                yield from compare_servers(
                    f"{what}, {key}", load, run.pick(_FULL, QUICK), questions, {"": ours},
                    "handshakes", peers,
                )  # fmt: skip
            if is_first:
                yield from _measure_flood(run, questions, ours, opa)
        works = (f"handshakes, {key}", HANDSHAKES), (f"HTTPS, {USUAL_BATCHES}", USUAL_BATCHES)
        for what, load in works if is_first else works[:1]:

            def target(daemon: DaemonProcess, load: Load = load) -> Target:
                return server(daemon).target(questions, load)  # noqa: B023 - used at once

            yield from measure_stretches_of(
                what, log_dir, place / "daemon", settings, target, rounds=run.pick(3, 1),
                seconds=run.pick(3.0, 0.1),
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
            replace(flood, niceness=10),
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
        yield from percentile_rows(what, report.times_ms, OPA, times)
        yield row_of_rounds(what, "refused", "", [float(report.refused)], OPA, refused)


def measure_log_ins(run: Run) -> Iterator[Row]:
    """Measure each mechanism, and the event loop's longest step meanwhile."""
    place, password = run.new_place("log-ins"), secrets.token_urlsafe()
    log_dir, extent = place / "log", run.pick(_FULL, QUICK)
    users = [f"{each.text}=[name={_USER},password={password}]" for each in ScramMechanism]
    format_log(
        place, log_dir, _LOG_INS, *(word for user in users for word in ("--add-scram", user))
    )
    for mechanism in run.pick(tuple(ScramMechanism), (ScramMechanism.SCRAM_SHA_512,)):
        target, name = partial(_log_in, mechanism=mechanism, password=password), mechanism.text
        with ready_daemon(place, log_dir, _LOG_INS) as daemon:
            what = f"{name}, {HANDSHAKES.connections} at a time"
            yield from compare(what, extent, {"": target(daemon)}, "log-ins")
        yield from measure_stretches_of(
            f"{name} log-ins", log_dir, place, _LOG_INS, target, rounds=extent.rounds,
            seconds=extent.seconds,
        )  # fmt: skip


def _log_in(daemon: DaemonProcess, *, mechanism: ScramMechanism, password: str) -> Target:
    plan = Plan(
        address=daemon.listeners[_LISTENER], requests=[scram_opening(mechanism)], seconds=0,
        protocol=f"scram:{mechanism.name}:{_USER}:{password}",
    )  # fmt: skip
    load = Load(connections=HANDSHAKES.connections, rate=400, is_fresh=True)
    return Target(process=Process(daemon.process_id), plan=plan, load=load)
