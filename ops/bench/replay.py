"""Replay on generated audit logs: ingest and what-if, with DuckDB and grep on the same file.

**Invariant:** a figure counts only if a what-if of the recorded ACLs changes no decision, and if
the peer finds as many events that fewer ACLs would deny.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from ops.bench import audit_logs
from ops.bench.decisions import DisagreementError
from ops.bench.duckdb_peer import NAME, PeerReport, write_acls
from ops.bench.figures import Absent, Line, Peer, make_peer
from ops.bench.processes import Command, ProcessError, capture_json, capture_output
from ops.bench.replay_jobs import CORES, ReplayReport, candidate_acls
from ops.bench.replay_load import measure_load

SIZES: Final = (1_000_000,)
_TIMEOUT_SECONDS: Final = 900.0


def measure_replay(log_dir: Path, directory: Path, sizes: tuple[int, ...] = SIZES) -> list[Line]:
    """Return the lines for a log of each size, then those of ``replay load``.

    Args:
        log_dir: contains a checkpoint of the set ``kind``.
        directory: files are written below it.

    Raises:
        DisagreementError: replay and the peer find different events.
        ProcessError: a job failed.
    """
    if shutil.which("java") is None:
        return [Line(what="replay", unit="", ours=0, peer=Peer("Spark", None, "no java"))]
    place = directory / "replay"
    place.mkdir(exist_ok=True)
    acls = place / "candidate.tsv"
    write_acls(acls, candidate_acls())
    lines: list[Line] = []
    for size in sizes:
        log = place / "audit.log"
        audit_logs.write_audit_log(log, size)
        lines += _measure(log, acls, place)
        # A log of five million lines takes more than a gigabyte.
        log.unlink()
    return lines + measure_load(log_dir, directory)


def _measure(log: Path, acls: Path, place: Path) -> list[Line]:
    counting: Command = ["grep", "-c", " is Denied ", log]
    begun = time.perf_counter()
    capture_output(counting, timeout_seconds=_TIMEOUT_SECONDS)
    grep_seconds = time.perf_counter() - begun
    theirs = _measure_peer(log, acls, place)
    command: Command = [sys.executable, "-m", "ops.bench.replay_jobs", log, place]
    ours = capture_json(command, ReplayReport, timeout_seconds=_TIMEOUT_SECONDS)
    check_agreement(ours, theirs)
    cores = min(CORES, os.cpu_count() or 1)
    where = f"replay, {ours.lines:,} lines"
    grep = Peer("grep -c, one core", ours.lines / grep_seconds)
    return [
        Line(what=f"{where}: Spark's start", unit="s", ours=ours.session.seconds),
        Line(
            what=f"{where}: ingest, cold, for a core",
            unit="lines/s",
            ours=ours.lines / ours.ingest.seconds / cores,
            peer=make_peer(NAME, theirs, lambda peer: peer.lines / peer.ingest_seconds / cores),
            more_is_better=True,
        ),
        Line(
            what=f"{where}: ingest, cold",
            unit="lines/s",
            ours=ours.lines / ours.ingest.seconds,
            peer=grep,
            more_is_better=True,
        ),
        Line(
            what=f"{where}: ingest, CPU for a line",
            unit="µs",
            ours=ours.ingest.cpu / ours.lines * 1e6,
        ),
        Line(
            what=f"{where}: what-if of {ours.tuples:,} tuples, cold",
            unit="s",
            ours=ours.cold.seconds,
            peer=make_peer(NAME, theirs, lambda peer: peer.cold_seconds),
        ),
        Line(
            what=f"{where}: what-if of {ours.tuples:,} tuples, warm",
            unit="s",
            ours=ours.warm.seconds,
            peer=make_peer(NAME, theirs, lambda peer: peer.warm_seconds),
        ),
    ]


def _measure_peer(log: Path, acls: Path, place: Path) -> PeerReport | Absent:
    command: Command = [sys.executable, "-m", "ops.bench.duckdb_peer", log, acls, place]
    try:
        return capture_json(command, PeerReport, timeout_seconds=_TIMEOUT_SECONDS)
    except ProcessError as error:
        return Absent(str(error))


def check_agreement(ours: ReplayReport, theirs: PeerReport | Absent) -> None:
    """Raise DisagreementError if the same ACLs change anything, or the peer finds other events."""
    if ours.changed_by_same_acls:
        raise DisagreementError(f"the same ACLs change {ours.changed_by_same_acls} events")
    if isinstance(theirs, PeerReport) and (ours.lines, ours.newly_denied) != (
        theirs.lines,
        theirs.newly_denied,
    ):
        raise DisagreementError(
            f"of {ours.lines} events {ours.newly_denied} would be denied; "
            f"{NAME}: of {theirs.lines} {theirs.newly_denied}"
        )
