"""What worker processes cost: CPU time for a decision, and memory.

CPU time depends on what the rest of the machine does: two cores that are both busy slow each other
down, and more so if they are threads of one core. So one process is also measured beside programs
that keep the other cores busy, as workers do. Compared with that, the figure of two workers shows
what the processes themselves add.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final

from tools.bench.figures import Row, row_of_rounds
from tools.bench.http_decisions import USUAL, USUAL_BATCHES, WORKERS
from tools.bench.run import Run
from tools.bench.servers import server_of
from tools.bench.sets import AclSet, kind, kind_with_many_questions, wide
from tools.bench.stream import CROWD, Stream
from tools.daemon_process import PATIENT, DaemonProcess, ready_daemon
from tools.processes import children_of, read_memory, running

_BUSY: Final = (sys.executable, "-c", "while True: pass")
_MIB: Final = 1024 * 1024


def measure_workers(run: Run) -> Iterator[Row]:
    """Measure CPU time, and memory before and after it, then memory with many ACLs."""
    acl_set, place = run.pick(kind_with_many_questions(), kind()), run.new_place("workers")
    with ExitStack() as stack:
        log_dir = run.log_of(acl_set)
        one = stack.enter_context(ready_daemon(place / "one", log_dir, PATIENT))
        two = stack.enter_context(_ready_workers(run, acl_set, place / "two"))
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
    sides = {
        "one process": (one, 0),
        "one process beside busy cores": (one, others),
        f"{WORKERS} workers": (two, 0),
    }
    servers = {daemon.process_id: server_of(daemon) for daemon in (one, two)}

    def ask_stream(daemon: DaemonProcess) -> float:
        counted = Stream(daemon, questions).count(CROWD, seconds)
        return counted.cpu * 1e6 / counted.decisions

    loads: dict[str, Callable[[DaemonProcess], float]] = {str(CROWD): ask_stream}
    for load in (USUAL, USUAL_BATCHES):

        def ask_http(daemon: DaemonProcess, load: object = load) -> float:
            rate = servers[daemon.process_id].count(questions, load, seconds)[1]  # type: ignore[arg-type]
            return 1e6 / rate if rate else 0.0

        loads[f"AuthZEN, {load}"] = ask_http
    for what, ask in loads.items():
        figures: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(run.pick(3, 1)):
            for side, (daemon, busy) in sides.items():
                with ExitStack() as stack:
                    for number in range(busy):
                        stack.enter_context(running(_BUSY, place / f"busy-{number}.log"))
                    figures[side].append(ask(daemon))
        for side, found in figures.items():
            yield row_of_rounds(what, f"CPU for a decision, {side}", "µs", found)


def _measure_memory(
    acl_set: AclSet, one: DaemonProcess, two: DaemonProcess, when: str = ""
) -> Iterator[Row]:
    """Yield the memory of a single process, and of a daemon and its workers."""
    workers = [read_memory(worker) for worker in children_of(two.process_id)]
    for whose, memory in (
        ("a daemon without workers", read_memory(one.process_id)),
        ("a daemon with workers", read_memory(two.process_id)),
        ("each worker", max(workers, key=lambda memory: memory.uss_bytes)),
    ):
        what = f"{sum(1 for _ in acl_set.acls()):,} ACLs{when}"
        for kind_of, size in (("USS", memory.uss_bytes), ("PSS", memory.pss_bytes)):
            yield Row(what=what, metric=f"{kind_of} of {whose}", unit="MiB", ours=size / _MIB)
