"""What worker processes cost: CPU time for a decision, and memory.

CPU time depends on what the rest of the machine does: two cores that are both busy slow each other
down, and more so if they are threads of one core. So one process is also measured beside programs
that keep the other cores busy, as workers do. Compared with that, the figure of two workers shows
what the processes themselves add.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final

from tools.bench.figures import Row, row_of_rounds, rows
from tools.bench.http_decisions import USUAL, USUAL_BATCHES, WORKERS
from tools.bench.run import Run
from tools.bench.servers import server_of
from tools.bench.sets import AclSet, kind, kind_with_many_questions, wide
from tools.bench.stream import CROWD, stream_of
from tools.daemon_process import PATIENT, DaemonProcess, ready_daemon
from tools.processes import children_of, read_memory, running

_BUSY: Final = (sys.executable, "-c", "while True: pass")
_MIB: Final = 1024 * 1024


def measure_workers(run: Run) -> Iterator[Row]:
    """Measure CPU time, and memory before and after it, then memory with many ACLs."""
    acl_set, place = run.pick(kind_with_many_questions(), kind()), run.new_place("workers")
    with (
        ready_daemon(place / "one", run.log_of(acl_set), PATIENT) as one,
        _ready_workers(run, acl_set, place / "two") as two,
    ):
        yield from _measure_memory(acl_set, one, two)
        yield from _measure_cpu(run, acl_set, one, two, place)
        yield from _measure_memory(acl_set, one, two, ", after the load")
    largest = run.pick(wide(50_000, 10), wide(1000, 2))
    with (
        ready_daemon(place / "one", run.log_of(largest), PATIENT) as one,
        _ready_workers(run, largest, place / "two") as two,
    ):
        yield from _measure_memory(largest, one, two)


def _ready_workers(
    run: Run, acl_set: AclSet, directory: Path
) -> AbstractContextManager[DaemonProcess]:
    settings = {**PATIENT, "authorizerd.workers": str(WORKERS)}
    return ready_daemon(directory, run.copy_log(acl_set, directory), settings)


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
        sides = {
            "one process": (alone, 0),
            "one process beside busy cores": (alone, others),
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
        yield from rows(what, *((f"{each} of {whose}", "MiB", size / _MIB) for each, size in sizes))
