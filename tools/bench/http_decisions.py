"""Decisions over HTTP: the daemon, Open Policy Agent and OpenFGA, with the same ACLs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from authorizerd.acl.decision import authorize
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Question
from tools.bench.figures import Row, rows
from tools.bench.loads import FULL, QUICK, Extent, Load
from tools.bench.peers import OPA, OPENFGA, is_expressible, ready_opa, ready_openfga
from tools.bench.run import Run
from tools.bench.servers import PLUGIN, SETTINGS, check_servers, compare_servers, server_of
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
_COLD: Final = Extent(rounds=1, seconds=2.0, warm_up=0.0, timed=2.0)
_OPENFGA: Final = (
    (Load(connections=1, rate=100), FULL),
    (Load(connections=16, rate=200), FULL),
    (Load(connections=64, rate=200), FULL),
    # OpenFGA takes a second and more for such a batch while it answers 16 of them.
    (Load(connections=1, each=100, rate=4), Extent(rounds=1, seconds=8, warm_up=1, timed=8)),
    (Load(connections=16, each=100, rate=4), Extent(rounds=1, seconds=12, warm_up=3, timed=8)),
)
_COUNTED: Final = {
    "audit lines written": "authorizerd_audit_written_total",
    "audit lines dropped": 'authorizerd_audit_dropped_total{reason="queue"}',
}


def measure_http(run: Run) -> Iterator[Row]:
    """Measure decisions beside OPA's, and with tokens, ids, and all decisions audited."""
    acl_set, place = run.pick(kind_with_many_questions(), kind()), run.new_place("http")
    questions, extent, log_dir = [*acl_set.questions()], run.pick(FULL, QUICK), run.log_of(acl_set)
    settings = run.pick({}, PATIENT)
    with ExitStack() as stack:
        opa = stack.enter_context(ready_opa(place, acl_set.acls()))
        ours = server_of(stack.enter_context(ready_daemon(place / "daemon", log_dir, settings)))
        # Nobody has asked either server anything before.
        cold = run.pick(_COLD, QUICK)
        what = f"AuthZEN, the first {cold.seconds + cold.timed:g} s after a start"
        peers = {OPA: opa}
        first = [*compare_servers(what, USUAL, cold, questions, {"": ours}, peers=peers)]
        more = {**settings, "authorizerd.workers": str(WORKERS)}
        copied = run.copy_log(acl_set, place / "workers")
        workers = server_of(stack.enter_context(ready_daemon(place / "workers", copied, more)))
        plugin, with_ids = replace(ours, api=PLUGIN), replace(ours, has_ids=True)
        check_servers(acl_set, questions, ours, workers, plugin, opa)
        yield from first
        beside_opa = partial(compare_servers, extent=extent, peers=peers)
        for load in run.pick(LOADS, (USUAL_BATCHES,)):
            # One connection reaches only one worker.
            two = {f", {WORKERS} workers": workers} if load.connections > 1 else {}
            yield from beside_opa("AuthZEN", load, questions=questions, sides={"": ours, **two})
        yield from beside_opa(PLUGIN.name, USUAL, questions=questions, sides={"": plugin})
        few, what = questions[:QUESTIONS], f"AuthZEN, {QUESTIONS:,} questions repeated"
        yield from beside_opa(what, USUAL, questions=few, sides={"": ours})
        sides = {", a new X-Request-ID in each request": with_ids}
        yield from compare_servers("AuthZEN", USUAL, extent, questions, sides)
    tokens, token = write_token(run.new_place("http-token"))
    yield from _measure_alone(run, "with a token", {**settings, **tokens}, (USUAL,), token)
    audit_log = run.new_place("http-audited") / "audit.log"
    audited = {"authorizerd.audit.log": str(audit_log), "authorizerd.audit.level": "DEBUG"}
    loads = (USUAL, USUAL_BATCHES)
    yield from _measure_alone(run, "all audited", {**settings, **audited}, loads, is_audited=True)


def _measure_alone(
    run: Run, name: str, settings: Mapping[str, str], loads: Sequence[Load], token: str = "", *,
    is_audited: bool = False,
) -> Iterator[Row]:  # fmt: skip
    """Measure a daemon with other settings."""
    acl_set, extent = run.pick(kind_with_many_questions(), kind()), run.pick(FULL, QUICK)
    questions = [*acl_set.questions()]
    with ready_daemon(run.directory / "http-alone", run.log_of(acl_set), settings) as daemon:
        server = server_of(replace(daemon, token=token))
        check_servers(acl_set, questions, server)
        for load in loads:
            before = _count_audited(daemon)
            found = [*compare_servers("AuthZEN", load, extent, questions, {f", {name}": server})]
            yield from found
            if is_audited:
                after, what = _count_audited(daemon), found[0].what
                yield from rows(what, *((each, "", after[each] - before[each]) for each in after))


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
        daemon = ready_daemon(place, run.log_of(acl_set), run.pick({}, PATIENT))
        ours = server_of(stack.enter_context(daemon))
        check_servers(acl_set, questions, ours, theirs)
        peers = {OPENFGA: theirs}
        for load, extent in run.pick(_OPENFGA, ((USUAL, QUICK),)):
            what = "AuthZEN, no prefixes"
            yield from compare_servers(what, load, extent, questions, {"": ours}, peers=peers)


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
