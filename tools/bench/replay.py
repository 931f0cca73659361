"""Replay on generated audit logs: ingest, what-if and load, with DuckDB and grep on the same file.

**Invariant:** a figure counts only if every line became an event, a what-if of the recorded ACLs
changes no decision, and the peer finds as many events that fewer ACLs would deny.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import pyarrow
from msgspec.structs import replace

from authorizerd.replay.ingest.parse.columns import EventReader
from authorizerd.replay.local.tallies import Summand, Tallies
from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE
from authorizerd.replay.whatif.report import decode_whatif
from tools.bench.audit_logs import DISTINCT_MAX, audit_lines, write_audit_log, write_audit_logs
from tools.bench.duckdb_peer import NAME, PeerReport, write_acls
from tools.bench.figures import MIB, MeasurementError, Peer, Row, rows
from tools.bench.replay_spark import CORES, TABLE, Jobs, candidate_acls
from tools.bench.run import Run, write_checkpoint
from tools.bench.sets import kind, number_acls
from tools.daemon_process import AUTHORIZERD, PATIENT, ready_daemon
from tools.processes import Command, ProcessTime, capture_json, time_process

T = TypeVar("T")

GROWTH: Final = (1_000_000, 5_000_000, 20_000_000, 100_000_000)
RATES: Final = (0, 1_000, 10_000, 40_000)
"""Questions per second of the loads; 0 is a closed loop."""
_LINES_EACH: Final = 500_000
_FORM_ROUNDS: Final = 3
_TIME: Final = "2026-11-21T16:26:26.914Z"
_FIELD: Final = "event.original"
_TIMEOUT_SECONDS: Final = 1800.0


Counts = Counter[bool]
"""The numbers of allowed and denied events."""


def _distinct(run: Run) -> int:
    """Return the number of distinct tuples in the lines."""
    return run.pick(DISTINCT_MAX, 500)


def measure_replay(run: Run) -> Iterator[Row]:
    """Measure JSON lines, a plain log (also with DuckDB), and ``replay load`` on a live daemon."""
    yield from _measure_wrapped_lines(run.pick(50_000, 1000), _distinct(run))
    place = run.new_place("replay")
    log, acls, candidate = place / "audit.log", place / "candidate.tsv", candidate_acls()
    write_acls(acls, candidate)
    write_checkpoint(place / "acls", number_acls(candidate))
    write_audit_log(log, run.pick(5_000_000, 5000), _distinct(run))
    grep = time_process(["grep", "-c", " is Denied ", log], place / "grep.log", _TIMEOUT_SECONDS)
    program: Command = [sys.executable, "-m", "tools.bench.duckdb_peer"]
    theirs = capture_json(
        [*program, acls, place, log], PeerReport, timeout_seconds=_TIMEOUT_SECONDS
    )
    by_command = time_process([*program, acls, place], place / "duckdb.log", _TIMEOUT_SECONDS)
    ours = _run_spark("jobs", Jobs, place, log)
    whatif, newly_denied = run_whatif(place)
    check_agreement(ours, theirs, newly_denied)
    yield from _ingest_rows(ours, theirs, grep.seconds)
    what = f"{ours.lines:,} events, {ours.tuples:,} tuples"
    for metric, seconds, peer in (
        ("what-if, the whole command, cold", whatif.seconds, by_command.seconds),
        ("what-if in Spark, cold", ours.times[3].seconds, theirs.whatif_seconds[0]),
        ("what-if in Spark, warm", ours.times[5].seconds, theirs.whatif_seconds[1]),
    ):
        yield Row(what=what, metric=metric, unit="s", ours=seconds, peer=Peer(NAME, peer))
    memory = whatif.resident_bytes / MIB
    yield from rows(what, ("what-if, the whole command, memory", "MiB", memory))
    log.unlink()
    yield from _measure_load(run)


def _measure_wrapped_lines(lines: int, distinct: int) -> Iterator[Row]:
    """Yield the lines in JSON that each engine reads per CPU-second, compared with plain lines.

    A figure counts only if all formats contain the same events. The formats are measured in turn.
    """
    plain = [*chain.from_iterable(audit_lines(lines, distinct))]
    docker = ({"log": f"{line}\n", "stream": "stdout", "time": _TIME} for line in plain)
    named = ({"@timestamp": _TIME, "event": {"original": line}} for line in plain)
    forms: dict[str, tuple[str | None, list[bytes]]] = {
        "plain lines": (None, [line.encode() for line in plain]),
        "Docker's": (None, [*map(msgspec.json.encode, docker)]),
        f"--line-field {_FIELD}": (_FIELD, [*map(msgspec.json.encode, named)]),
    }
    for engine, read in (("in this process", _tally), ("in a task of Spark", _read_columns)):
        seconds: dict[str, list[float]] = {form: [] for form in forms}
        for _ in range(_FORM_ROUNDS):
            counts = []
            for form, (field, encoded) in forms.items():
                begun = time.process_time()
                counts.append(read(encoded, field))
                seconds[form].append(time.process_time() - begun)
            if counts[0].total() != lines or counts != counts[:1] * len(counts):
                raise MeasurementError(f"{engine}: expected equal events, found {counts}")
        peer, *others = ((form, lines / min(times)) for form, times in seconds.items())
        what = f"{lines:,} lines in JSON, {engine}"
        for form, rate in others:
            row = Row(what=what, metric=form, unit="lines/s", ours=rate, peer=Peer(*peer))
            yield replace(row, more_is_better=True)


def _tally(lines: Sequence[bytes], field: str | None) -> Counts:
    tallies = Tallies(UTC, field=field)
    tallies.add(lines)
    counts = Counts()
    for counted, tally in tallies:
        if isinstance(counted, Summand):
            counts[counted.allowed] += tally.lines
    return counts


def _read_columns(lines: Sequence[bytes], field: str | None) -> Counts:
    events = EventReader(UTC, "auto", field).read(pyarrow.array(lines, pyarrow.binary()))
    return Counter(allowed for allowed in events["allowed"].to_pylist() if allowed is not None)


def _measure_load(run: Run) -> Iterator[Row]:
    place = run.new_place("replay-load")
    log = place / "audit.log"
    write_audit_log(log, run.pick(200_000, 20_000), _distinct(run))
    # Without this, a pause of the whole machine counts as overload.
    with ready_daemon(place, run.log_of(kind()), PATIENT) as daemon:
        words = (daemon.decision_stream, daemon.process_id, *run.pick(RATES, (0, 1000)))
        yield from _run_spark("load", list[Row], place, log, *map(str, words))


def measure_growth(run: Run) -> Iterator[Row]:
    """Measure compressed logs, in a new session per size: 100 million lines are 37 GB of text."""
    sizes, place = run.pick(GROWTH, (5000,)), run.new_place("replay-growth")
    each = run.pick(_LINES_EACH, 2500)
    logs = write_audit_logs(place / "logs", max(sizes), each, CORES, _distinct(run))
    write_checkpoint(place / "acls", number_acls(candidate_acls()))
    for size in sizes:
        read = logs[: -(-size // each)]
        ours = _run_spark("ingest", Jobs, place, *read)
        if ours.lines != size:
            raise MeasurementError(f"of {size} lines {ours.lines} became events")
        (whatif, newly_denied), what = run_whatif(place), f"{size:,} packed lines, {CORES} cores"
        if not newly_denied:
            raise MeasurementError("fewer ACLs deny nothing")
        ingest = ours.times[1]
        yield from rows(
            what,
            ("ingest, cold", "lines/s", size / ingest.seconds),
            ("ingest, CPU for a line", "µs", ingest.cpu / size * 1e6),
            ("ingest, peak memory", "MiB", ours.peak_bytes / MIB),
            ("ingest, shuffled", "MiB", ours.shuffle_bytes / MIB),
            ("ingest, spilled to disk", "MiB", ours.spilled_bytes / MIB),
            ("table", "MiB", ours.table_bytes / MIB),
            ("packed logs", "MiB", sum(log.stat().st_size for log in read) / MIB),
            ("what-if, the whole command", "s", whatif.seconds),
            ("what-if, memory", "MiB", whatif.resident_bytes / MIB),
        )
    for log in logs:
        log.unlink()


def _run_spark(what: str, kind_of: type[T], place: Path, *words: str | Path) -> T:
    command = [sys.executable, "-m", "tools.bench.replay_spark", what, place, *words]
    return capture_json(command, kind_of, timeout_seconds=_TIMEOUT_SECONDS)


def _ingest_rows(ours: Jobs, theirs: PeerReport, grep_seconds: float) -> Iterator[Row]:
    what = f"{ours.lines:,} plain lines, {CORES} cores"
    yield from rows(what, ("Spark's start", "s", ours.times[0].seconds))
    cold = Peer(NAME, theirs.lines / theirs.ingest_seconds / CORES)
    grep = Peer("grep -c, one core", ours.lines / grep_seconds)
    # Spark's JVM compiles code that has run for a while. The peer is compiled ahead of time.
    for when, job, peer in (("cold", ours.times[1], cold), ("warm", ours.times[2], None)):
        rate = ours.lines / job.seconds
        for metric, figure, other in (("for a core", rate / CORES, peer), ("in all", rate, grep)):
            row = Row(what=what, metric=f"ingest, {when}, {metric}", unit="lines/s", ours=figure)
            yield replace(row, peer=other, more_is_better=True)
        cpu = job.cpu / ours.lines * 1e6
        yield from rows(what, (f"ingest, {when}, CPU for a line", "µs", cpu))


def check_agreement(ours: Jobs, theirs: PeerReport, by_command: int) -> None:
    """Check that the same ACLs change nothing, and that all count the same newly denied events."""
    if ours.changed_by_same_acls:
        raise MeasurementError(f"the same ACLs change {ours.changed_by_same_acls} events")
    counts = {"the command": (ours.lines, by_command), NAME: (theirs.lines, theirs.newly_denied)}
    for name, counted in counts.items():
        if counted != (ours.lines, ours.newly_denied):
            raise MeasurementError(
                f"of {ours.lines} events {ours.newly_denied} would be denied; {name}: {counted}"
            )


def run_whatif(place: Path) -> tuple[ProcessTime, int]:
    """Run ``replay whatif`` in a new process, as users do, on the table and ACLs below ``place``.

    Also return the number of events that would be denied.
    """
    out = place / "whatif"
    command: Command = [
        AUTHORIZERD, "replay", "whatif", "--events", place / TABLE, "--acls", place / "acls",
        "--out", out, "--overwrite",
    ]  # fmt: skip
    codes = (EXIT_DONE, EXIT_DENIED)
    times = time_process(command, place / "whatif.log", _TIMEOUT_SECONDS, codes)
    return times, decode_whatif((out / "whatif.json").read_text()).newly_denied.events
