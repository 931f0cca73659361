"""Decisions over HTTP: the daemon, Open Policy Agent and OpenFGA, with the same ACLs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

import msgspec

from authorizerd.acl.decision import authorize
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Question
from tools.bench import openfga_peer
from tools.bench.figures import Row
from tools.bench.opa_peer import NAME as OPA
from tools.bench.opa_peer import ready_opa
from tools.bench.openfga_peer import is_expressible, ready_openfga
from tools.bench.run import Run
from tools.bench.servers import (
    PLUGIN,
    SETTINGS,
    Extent,
    Load,
    Server,
    collect_answers,
    compare_loads,
    name_load,
    server_of,
)
from tools.bench.sets import QUESTIONS, AclSet, kind, kind_with_many_questions
from tools.daemon_process import PATIENT, DaemonProcess, ready_daemon, write_token

WORKERS: Final = 2
USUAL: Final = Load(connections=16, rate=1000)
USUAL_BATCHES: Final = Load(connections=16, each=100, rate=100)
LOADS: Final = (
    Load(connections=1, rate=500),
    USUAL,
    Load(connections=64, rate=1000),
    Load(connections=1, each=100, rate=50),
    USUAL_BATCHES,
)
FULL: Final = Extent(rounds=2, seconds=2.0, warm_up=1.0, timed=3.0)
QUICK: Final = Extent(rounds=1, seconds=0.1, warm_up=0.0, timed=0.1)
_COLD: Final = Extent(rounds=1, seconds=2.0, warm_up=0.0, timed=2.0)
_OPENFGA: Final = (
    (Load(connections=1, rate=100), Extent(rounds=2, seconds=2.0, warm_up=1.0, timed=12.0)),
    (Load(connections=16, rate=200), Extent(rounds=2, seconds=2.0, warm_up=1.0, timed=6.0)),
    (Load(connections=64, rate=200), Extent(rounds=2, seconds=2.0, warm_up=1.0, timed=6.0)),
    # OpenFGA takes a second and more for such a batch while it answers 16 of them.
    (Load(connections=1, each=100, rate=4), Extent(rounds=1, seconds=8, warm_up=1, timed=26)),
    (Load(connections=16, each=100, rate=4), Extent(rounds=1, seconds=20, warm_up=5, timed=26)),
)
_COUNTED: Final = {
    "audit lines written": "authorizerd_audit_written_total",
    "audit lines dropped": 'authorizerd_audit_dropped_total{reason="queue"}',
}


def expected_answers(acl_set: AclSet) -> str:
    """Return the answers to the first questions of a set: those that are checked."""
    return collect_answers(build(acl_set.added()), [*acl_set.questions()][:QUESTIONS])


def measure_http(run: Run) -> Iterator[Row]:
    """Measure decisions beside OPA's, and with tokens, ids, and all decisions audited."""
    acl_set = run.pick(kind_with_many_questions(), kind())
    expected, extent = expected_answers(acl_set), run.pick(FULL, QUICK)
    questions, place = [*acl_set.questions()], run.new_place("http")
    settings = run.pick({}, PATIENT)
    with ExitStack() as stack:
        opa = stack.enter_context(ready_opa(place, acl_set.acls()))
        log_dir = run.log_of(acl_set)
        ours = server_of(stack.enter_context(ready_daemon(place / "daemon", log_dir, settings)))
        # Nobody has asked either server anything before.
        cold = run.pick(_COLD, QUICK)
        what = f"AuthZEN, the first {cold.seconds + cold.timed:g} s after a start"
        first = [*compare_loads(what, USUAL, cold, questions, [("", ours)], OPA, opa)]
        more = {**settings, "authorizerd.workers": str(WORKERS)}
        copied = run.copy_log(acl_set, place / "workers")
        workers = server_of(stack.enter_context(ready_daemon(place / "workers", copied, more)))
        plugin = replace(ours, api=PLUGIN)
        for server in (ours, workers, plugin, opa):
            if isinstance(server, Server):
                server.check(questions[: len(expected)], expected)
        yield from first
        for load in run.pick(LOADS, (USUAL_BATCHES,)):
            sides = [("", ours), (f", {WORKERS} workers", workers)]
            # One connection reaches only one worker.
            sides = sides[: None if load.connections > 1 else 1]
            yield from compare_loads("AuthZEN", load, extent, questions, sides, OPA, opa)
        yield from compare_loads(PLUGIN.name, USUAL, extent, questions, [("", plugin)], OPA, opa)
        few, what = questions[:QUESTIONS], f"AuthZEN, {QUESTIONS:,} questions repeated"
        yield from compare_loads(what, USUAL, extent, few, [("", ours)], OPA, opa)
        with_ids = replace(ours, has_ids=True)
        sides = [(", a new X-Request-ID in each request", with_ids)]
        yield from compare_loads("AuthZEN", USUAL, extent, questions, sides)
    tokens, token = write_token(run.new_place("http-token"))
    yield from _measure_alone(run, "with a token", {**settings, **tokens}, (USUAL,), token)
    audit_log = run.new_place("http-audited") / "audit.log"
    audited = {"authorizerd.audit.log": str(audit_log), "authorizerd.audit.level": "DEBUG"}
    loads = (USUAL, USUAL_BATCHES)
    yield from _measure_alone(run, "all audited", {**settings, **audited}, loads, is_audited=True)


def _measure_alone(
    run: Run,
    name: str,
    settings: Mapping[str, str],
    loads: tuple[Load, ...],
    token: str = "",
    *,
    is_audited: bool = False,
) -> Iterator[Row]:
    """Measure a daemon with other settings."""
    acl_set, extent = run.pick(kind_with_many_questions(), kind()), run.pick(FULL, QUICK)
    questions, expected = [*acl_set.questions()], expected_answers(acl_set)
    place = run.directory / "http-alone"
    with ready_daemon(place, run.log_of(acl_set), settings) as daemon:
        server = server_of(daemon, token=token)
        server.check(questions[: len(expected)], expected)
        for load in loads:
            before = _count_audited(daemon) if is_audited else {}
            sides = [(f", {name}", server)]
            yield from compare_loads("AuthZEN", load, extent, questions, sides)
            after = _count_audited(daemon) if is_audited else {}
            for metric, count in after.items():
                what = f"{name_load('AuthZEN', load, extent)}, {name}"
                yield Row(what=what, metric=metric, unit="", ours=count - before[metric])


def _count_audited(daemon: DaemonProcess) -> dict[str, float]:
    """Return the counts of audit lines, once the queue is empty."""
    counts: dict[str, float] = {}
    while counts != (now := {name: daemon.metric(each) for name, each in _COUNTED.items()}):
        counts = now
        time.sleep(0.1)
    return counts


def measure_openfga(run: Run) -> Iterator[Row]:
    """Measure decisions beside OpenFGA's, with the questions that its model can answer."""
    acl_set, place = run.pick(kind_with_many_questions(), kind()), run.new_place("openfga")
    with ExitStack() as stack:
        theirs = stack.enter_context(ready_openfga(place, acl_set.acls()))
        questions = answerable(acl_set)
        expected = collect_answers(build(acl_set.added()), questions[:QUESTIONS])
        daemon = ready_daemon(place, run.log_of(acl_set), run.pick({}, PATIENT))
        ours = server_of(stack.enter_context(daemon))
        for server in (ours, theirs):
            if isinstance(server, Server):
                server.check(questions[: len(expected)], expected)
        for load, extent in run.pick(_OPENFGA, ((USUAL, QUICK),)):
            what, name = "AuthZEN, no prefixes", openfga_peer.NAME
            yield from compare_loads(what, load, extent, questions, [("", ours)], name, theirs)


def answerable(acl_set: AclSet) -> list[Question]:
    """Return the questions whose answer does not depend on an ACL that OpenFGA has no tuple for."""
    whole = build(acl_set.added())
    expressible = build(each for each in acl_set.added() if is_expressible(each.acl))

    def is_independent(question: Question) -> bool:
        fields = msgspec.structs.astuple(question)
        return authorize(whole, SETTINGS, *fields) == authorize(expressible, SETTINGS, *fields)

    # Whole batches, so that all requests have as many questions.
    found = [*filter(is_independent, acl_set.questions())]
    return found[: len(found) // 100 * 100]
