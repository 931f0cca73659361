"""What worker processes cost: CPU time for a decision, and memory.

CPU time depends on what the rest of the machine does: two cores that are both busy slow each other
down, and more so if they are threads of one core. So one process is also measured beside programs
that keep the other cores busy, as workers do. Compared with that, the figure of two workers shows
what the processes themselves add.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from authorizerd.acl.model import Question
from tools.bench.authzen import USUAL, USUAL_BATCHES, copy_log, server_of
from tools.bench.daemon_process import PATIENT, DaemonProcess, ready_daemon
from tools.bench.figures import Line
from tools.bench.http_surface import Asked, Load, Server
from tools.bench.processes import children_of, read_memory, running
from tools.bench.rounds import Rounds, compare, measure_in_turn
from tools.bench.sets import AclSet
from tools.bench.stream import CROWD, WORKERS, drive, write_frames

_BUSY: Final = (sys.executable, "-c", "while True: pass")
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersExtent:
    """The rounds, and the seconds of each load."""

    rounds: int
    seconds: float


FULL: Final = WorkersExtent(rounds=3, seconds=2.0)
QUICK: Final = WorkersExtent(rounds=1, seconds=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One daemon, and how many programs keep other cores busy meanwhile."""

    name: str
    daemon: DaemonProcess
    server: Server
    busy: int = 0
    is_peer: bool = False


def measure_workers(
    acl_set: AclSet, log_dir: Path, directory: Path, extent: WorkersExtent
) -> Iterator[Line]:
    """Yield the lines of CPU time, and of the memory before and after the load.

    Args:
        acl_set: has many distinct questions.
        log_dir: contains a checkpoint of the set.

    Raises:
        ProcessError: a daemon failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    questions = list(acl_set.questions())
    with ExitStack() as stack:
        one = stack.enter_context(ready_daemon(directory / "one", log_dir, PATIENT))
        two = stack.enter_context(_ready_workers(log_dir, directory / "two"))
        yield from _measure_memory(acl_set, one, two)
        alone, shared = server_of(one), server_of(two)
        others = max(1, (os.cpu_count() or 1) - 1)
        sides = (
            _Side(name="one process", daemon=one, server=alone),
            _Side(name="one process beside busy cores", daemon=one, server=alone, busy=others),
            _Side(name=f"{WORKERS} workers", daemon=two, server=shared),
        )
        yield from _measure_cpu(questions, sides, directory, extent)
        yield from _measure_memory(acl_set, one, two, ", after the load")


def measure_worker_memory(acl_set: AclSet, log_dir: Path, directory: Path) -> Iterator[Line]:
    """Yield the lines of memory. Arguments and errors are as in ``measure_workers``."""
    directory.mkdir(parents=True, exist_ok=True)
    with (
        ready_daemon(directory / "one", log_dir, PATIENT) as one,
        _ready_workers(log_dir, directory / "two") as two,
    ):
        yield from _measure_memory(acl_set, one, two)


def _ready_workers(log_dir: Path, directory: Path) -> AbstractContextManager[DaemonProcess]:
    """Run a daemon with workers on a copy of the log."""
    settings = {**PATIENT, "authorizerd.workers": str(WORKERS)}
    return ready_daemon(directory, copy_log(log_dir, directory), settings)


def _measure_cpu(
    questions: Sequence[Question], sides: Sequence[_Side], directory: Path, extent: WorkersExtent
) -> Iterator[Line]:
    """Yield a line for each load and side."""
    write_frames(directory, questions, CROWD.each)
    asked = Asked(questions, directory)

    def drive_stream(side: _Side) -> float:
        return drive(side.daemon, CROWD, directory, extent.seconds).cpu_us_of_each(CROWD)

    loads: list[tuple[str, Callable[[_Side], float]]] = [(f"stream, {CROWD}", drive_stream)]
    for load in (USUAL, USUAL_BATCHES):

        def drive_http(side: _Side, load: Load = load) -> float:
            figures = side.server.drive(asked, load, extent.seconds)
            rate = figures.decisions_per_cpu_second
            return 1e6 / rate if rate else 0.0

        loads.append((f"AuthZEN, {load}", drive_http))
    for what, measure in loads:
        for side, figures in zip(sides, _in_turn(sides, measure, directory, extent), strict=True):
            yield compare(
                f"workers, {what}: CPU for a decision, {side.name}", "µs", figures, "", None, float
            )


def _in_turn(
    sides: Sequence[_Side],
    measure: Callable[[_Side], float],
    directory: Path,
    extent: WorkersExtent,
) -> list[Rounds[float]]:
    def measure_one(side: _Side) -> float:
        with ExitStack() as stack:
            for number in range(side.busy):
                stack.enter_context(running(_BUSY, directory / f"busy-{number}.log"))
            return measure(side)

    return measure_in_turn(extent.rounds, sides, measure_one)


def _measure_memory(
    acl_set: AclSet, one: DaemonProcess, two: DaemonProcess, when: str = ""
) -> Iterator[Line]:
    """Yield the memory of a single process, and of a daemon and its workers."""
    workers = [read_memory(worker) for worker in children_of(two.process_id)]
    largest = max(workers, key=lambda memory: memory.uss_bytes)
    acls = sum(1 for _ in acl_set.acls())
    for what, memory in (
        ("a daemon without workers", read_memory(one.process_id)),
        ("a daemon with workers", read_memory(two.process_id)),
        ("each worker", largest),
    ):
        for kind, size in (("USS", memory.uss_bytes), ("PSS", memory.pss_bytes)):
            yield Line(
                what=f"workers, {acls:,} ACLs: {kind} of {what}{when}",
                unit="MiB",
                ours=size / _MIB,
            )
