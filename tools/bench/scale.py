"""What grows with the number of ACLs, from 20,000 to 5 million: ours beside StandardAuthorizer's.

    python -m tools.bench.scale [--acls THOUSANDS] [--continue] [--directory DIRECTORY]

Each size is another ``crowd``. The daemon starts from its log and from its checkpoint, and Kafka's
authorizer from the same checkpoint, in a JVM of its own. The points of a run are kept below
``DIRECTORY``, and ``--continue`` measures only those that are missing.

**Invariant:** a figure counts only if both sides gave the same answer to every question.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from tools.bench.crowd import crowd
from tools.bench.decisions import check_agreement
from tools.bench.event_loop import LIMIT_MS
from tools.bench.figures import Absent, Line, format_table, make_peer
from tools.bench.kafka_peer import NAME, KafkaPeer, prepare
from tools.bench.kafka_peer import Start as KafkaStart
from tools.bench.plot import Panel, Series, draw_panels
from tools.bench.scale_daemon import (
    DESCRIBE,
    WHAT_CAN,
    WHAT_CAN_GREATEST,
    WHO_CAN,
    WORKERS,
    DaemonReport,
    measure_daemon,
)
from tools.bench.scale_process import (
    QUESTIONS,
    InMemory,
    find_checkpoint,
    measure_in_memory,
    write_files,
)
from tools.bench.steady_load import SteadyReport

ACLS: Final = (20_000, 100_000, 505_000, 1_000_000, 2_500_000, 5_000_000)
PLOT_NAME: Final = "scale.svg"

LONGEST_STEP: Final = "event loop: longest step of one task, CPU"
_OURS: Final = "authorizerd"
_MIB: Final = 1024 * 1024
_MEDIAN: Final = 50
_THOUSAND: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The sizes in ascending order; the other fields are as for ``measure_daemon``."""

    acls: Sequence[int]
    seconds: float
    calls: int
    rounds: int


FULL: Final = Extent(acls=ACLS, seconds=10.0, calls=1000, rounds=3)
QUICK: Final = Extent(acls=(2000,), seconds=0.2, calls=3, rounds=1)


class Point(msgspec.Struct, frozen=True):
    """The figures of one size. The load averages are of the last minute before and at the end.

    ``theirs`` may be the reason why the peer was not measured.
    """

    acls: int
    loads: tuple[float, float]
    in_memory: InMemory
    daemon: DaemonReport
    theirs: KafkaStart | str

    @property
    def peer(self) -> KafkaStart | Absent:
        """The peer's figures, or the reason why there are none."""
        return Absent(self.theirs) if isinstance(self.theirs, str) else self.theirs


def measure_scale(
    peer: KafkaPeer, directory: Path, extent: Extent, *, continues: bool = False
) -> Iterator[Point]:
    """Yield a point for each size; files are written below ``directory``.

    Args:
        continues: keep the points of an earlier run that has not measured all sizes.

    Raises:
        DisagreementError: the authorizers answer a question differently.
        ProcessError: one of our processes failed.
    """
    if not continues:
        shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    for acls in extent.acls:
        kept = directory / f"{acls}.json"
        if not kept.exists():
            point = _measure(peer, directory / "files", acls, extent)
            # Not half-written, if the run is killed.
            part = kept.with_suffix(".part")
            part.write_bytes(msgspec.json.encode(point))
            part.replace(kept)
        yield msgspec.json.decode(kept.read_bytes(), type=Point)


def _measure(peer: KafkaPeer, place: Path, acls: int, extent: Extent) -> Point:
    load = os.getloadavg()[0]
    write_files(acls, place)
    try:
        theirs = peer.start(find_checkpoint(place), place / QUESTIONS)
        in_memory = measure_in_memory(acls, place)
        if isinstance(theirs, KafkaStart):
            questions = list(crowd(acls).questions())
            check_agreement(in_memory.answers, theirs.answers, questions, NAME)
            theirs = msgspec.structs.replace(theirs, answers="")
        daemon = measure_daemon(
            acls, place, seconds=extent.seconds, calls=extent.calls, rounds=extent.rounds
        )
    finally:
        shutil.rmtree(place)
    in_memory = msgspec.structs.replace(in_memory, answers="")
    found = theirs.reason if isinstance(theirs, Absent) else theirs
    return Point(acls, (load, os.getloadavg()[0]), in_memory, daemon, found)


_Figure: TypeAlias = tuple[
    str, str, Callable[[Point], float | None], Callable[[KafkaStart], float] | None
]
"""What it is, its unit, ours, and Kafka's if there is one. Ours is None if it was not measured."""

_FIGURES: Final[tuple[_Figure, ...]] = (
    ("load average before", "", lambda it: it.loads[0], None),
    ("load average at the end", "", lambda it: it.loads[1], None),
    ("start from a checkpoint", "s", lambda it: it.daemon.from_checkpoint.seconds,
     attrgetter("seconds")),
    ("start from a checkpoint, CPU", "s", lambda it: it.daemon.from_checkpoint.cpu_seconds,
     attrgetter("cpu_seconds")),
    ("start from a log", "s", lambda it: it.daemon.from_log.seconds, None),
    ("start from a log, CPU", "s", lambda it: it.daemon.from_log.cpu_seconds, None),
    (f"start with {WORKERS} workers", "s", lambda it: it.daemon.with_workers.seconds, None),
    (f"start with {WORKERS} workers, CPU", "s",
     lambda it: it.daemon.with_workers.cpu_seconds, None),
    ("load in memory, CPU", "s", lambda it: it.in_memory.load_cpu_seconds, None),
    ("memory, resident (peer: heap)", "MiB",
     lambda it: it.daemon.from_checkpoint.resident_bytes / _MIB,
     lambda it: it.heap_bytes / _MIB),
    ("peak memory of a start from a checkpoint", "MiB",
     lambda it: it.daemon.from_checkpoint.peak_bytes / _MIB, None),
    ("peak memory of a start from a log", "MiB",
     lambda it: it.daemon.from_log.peak_bytes / _MIB, None),
    ("memory of the daemon with workers, PSS", "MiB",
     lambda it: it.daemon.with_workers.pss_bytes / _MIB, None),
    ("memory of each worker, PSS", "MiB",
     lambda it: max(it.daemon.with_workers.workers_pss_bytes) / _MIB, None),
    ("memory of each worker, resident", "MiB",
     lambda it: max(it.daemon.with_workers.workers_resident_bytes) / _MIB, None),
    ("decision in memory, p50", "µs", lambda it: it.in_memory.decision_us.p50,
     attrgetter("decision_us.p50")),
    ("decision in memory, p99", "µs", lambda it: it.in_memory.decision_us.p99,
     attrgetter("decision_us.p99")),
    ("update in memory, p50", "µs", lambda it: it.in_memory.update_us.p50,
     attrgetter("update_us.p50")),
    ("update in memory, p99", "µs", lambda it: it.in_memory.update_us.p99,
     attrgetter("update_us.p99")),
    ("update in memory, max", "µs", lambda it: it.in_memory.update_us.max,
     attrgetter("update_us.max")),
    ("decision over HTTP, p50", "ms", lambda it: it.daemon.decisions.at(50), None),
    ("decision over HTTP, p99", "ms", lambda it: it.daemon.decisions.at(99), None),
    ("decision over HTTP, the load generator's own delay, p99", "ms",
     lambda it: it.daemon.decisions.lag_p99_ms, None),
    (f"decision over HTTP, {WORKERS} workers, p50", "ms",
     lambda it: it.daemon.workers_decisions.at(50), None),
    (f"decision over HTTP, {WORKERS} workers, p99", "ms",
     lambda it: it.daemon.workers_decisions.at(99), None),
    ("decision over HTTP during a checkpoint, p50", "ms",
     lambda it: _at(it.daemon.during_checkpoint, 50), None),
    ("decision over HTTP during a checkpoint, p99", "ms",
     lambda it: _at(it.daemon.during_checkpoint, 99), None),
    ("acknowledged update, p50", "ms", lambda it: it.daemon.updates.at(50), None),
    ("acknowledged update, p99", "ms", lambda it: it.daemon.updates.at(99), None),
    ("checkpoint", "s", lambda it: it.daemon.checkpoint_seconds, None),
    ("stop", "s", lambda it: it.daemon.stop_seconds, None),
    ("event loop: stretch, p99.9, CPU", "ms", lambda it: it.daemon.loop.stretches.cpu_p999, None),
)  # fmt: skip

_BESIDE_KAFKA: Final = (
    ("start from a checkpoint, s", "start from a checkpoint"),
    ("memory, MiB", "memory, resident (peer: heap)"),
    ("decision, p50, µs", "decision in memory, p50"),
    ("decision, p99, µs", "decision in memory, p99"),
    ("update, p50, µs", "update in memory, p50"),
    ("update, p99, µs", "update in memory, p99"),
)
"""The title of a panel of both sides, and its figure."""

_OURS_ALONE: Final = (
    ("start, s", {"from a log": "start from a log",
                  f"{WORKERS} workers": f"start with {WORKERS} workers"}),
    ("memory of a process, PSS, MiB", {"daemon": "memory of the daemon with workers, PSS",
                                       "worker": "memory of each worker, PSS"}),
    ("decision over HTTP, ms", {"p50": "decision over HTTP, p50",
                                "p99": "decision over HTTP, p99"}),
    ("decisions during a checkpoint, ms", {
        "p50": "decision over HTTP during a checkpoint, p50",
        "p99": "decision over HTTP during a checkpoint, p99"}),
    ("acknowledged update, ms", {"p50": "acknowledged update, p50",
                                 "p99": "acknowledged update, p99"}),
    ("a checkpoint, a stop, s", {"checkpoint": "checkpoint", "stop": "stop"}),
    ("event loop, CPU, ms", {"longest step": LONGEST_STEP,
                             "p99.9 of stretches": "event loop: stretch, p99.9, CPU"}),
)  # fmt: skip
"""The title of a panel of our figures, and their names."""


def _at(report: SteadyReport | None, percent: int) -> float | None:
    return None if report is None else report.at(percent)


def make_lines(point: Point) -> list[Line]:
    """Return the lines of one size."""
    where = f"scale, {point.acls:,} ACLs"
    lines = [
        Line(
            what=f"{where}: {what}",
            unit=unit,
            ours=value,
            peer=None if theirs is None else make_peer(NAME, point.peer, theirs),
        )
        for what, unit, ours, theirs in _FIGURES
        if (value := ours(point)) is not None
    ]
    lines.append(
        Line(
            what=f"{where}: {LONGEST_STEP}",
            unit="ms",
            ours=point.daemon.loop.steps.cpu_max,
            limit=LIMIT_MS,
        )
    )
    for name, report in point.daemon.searches.items():
        lines.append(Line(what=f"{where}: {name}, p50", unit="ms", ours=report.p50_ms))
        if report.percent > _MEDIAN:
            highest = f"p{report.percent} of {report.calls:,}"
            lines.append(Line(what=f"{where}: {name}, {highest}", unit="ms", ours=report.ms))
    return lines


def make_panels(points: Sequence[Point]) -> list[Panel]:
    """Return the panels of the plot, over the number of ACLs."""
    ours = {what: figure for what, _, figure, _ in _FIGURES}
    ours[LONGEST_STEP] = lambda it: it.daemon.loop.steps.cpu_max
    theirs = {what: figure for what, _, _, figure in _FIGURES if figure is not None}

    def series(name: str, figure: Callable[[Point], float | None]) -> Series:
        values = ((point.acls, figure(point)) for point in points)
        # An axis is logarithmic, so it has no place for 0.
        return Series(name, [(acls, value) for acls, value in values if value])

    def of_kafka(what: str) -> Series:
        def figure(point: Point) -> float | None:
            return None if isinstance(point.peer, Absent) else theirs[what](point.peer)

        return series(NAME, figure)

    def of_search(shown: str, name: str) -> Series:
        return series(shown, lambda point: point.daemon.searches[name].p50_ms)

    panels = [
        Panel(title, "ACLs", (series(_OURS, ours[what]), of_kafka(what)))
        for title, what in _BESIDE_KAFKA
    ]
    panels += [
        Panel(title, "ACLs", [series(name, ours[what]) for name, what in names.items()])
        for title, names in _OURS_ALONE
    ]
    panels += [
        Panel(title, "ACLs", [of_search(shown, name) for shown, name in names.items()])
        for title, names in (
            ("search, p50, ms", {"who can": WHO_CAN, "what can": WHAT_CAN}),
            ("search, p50, ms", {"largest principal": WHAT_CAN_GREATEST, "describeAcls": DESCRIBE}),
        )
    ]
    return panels


def _thousands(text: str) -> list[int]:
    return [int(float(each) * _THOUSAND) for each in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.scale")
    parser.add_argument(
        "--acls",
        type=_thousands,
        default=ACLS,
        metavar="THOUSANDS",
        help="sizes in ascending order, in thousands of ACLs, separated by commas",
    )
    parser.add_argument(
        "--continue",
        dest="continues",
        action="store_true",
        help="keep the sizes that an earlier run has measured",
    )
    parser.add_argument("--directory", type=Path, default=Path(".run"), help="for files")
    arguments = parser.parse_args()
    directory = arguments.directory.absolute()
    extent = replace(FULL, acls=arguments.acls)
    points = []
    for point in measure_scale(
        prepare(directory / "jvm"),
        directory / "bench" / "scale",
        extent,
        continues=arguments.continues,
    ):
        points.append(point)
        print(format_table(make_lines(point)), flush=True)
        (directory / PLOT_NAME).write_text(draw_panels(make_panels(points)))


if __name__ == "__main__":
    main()
