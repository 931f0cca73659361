"""Decisions over HTTP compared with OPA and OpenFGA, over the stream, and with worker processes.

CPU time depends on what the rest of the machine does: two cores that are both busy slow each other
down, and more so if they are threads of one core. So one process is also measured next to programs
that keep the other cores busy, as workers do. Compared with that, the figure for two workers shows
the cost of the processes themselves.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Question
from authorizerd.protocol.decisions.stream import ALLOWED, StreamClientConnection, StreamQuestion
from tests.support.requests import stream_question
from tests.support.stream_connection import StreamConnection
from tools.bench.figures import MIB, Row, row_of_rounds, rows
from tools.bench.loads import FULL, QUICK, Extent, Load, Process, Target
from tools.bench.peers import OPA, OPENFGA, is_expressible, ready_opa, ready_openfga
from tools.bench.protocols import STREAM
from tools.bench.run import Run
from tools.bench.sender import Plan
from tools.bench.servers import (
    AUTHZEN,
    PLUGIN,
    Server,
    check_agreement,
    check_servers,
    compare_servers,
    is_allowed,
    server_of,
)
from tools.bench.sets import MANY_QUESTIONS, QUESTIONS, AclSet, kind, wide
from tools.daemon_process import PATIENT, DaemonProcess, ready_daemon, write_token
from tools.processes import children_of, read_memory, running

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
    # OpenFGA takes a second or more for such a batch while it answers 16 of them.
    (Load(connections=1, each=100, rate=4), Extent(rounds=1, seconds=8, warm_up=1, timed=8)),
    (Load(connections=16, each=100, rate=4), Extent(rounds=1, seconds=20, warm_up=12, timed=8)),
)
_COUNTED: Final = {
    "audit lines written": "authorizerd_audit_written_total",
    "audit lines dropped": 'authorizerd_audit_dropped_total{reason="queue"}',
}
_FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
FRAMES: Final = Load(each=100, in_flight=16, rate=500)
CROWD: Final = Load(each=100, in_flight=4, connections=4, rate=500)
"""Enough connections that each of two workers gets some."""
FRAME_LOADS: Final = (
    Load(each=1),
    Load(each=1, in_flight=16),
    Load(each=1, in_flight=64),
    Load(each=10, in_flight=16),
    FRAMES,
    Load(each=1000, in_flight=4, rate=100),
    CROWD,
)
_BUSY: Final = (sys.executable, "-c", "while True: pass")


def measure_http(run: Run) -> Iterator[Row]:
    """Measure decisions compared with OPA, and with tokens, ids, and all decisions audited."""
    acl_set, place = kind(run.pick(MANY_QUESTIONS, QUESTIONS)), run.new_place("http")
    questions, extent, log_dir = [*acl_set.questions()], run.pick(FULL, QUICK), run.log_of(acl_set)
    settings = run.pick({}, PATIENT)
    with ExitStack() as stack:
        opa = stack.enter_context(ready_opa(place, acl_set.acls()))
        ours = server_of(stack.enter_context(ready_daemon(place / "daemon", log_dir, settings)))
        # Neither server has been asked anything before.
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
    acl_set, extent = kind(run.pick(MANY_QUESTIONS, QUESTIONS)), run.pick(FULL, QUICK)
    questions = [*acl_set.questions()]
    place = run.directory / "http-alone"
    with ready_daemon(place, run.log_of(acl_set), settings, token=token) as daemon:
        server = server_of(daemon)
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
    """Measure decisions compared with OpenFGA, with the questions that its model can answer."""
    acl_set, place = kind(run.pick(MANY_QUESTIONS, QUESTIONS)), run.new_place("openfga")
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
        return is_allowed(whole, question) == is_allowed(expressible, question)

    # Whole batches, so that all requests have the same number of questions.
    found = [*filter(is_independent, acl_set.questions())]
    return found[: len(found) // 100 * 100]


class StreamServer(Server):
    """A daemon's decision stream; questions are sent in frames, with codes for names."""

    def check(self, questions: Sequence[Question], expected: str) -> None:
        with closing(StreamConnection(self.host, self.token or None)) as connection:
            answer = connection.ask(*map(stream_question, questions))
        given = "".join("A" if code == ALLOWED else "D" for code in answer.decisions)
        check_agreement(expected, given, questions, "the stream")

    def target(self, questions: Sequence[Question], load: Load) -> Target:
        connection = StreamClientConnection(_FRAME_BYTES_MAX)
        asked: list[StreamQuestion] = [*map(stream_question, questions)]
        starts = range(0, len(asked) - load.each + 1, load.each)
        frames = (asked[start : start + load.each] for start in starts)
        plan = Plan(
            address=self.host, protocol=STREAM, seconds=0,
            requests=[connection.ask(number, frame) for number, frame in enumerate(frames)],
            opening=connection.hello(self.token or None),
        )  # fmt: skip
        return Target(process=self.process, plan=plan, load=load)


def stream_of(daemon: DaemonProcess) -> StreamServer:
    """Return a daemon's decision stream as a server."""
    process, host = Process(daemon.process_id), daemon.decision_stream
    return StreamServer(api=AUTHZEN, host=host, process=process, token=daemon.token)


def measure_stream(run: Run) -> Iterator[Row]:
    """Measure each load, and the usual loads also with a token and with workers."""
    acl_set = kind(run.pick(MANY_QUESTIONS, QUESTIONS))
    questions, place = [*acl_set.questions()], run.new_place("stream")
    tokens, token = write_token(place)
    workers = {"authorizerd.workers": str(WORKERS)}
    for words, more, loads, sent in (
        ("", {}, run.pick(FRAME_LOADS, (FRAMES,)), ""),
        (", with a token", tokens, (FRAMES,), token),
        (f", {WORKERS} workers", workers, (CROWD,), ""),
    ):
        settings = {**PATIENT, **more}
        with ready_daemon(place, run.log_of(acl_set), settings, token=sent) as daemon:
            server = stream_of(daemon)
            check_servers(acl_set, questions, server)
            for load in loads:
                extent, sides = run.pick(FULL, QUICK), {words: server}
                yield from compare_servers("stream", load, extent, questions, sides)


def measure_workers(run: Run) -> Iterator[Row]:
    """Measure CPU time, and memory before and after it, then memory with many ACLs."""
    asked, place = kind(run.pick(MANY_QUESTIONS, QUESTIONS)), run.new_place("workers")
    settings = {**PATIENT, "authorizerd.workers": str(WORKERS)}
    for acl_set in (asked, run.pick(wide(50_000, 10), wide(1000, 2))):
        copied = run.copy_log(acl_set, place / "two")
        with (
            ready_daemon(place / "one", run.log_of(acl_set), PATIENT) as one,
            ready_daemon(place / "two", copied, settings) as two,
        ):
            yield from _measure_memory(acl_set, one, two)
            if acl_set is asked:
                yield from _measure_cpu(run, acl_set, one, two, place)
                yield from _measure_memory(acl_set, one, two, ", after the load")


def _measure_cpu(
    run: Run, acl_set: AclSet, one: DaemonProcess, two: DaemonProcess, place: Path
) -> Iterator[Row]:
    """Yield a row for each load and side; the sides alternate."""
    questions, seconds = [*acl_set.questions()], run.pick(2.0, 0.1)
    others = max(1, (os.cpu_count() or 1) - 1)
    for name, of, load in (
        ("AuthZEN", server_of, USUAL),
        ("AuthZEN", server_of, USUAL_BATCHES),
        ("stream", stream_of, CROWD),
    ):
        alone, shared = (of(daemon).target(questions, load) for daemon in (one, two))
        # As many connections as each worker has: a turn of the loop then answers as few at once.
        fewer = replace(load, connections=load.connections // WORKERS)
        part = of(one).target(questions, fewer)
        sides = {
            "one process": (alone, 0),
            "one process beside busy cores": (alone, others),
            f"one process beside busy cores, 1/{WORKERS} of the connections": (part, others),
            f"{WORKERS} workers": (shared, 0),
        }
        figures: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(run.pick(3, 1)):
            for side, (target, busy) in sides.items():
                with ExitStack() as stack:
                    for number in range(busy):
                        stack.enter_context(running(_BUSY, place / f"busy-{number}.log"))
                    rate = target.count(seconds).per_cpu
                    figures[side].append(1e6 / rate if rate else 0.0)
        for side, found in figures.items():
            yield row_of_rounds(f"{name}, {load}", f"CPU for a decision, {side}", "µs", found)


def _measure_memory(
    acl_set: AclSet, one: DaemonProcess, two: DaemonProcess, when: str = ""
) -> Iterator[Row]:
    """Yield the memory of a single process, and of a daemon and its workers."""
    workers = [read_memory(worker) for worker in children_of(two.process_id)]
    what = f"{sum(1 for _ in acl_set.acls()):,} ACLs{when}"
    for whose, memory in (
        ("a daemon without workers", read_memory(one.process_id)),
        ("a daemon with workers", read_memory(two.process_id)),
        ("each worker", max(workers, key=lambda memory: memory.uss_bytes)),
    ):
        sizes = ("USS", memory.uss_bytes), ("PSS", memory.pss_bytes)
        yield from rows(what, *((f"{each} of {whose}", "MiB", size / MIB) for each, size in sizes))
