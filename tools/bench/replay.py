"""Replay on generated audit logs: ingest and what-if, with DuckDB and grep on the same file.

**Invariant:** a figure counts only if a what-if of the recorded ACLs changes no decision, and if
the peer finds as many events that fewer ACLs would deny.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from tools.bench import audit_logs
from tools.bench.checkpoint import write_checkpoint
from tools.bench.decisions import DisagreementError
from tools.bench.duckdb_peer import NAME, PeerReport, write_acls
from tools.bench.figures import Absent, Line, Peer, make_peer
from tools.bench.processes import Command, ProcessError, capture_json, capture_output
from tools.bench.replay_jobs import CORES, TABLE, ReplayReport, candidate_acls
from tools.bench.replay_load import measure_load
from tools.bench.replay_whatif import ProcessTime, run_whatif, time_process
from tools.bench.sets import number_acls
from tools.bench.wrapped_lines import measure_wrapped_lines

SIZES: Final = (5_000_000,)
_ACLS: Final = "candidate.tsv"
_MEBIBYTE: Final = 1024 * 1024
_TIMEOUT_SECONDS: Final = 900.0


def measure_replay(log_dir: Path, directory: Path, sizes: tuple[int, ...] = SIZES) -> list[Line]:
    """Return the lines of lines in JSON, of a log of each size, and then of ``replay load``.

    Args:
        log_dir: contains a checkpoint of the set ``kind``.
        directory: files are written below it.

    Raises:
        DisagreementError: replay and the peer find different events.
        ProcessError: a job failed.
    """
    lines = [*measure_wrapped_lines()]
    if shutil.which("java") is None:
        absent = Line(what="replay", unit="", ours=0, peer=Peer("Spark", None, "no java"))
        return [*lines, absent]
    place = directory / "replay"
    place.mkdir(exist_ok=True)
    candidate = candidate_acls()
    write_acls(place / _ACLS, candidate)
    write_checkpoint(place / "acls", number_acls(candidate))
    for size in sizes:
        log = place / "audit.log"
        audit_logs.write_audit_log(log, size)
        lines += _measure(log, place)
        # A log of five million lines takes more than a gigabyte.
        log.unlink()
    return lines + measure_load(log_dir, directory)


def _measure(log: Path, place: Path) -> list[Line]:
    counting: Command = ["grep", "-c", " is Denied ", log]
    begun = time.perf_counter()
    capture_output(counting, timeout_seconds=_TIMEOUT_SECONDS)
    grep_seconds = time.perf_counter() - begun
    theirs = _measure_peer(log, place)
    command: Command = [sys.executable, "-m", "tools.bench.replay_jobs", log, place]
    ours = capture_json(command, ReplayReport, timeout_seconds=_TIMEOUT_SECONDS)
    whatif, found = run_whatif(place / TABLE, place / "acls", place)
    check_agreement(ours, theirs, found.newly_denied.events)
    return [*_ingest_lines(ours, theirs, grep_seconds), *_whatif_lines(ours, theirs, whatif)]


def _ingest_lines(
    ours: ReplayReport, theirs: PeerReport | Absent, grep_seconds: float
) -> Iterator[Line]:
    cores = min(CORES, os.cpu_count() or 1)
    where = f"replay, {ours.lines:,} plain lines, {cores} cores"
    yield Line(what=f"{where}: Spark's start", unit="s", ours=ours.session.seconds)
    cold = make_peer(NAME, theirs, lambda peer: peer.lines / peer.ingest_seconds / cores)
    # The JVM of Spark compiles what it has run for a while. The peer is compiled.
    for when, job, peer in (("cold", ours.ingest, cold), ("warm", ours.warm_ingest, None)):
        yield Line(
            what=f"{where}: ingest, {when}, for a core",
            unit="lines/s",
            ours=ours.lines / job.seconds / cores,
            peer=peer,
            more_is_better=True,
        )
        yield Line(
            what=f"{where}: ingest, {when}",
            unit="lines/s",
            ours=ours.lines / job.seconds,
            peer=Peer("grep -c, one core", ours.lines / grep_seconds),
            more_is_better=True,
        )
        yield Line(
            what=f"{where}: ingest, {when}, CPU for a line",
            unit="µs",
            ours=job.cpu / ours.lines * 1e6,
        )


def _whatif_lines(
    ours: ReplayReport, theirs: PeerReport | Absent, whatif: ProcessTime
) -> Iterator[Line]:
    where = f"replay, {ours.lines:,} events, {ours.tuples:,} tuples"
    compared: tuple[tuple[str, float, Callable[[PeerReport], float]], ...] = (
        ("what-if, the whole command, cold", whatif.seconds, lambda peer: peer.command_seconds),
        ("what-if in Spark, cold", ours.cold.seconds, lambda peer: peer.cold_seconds),
        ("what-if in Spark, warm", ours.warm.seconds, lambda peer: peer.warm_seconds),
    )
    for what, seconds, pick in compared:
        yield Line(
            what=f"{where}: {what}", unit="s", ours=seconds, peer=make_peer(NAME, theirs, pick)
        )
    yield Line(
        what=f"{where}: what-if, the whole command, memory",
        unit="MiB",
        ours=whatif.resident_bytes / _MEBIBYTE,
    )


def _measure_peer(log: Path, place: Path) -> PeerReport | Absent:
    program: Command = [sys.executable, "-m", "tools.bench.duckdb_peer"]
    acls = place / _ACLS
    try:
        found = capture_json(
            [*program, log, acls, place], PeerReport, timeout_seconds=_TIMEOUT_SECONDS
        )
        again = time_process([*program, "whatif", acls, place], place / "duckdb.log")
    except ProcessError as error:
        return Absent(str(error))
    return msgspec.structs.replace(found, command_seconds=again.seconds)


def check_agreement(ours: ReplayReport, theirs: PeerReport | Absent, by_command: int) -> None:
    """Check that the same ACLs change nothing, and that all count the same newly denied events.

    Args:
        by_command: the newly denied events in the result of the command.

    Raises:
        DisagreementError: the figures do not count.
    """
    if ours.changed_by_same_acls:
        raise DisagreementError(f"the same ACLs change {ours.changed_by_same_acls} events")
    counts = {"the command": (ours.lines, by_command)}
    if isinstance(theirs, PeerReport):
        counts[NAME] = (theirs.lines, theirs.newly_denied)
    for name, (lines, denied) in counts.items():
        if (lines, denied) != (ours.lines, ours.newly_denied):
            raise DisagreementError(
                f"of {ours.lines} events {ours.newly_denied} would be denied; "
                f"{name}: of {lines} {denied}"
            )
