"""Measure what grows with the number of ACLs, from ten thousand to half a million.

Each point is another ``wide`` set. A new process loads it from a checkpoint, decides and applies
updates. The peer runs in a new JVM for each size.

    python -m tools.bench.growth LOG_DIRECTORY RESOURCES UPDATES SECONDS
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, authorize
from tools.bench.checkpoint import write_checkpoint
from tools.bench.decisions import Timing, time_rounds
from tools.bench.figures import Absent, Line, Peer, make_peer
from tools.bench.kafka_peer import NAME, Decisions, KafkaPeer, State
from tools.bench.loading import LoadReport, load_snapshot
from tools.bench.plot import Panel, Series
from tools.bench.processes import Command, capture_json
from tools.bench.sets import QUESTIONS, wide, write_lines
from tools.bench.snapshot_updates import UpdateTimes, measure_updates

ACLS_EACH: Final = 10
RESOURCES: Final = (1000, 10_000, 50_000)
UPDATES: Final = 10_000
SECONDS: Final = 1.0

_AMONG_MAX: Final = 100_000
_TIMEOUT_SECONDS: Final = 300.0
_OURS: Final = "authorizerd"


class GrowthReport(msgspec.Struct, frozen=True):
    """The measurements of one process at one size."""

    loading: LoadReport
    decision: Timing
    updates: UpdateTimes


class Point(msgspec.Struct, frozen=True):
    """The measurements at one size."""

    ours: GrowthReport
    their_decisions: Decisions | Absent
    their_state: State | Absent


def measure_size(log_dir: Path, resources: int, updates: int, seconds: float) -> GrowthReport:
    """Load the log of ``wide(resources, …)`` in this process, then decide and update."""
    snapshot, loading = load_snapshot(log_dir)
    gc.freeze()  # as the daemon does once it has loaded
    acl_set = wide(resources, ACLS_EACH)
    asked = [msgspec.structs.astuple(question) for question in acl_set.questions()]
    settings = AuthorizerSettings()

    def decide_all() -> None:
        for principal, host, operation, resource_type, name in asked:
            authorize(snapshot, settings, principal, host, operation, resource_type, name)

    decision = time_rounds(decide_all, QUESTIONS, seconds)
    among = list(islice(acl_set.added(), _AMONG_MAX))
    times, _ = measure_updates(snapshot, among, updates)
    return GrowthReport(loading, decision, times)


def measure_growth(
    peer: KafkaPeer,
    directory: Path,
    *,
    resources: Sequence[int] = RESOURCES,
    updates: int = UPDATES,
    seconds: float = SECONDS,
) -> Iterator[Point]:
    """Yield a point for each size; files are written below ``directory``.

    Raises:
        ProcessError: one of our processes failed.
    """
    for count in resources:
        acl_set = wide(count, ACLS_EACH)
        log_dir = directory / f"growth-{acl_set.name}"
        write_checkpoint(log_dir, acl_set.added())
        command: Command = [
            sys.executable, "-m", "tools.bench.growth", log_dir,
            str(count), str(updates), str(seconds),
        ]  # fmt: skip
        ours = capture_json(command, GrowthReport, timeout_seconds=_TIMEOUT_SECONDS)
        write_lines(acl_set, directory)
        yield Point(
            ours,
            peer.decisions(directory, acl_set.name, seconds),
            peer.state(directory, acl_set.name),
        )


def make_lines(point: Point) -> list[Line]:
    """Return the lines of one size."""
    ours, state = point.ours, point.their_state
    decisions = make_peer(NAME, point.their_decisions, lambda theirs: theirs.cpu_ns_median)

    def from_state(pick: Callable[[State], float]) -> Peer:
        return make_peer(NAME, state, pick)

    return [
        Line(what=f"growth, {ours.loading.acls:,} ACLs: {what}", unit=unit, ours=value, peer=peer)
        for what, unit, value, peer in (
            ("authorize, median", "ns", ours.decision.ns_median, decisions),
            ("update, p50", "µs", ours.updates.p50, from_state(lambda it: it.update_us.p50)),
            ("update, p99", "µs", ours.updates.p99, from_state(lambda it: it.update_us.p99)),
            ("load (peer: warm)", "s", ours.loading.seconds,
             from_state(lambda it: it.load_seconds_warm)),
            ("memory for each", "B", ours.loading.resident_bytes_per_acl,
             from_state(lambda it: it.heap_bytes_per_acl)),
        )
    ]  # fmt: skip


def make_panels(points: Sequence[Point]) -> list[Panel]:
    """Return one panel for each kind of line, over the number of ACLs."""
    titles = (
        "one decision, ns",
        "one update, p50, µs",
        "one update, p99, µs",
        "load, s",
        "memory for each ACL, bytes",
    )
    sizes = [point.ours.loading.acls for point in points]
    rows = [make_lines(point) for point in points]
    panels = []
    for number, title in enumerate(titles):
        ours = [(size, row[number].ours) for size, row in zip(sizes, rows, strict=True)]
        theirs = [
            (size, line.peer.value)
            for size, row in zip(sizes, rows, strict=True)
            if (line := row[number]).peer is not None and line.peer.value is not None
        ]
        panels.append(Panel(title, "ACLs", (Series(_OURS, ours), Series(NAME, theirs))))
    return panels


if __name__ == "__main__":
    report = measure_size(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
