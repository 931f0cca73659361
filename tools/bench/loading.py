"""Load a checkpoint into a snapshot without an event loop: measure time and memory.

The process is new, and the file is in the page cache.

python -m tools.bench.loading LOG_DIRECTORY
"""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.metadata.replay import read_changes
from tools.bench.figures import Absent, Line, make_peer
from tools.bench.kafka_peer import NAME, State
from tools.bench.processes import Command, capture_json, resident_bytes

RUNS: Final = 3
_TIMEOUT_SECONDS: Final = 60.0


class LoadReport(msgspec.Struct, frozen=True):
    """``resident_bytes_per_acl`` is the lasting growth of the process, per ACL."""

    acls: int
    seconds: float
    resident_bytes_per_acl: float


def load_snapshot(log_dir: Path) -> tuple[AclSnapshot, LoadReport]:
    """Load the log in this process, with the garbage collector off, as in the daemon."""
    before = resident_bytes()
    gc.disable()
    start = time.perf_counter()
    builder = SnapshotBuilder()
    offset = -1
    for batch in read_changes(log_dir):
        builder.apply_changes(batch.changes)
        offset = batch.last_offset
    snapshot = builder.freeze(offset)
    seconds = time.perf_counter() - start
    del builder, batch  # the daemon frees these as well
    gc.enable()
    # Garbage must not count as memory of the ACLs.
    gc.collect()
    acls = len(snapshot.acls)
    return snapshot, LoadReport(acls, seconds, (resident_bytes() - before) / acls)


def measure_loading(log_dir: Path, theirs: State | Absent, runs: int = RUNS) -> list[Line]:
    """Return the lines of loading, the best of ``runs`` new processes.

    Raises:
        ProcessError: a process failed.
    """
    command: Command = [sys.executable, "-m", "tools.bench.loading", log_dir]
    reports = [
        capture_json(command, LoadReport, timeout_seconds=_TIMEOUT_SECONDS) for _ in range(runs)
    ]
    # Other load on the machine can only make a run slower.
    best = min(reports, key=lambda report: report.seconds)
    count = best.acls
    where = f"load of {count:,} ACLs"
    return [
        Line(
            what=f"{where}, best of {runs} (peer: warm)",
            unit="s",
            ours=best.seconds,
            peer=make_peer(NAME, theirs, lambda state: state.load_seconds_warm),
        ),
        Line(
            what=f"{where}, for each ACL",
            unit="µs",
            ours=best.seconds / count * 1e6,
            peer=make_peer(NAME, theirs, lambda state: state.load_seconds_warm / count * 1e6),
        ),
        Line(
            what=f"{where}, worst of {runs} (peer: cold)",
            unit="s",
            ours=max(report.seconds for report in reports),
            peer=make_peer(NAME, theirs, lambda state: state.load_seconds_cold),
        ),
        Line(
            what=f"memory for each of {count:,} ACLs",
            unit="B",
            ours=best.resident_bytes_per_acl,
            peer=make_peer(NAME, theirs, lambda state: state.heap_bytes_per_acl),
        ),
    ]


if __name__ == "__main__":
    _, report = load_snapshot(Path(sys.argv[1]))
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
