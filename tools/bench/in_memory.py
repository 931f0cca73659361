"""Sets in memory: decisions, updates, loads and memory, compared with Kafka's StandardAuthorizer.

    python -m tools.bench.in_memory PLAN

Each set is measured in a new process, and Kafka in a JVM (``jvm/``). Both sides start from the same
checkpoint, and must give the same answer to each question. Rounds over all questions are measured
in CPU time of the asking thread, so that other load affects neither side. Single calls and updates
are measured in wall time, with the garbage collector off as in the daemon. Updates remove one ACL
and add it again; two extra principals have so many ACLs that copies of lists would be slow.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import astuple, replace

from authorizerd.acl.decision import authorize, explain
from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.acl.model import AclAdded, AclRemoved, PatternType, Question
from authorizerd.acl.releases import RULES_4_3, RULES_4_4
from authorizerd.acl.snapshot import AclSnapshot, apply_changes, at_offset, with_rules
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, parse_checkpoint_name
from authorizerd.metadata.replay import read_changes
from tests.kafka_rig.rig import NEWEST_VERSION, VERSION, prepare
from tools.bench.figures import Absent, Metric, Row, percentile, rows_of
from tools.bench.run import Run
from tools.bench.servers import SETTINGS, check_agreement, collect_answers
from tools.bench.sets import STRIDE, AclSet, allow, kind, ranges, wide
from tools.processes import Command, capture_json, resident_bytes

_JVM: Final = Path(__file__).parent / "jvm"
_JVM_OPTIONS: Final = ("-Xmx8g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""The garbage collector options are those of kafka-server-start.sh."""
_UPDATES: Final = 10_000
_ROUNDS_MIN: Final = 5
_WARM_UPS: Final = 3
_TIMEOUT_SECONDS: Final = 900.0
_NOT_QUICK: Final = Absent("not in a quick run")
_CROWDS: Final = {"literals": PatternType.LITERAL, "prefixes": PatternType.PREFIXED}


class InMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A set in memory, ours or Kafka's.

    ``answers`` has an A or a D for each question. ``seconds``, ``cpu_seconds`` and ``memory_bytes``
    cover the start until the checkpoint is loaded; ``loads_s`` are later loads. Single calls and
    updates have wall times; ``rounds_ns`` has the CPU time per decision of each round.
    """

    answers: str
    acls: int
    seconds: float
    cpu_seconds: float
    memory_bytes: float
    bytes_per_acl: float
    loads_s: list[float]
    call_us: list[float]
    update_us: list[float]
    rounds_ns: list[float] = []
    explain_ns: list[float] = []
    crowd_us: dict[str, list[float]] = {}


def metrics_of(of: str, pick: Callable[[InMemory], list[float]]) -> Iterator[Metric[InMemory]]:
    """Yield the metrics of wall times in µs."""
    yield f"{of}, p50", "µs", lambda it: percentile(pick(it), 50)
    yield f"{of}, p99", "µs", lambda it: percentile(pick(it), 99)
    yield f"{of}, max", "µs", lambda it: max(pick(it))


_METRICS: Final[tuple[Metric[InMemory], ...]] = (
    ("allowed", "", lambda it: it.answers.count("A")),
    ("authorize, median", "ns", lambda it: percentile(it.rounds_ns, 50)),
    ("authorize, best", "ns", lambda it: min(it.rounds_ns)),
    # Kafka's ``authorize`` always finds the rule.
    ("with its rule, median", "ns", lambda it: percentile(it.explain_ns or it.rounds_ns, 50)),
    *metrics_of("update", lambda it: it.update_us),
    ("load, best (peer: warm)", "s", lambda it: min(it.loads_s)),
    ("load, worst (peer: cold)", "s", lambda it: max(it.loads_s)),
    ("load for each ACL", "µs", lambda it: min(it.loads_s) / it.acls * 1e6),
    ("memory for each ACL", "B", lambda it: it.bytes_per_acl),
)


def measure_in_memory(run: Run) -> Iterator[Row]:
    """Measure sets of each kind, and updates of principals with very many ACLs."""
    largest, crowd = wide(50_000, 10), run.pick(100_000, 100)
    others = (kind(), wide(1000, 10), wide(5000, 10), wide(10_000, 10))
    for acl_set in run.pick((*others, largest), (kind(),)):
        more = {"crowd": crowd} if acl_set.name in (largest.name, run.pick("", "kind")) else {}
        yield from _measure(run, acl_set, VERSION, **more)
    for acl_set in run.pick((ranges(0), ranges(10), ranges(1000)), (ranges(10),)):
        # The first release that supports address ranges in the hosts of ACLs.
        yield from _measure(run, acl_set, NEWEST_VERSION, has_ranges=True)


def _measure(run: Run, acl_set: AclSet, version: str, **more: Any) -> Iterator[Row]:  # noqa: ANN401
    ours, theirs = measure_set(
        run, acl_set, run.log_of(acl_set), run.new_place("in-memory"), version,
        loads=run.pick(3, 1), seconds=run.pick(2.0, 0.02), updates=run.pick(_UPDATES, 100), **more,
    )  # fmt: skip
    what = f"{acl_set.name} ({ours.acls:,} ACLs)"
    yield from rows_of(what, _METRICS, ours, f"Kafka {version}", theirs)
    for name, times in ours.crowd_us.items():
        metrics = metrics_of("update", lambda it: it.update_us)
        what = f"a principal with {more['crowd']:,} {name}"
        yield from rows_of(what, metrics, replace(ours, update_us=times))


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of a checkpoint: rounds for ``seconds`` (0 for none), and updates.

    ``crowd`` is the number of ACLs per extra principal.
    """

    log_dir: str
    questions: list[Question]
    seconds: float
    updates: int = _UPDATES
    crowd: int = 0
    has_ranges: bool = False


def measure_set(
    run: Run, acl_set: AclSet, log_dir: Path, directory: Path, version: str = VERSION, *,
    loads: int = 1, **more: Any,  # noqa: ANN401 - the other fields of ``Plan``
) -> tuple[InMemory, InMemory | Absent]:  # fmt: skip
    """Measure a set whose checkpoint is in ``log_dir``, ours and Kafka's, each in new processes.

    Our side runs ``loads`` processes, and only the last one does more than load. The answers must
    be the same.
    """
    questions, path = [*acl_set.questions()], directory / "plan.json"
    plan = Plan(log_dir=str(log_dir), questions=questions, **more)
    path.write_bytes(msgspec.json.encode(plan))
    theirs = measure_kafka(version, log_dir, path, loads) if not run.is_quick else _NOT_QUICK
    short = Plan(log_dir=str(log_dir), questions=questions[:1], seconds=0, updates=2)
    reports = []
    for planned in [*[short] * (loads - 1), plan]:
        path.write_bytes(msgspec.json.encode(planned))
        command: Command = [sys.executable, "-m", "tools.bench.in_memory", path]
        reports.append(capture_json(command, InMemory, timeout_seconds=_TIMEOUT_SECONDS))
    ours = replace(reports[-1], loads_s=[report.seconds for report in reports])
    if isinstance(theirs, InMemory):
        check_agreement(ours.answers, theirs.answers, questions, f"Kafka {version}")
    return ours, theirs


def measure_kafka(version: str, log_dir: Path, plan: Path, loads: int) -> InMemory | Absent:
    """Measure Kafka's own authorizer, which starts from a checkpoint as in a broker."""
    rig = prepare(sources=_JVM, version=version)
    if isinstance(rig, Absent):
        return rig
    (path,) = (log_dir / METADATA_TOPIC_DIRECTORY).glob("*.checkpoint")
    found = parse_checkpoint_name(path)
    words = (path.parent, found.end_offset, found.epoch, plan, loads)
    command = rig.command("Peer", *map(str, words), options=_JVM_OPTIONS)
    return capture_json(command, InMemory, timeout_seconds=_TIMEOUT_SECONDS)


def measure(plan: Plan) -> InMemory:
    """Measure everything in the plan in this process, which has not loaded anything before."""
    before, begun, cpu = resident_bytes(), time.perf_counter(), time.process_time()
    snapshot = load(Path(plan.log_dir))
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    # Garbage must not count as memory of the ACLs.
    gc.enable()
    gc.collect()
    memory, acls = resident_bytes() - before, len(snapshot.acls)
    gc.freeze()  # as the daemon does once it has loaded
    snapshot = with_rules(snapshot, RULES_4_4 if plan.has_ranges else RULES_4_3)
    calls, answers = _time_calls(snapshot, plan.questions)
    rounds_ns, explain_ns = _time_rounds(snapshot, plan.questions, plan.seconds)
    among = [AclAdded(*each) for each in islice(snapshot.acls.items(), 100_000)]
    update_us, snapshot = _time_updates(snapshot, among, plan.updates)
    crowd_us = {}
    for name, pattern_type in _CROWDS.items() if plan.crowd else ():
        added = [*_crowd(name, pattern_type, plan.crowd)]
        snapshot = at_offset(apply_changes(snapshot, tuple(added)), snapshot.offset + 1)
        crowd_us[name], snapshot = _time_updates(snapshot, added, plan.updates)
    return InMemory(
        answers=answers, acls=acls, seconds=seconds, cpu_seconds=cpu, memory_bytes=memory,
        bytes_per_acl=memory / acls, loads_s=[seconds], call_us=calls, update_us=update_us,
        rounds_ns=rounds_ns, explain_ns=explain_ns, crowd_us=crowd_us,
    )  # fmt: skip


def load(log_dir: Path) -> AclSnapshot:
    """Load a log into a snapshot with the garbage collector off, as in the daemon."""
    gc.disable()
    builder, offset = SnapshotBuilder(), -1
    for batch in read_changes(log_dir):
        builder.apply_changes(batch.changes)
        offset = batch.last_offset
    return builder.freeze(offset)


def _time_calls(snapshot: AclSnapshot, questions: Sequence[Question]) -> tuple[list[float], str]:
    """Ask each question in a separate call; only the last of several rounds is timed."""
    now, asked = time.perf_counter_ns, [astuple(question) for question in questions]
    gc.disable()
    for _ in range(_WARM_UPS + 1):
        times, answers = [], []
        for principal, host, operation, resource_type, name in asked:
            start = now()
            allowed = authorize(snapshot, SETTINGS, principal, host, operation, resource_type, name)
            times.append((now() - start) / 1000)
            answers.append("A" if allowed else "D")
    gc.enable()
    return times, "".join(answers)


def _time_rounds(
    snapshot: AclSnapshot, questions: Sequence[Question], seconds: float
) -> tuple[list[float], list[float]]:
    """Return the CPU time in ns per decision, and per decision with its rule, of many rounds."""
    if not seconds:
        return [], []
    collect_answers(snapshot, questions)
    asked = [astuple(question) for question in questions]

    def decide_all() -> None:
        for principal, host, operation, resource_type, name in asked:
            authorize(snapshot, SETTINGS, principal, host, operation, resource_type, name)

    def explain_all() -> None:
        for question in questions:
            explain(snapshot, SETTINGS, question)

    decided = _rounds(decide_all, len(questions), seconds)
    return decided, _rounds(explain_all, len(questions), seconds / 2)


def _rounds(ask_all: Callable[[], None], questions: int, seconds: float) -> list[float]:
    """Repeat ``ask_all`` for ``seconds`` of CPU time after a warm-up; return the time of each."""
    for limit in (seconds / 5, seconds):
        rounds: list[float] = []
        begun = time.thread_time()
        # A median needs a few rounds, even if one takes longer than the limit.
        while len(rounds) < _ROUNDS_MIN or time.thread_time() - begun < limit:
            start = time.thread_time_ns()
            ask_all()
            rounds.append((time.thread_time_ns() - start) / questions)
    return rounds


def _time_updates(
    snapshot: AclSnapshot, among: Sequence[AclAdded], updates: int
) -> tuple[list[float], AclSnapshot]:
    """Remove ACLs of ``among`` and add them again; return the times and the last snapshot."""
    samples: list[float] = []
    gc.disable()
    for number in range(updates // 2):
        added = among[number * STRIDE % len(among)]
        for change in (AclRemoved(added.id), added):
            start = time.perf_counter_ns()
            # Rebinding the name also frees the old snapshot within the sample.
            snapshot = at_offset(apply_changes(snapshot, (change,)), snapshot.offset + 1)
            samples.append((time.perf_counter_ns() - start) / 1000)
    gc.enable()
    return samples, snapshot


def _crowd(name: str, pattern_type: PatternType, acls: int) -> Iterator[AclAdded]:
    """Yield ACLs of one principal, with patterns of one type."""
    for number in range(acls):
        acl = allow(f"{name}-resource-{number}", f"User:{name}", pattern_type=pattern_type)
        yield AclAdded(f"{name}{number}".encode().rjust(16, b"\0")[-16:], acl)


if __name__ == "__main__":
    planned = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan)
    sys.stdout.buffer.write(msgspec.json.encode(measure(planned)) + b"\n")
