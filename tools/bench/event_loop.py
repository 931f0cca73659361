"""Measure how long the daemon's event loop is blocked, inside the unchanged daemon.

A trio instrument measures *stretches*, the time between two waits for I/O, and *steps*, one task's
turn, in wall time and in the loop thread's CPU time, which other load does not affect. A task that
ticks every millisecond also notices waits for a worker thread that holds the GIL.

    python -m tools.bench.event_loop REPORT.json serve --config server.properties …

SIGUSR2 discards all measurements so far, so that a report can leave out the loading of the log.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec
import trio

from tools.bench.figures import Row, percentile
from tools.bench.loads import Target
from tools.bench.run import Run
from tools.bench.sets import wide
from tools.daemon_process import READY_TIMEOUT_SECONDS, DaemonProcess, ready_daemon

LIMIT_MS: Final = 2.0
SETTLE_SECONDS: Final = 0.5
TICK_SECONDS: Final = 0.001


class Spans(msgspec.Struct, frozen=True):
    """The longest of many spans, and their 99.9th percentile, in ms."""

    max: float
    p999: float


LoopReport = dict[str, Spans]
"""The stretches, the steps, and the tick delays, by ``_KINDS``."""
_KINDS: Final = ("stretch, CPU", "stretch, wall", "step, CPU", "step, wall", "tick")


class LoopWatch(trio.abc.Instrument):
    """Measures every stretch and step of one ``trio.run``."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Discard all measurements so far."""
        # A float takes 8 bytes in an array but 32 in a list, and the daemon must hold all of them.
        self._spans = {kind: array("d") for kind in _KINDS}
        self._stretch = self._step = time.perf_counter(), time.thread_time()

    # No wait for I/O precedes the first stretch.
    def before_run(self) -> None:
        self._stretch = time.perf_counter(), time.thread_time()

    def after_io_wait(self, timeout: float) -> None:
        self.before_run()

    def before_io_wait(self, timeout: float) -> None:
        self._spans["stretch, CPU"].append(time.thread_time() - self._stretch[1])
        self._spans["stretch, wall"].append(time.perf_counter() - self._stretch[0])

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step = time.perf_counter(), time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._spans["step, CPU"].append(time.thread_time() - self._step[1])
        self._spans["step, wall"].append(time.perf_counter() - self._step[0])

    async def tick(self) -> None:
        """Record how late this task wakes up, until it is cancelled."""
        while True:
            due = time.perf_counter() + TICK_SECONDS
            await trio.sleep(TICK_SECONDS)
            self._spans["tick"].append(time.perf_counter() - due)

    def report(self) -> LoopReport:
        """Return the spans since the last restart; a run may end before its first tick."""
        spans = {kind: seconds or array("d", [0]) for kind, seconds in self._spans.items()}
        return {
            kind: Spans(max(seconds) * 1000, percentile(seconds, 99.9) * 1000)
            for kind, seconds in spans.items()
        }


_STEP: Final = "longest step of one task, CPU"
_STRETCH: Final = "longest stretch, CPU"
_WHILE_LOADING: Final = {
    _STRETCH: ("stretch, CPU", "max"),
    "stretch, CPU, p99.9": ("stretch, CPU", "p999"),
    _STEP: ("step, CPU", "max"),
    # No limit: the host may pause this machine in the middle of a stretch.
    "longest stretch, wall": ("stretch, wall", "max"),
    "stretch, wall, p99.9": ("stretch, wall", "p999"),
    "a ticking task's longest delay, wall": ("tick", "max"),
    "a ticking task's delay, wall, p99.9": ("tick", "p999"),
}
_DURING_WORK: Final = {
    _STEP: ("step, CPU", "max"),
    "step of one task, p99.9, CPU": ("step, CPU", "p999"),
    "longest stretch of all tasks, CPU": ("stretch, CPU", "max"),
    "stretch of all tasks, p99.9, CPU": ("stretch, CPU", "p999"),
}


def measure_event_loop(run: Run) -> Iterator[Row]:
    """Measure a daemon that loads a checkpoint."""
    log_dir = run.log_of(run.pick(wide(50_000, 10), wide(1000, 2)))
    place, reports = run.new_place("event-loop"), []
    for _ in range(run.pick(3, 1)):
        with watched_daemon(place, log_dir, {}):
            time.sleep(SETTLE_SECONDS)
        reports.append(read_loop_report(place))
    yield from _rows("while loading", _WHILE_LOADING, reports)


def measure_stretches_of(
    what: str, log_dir: Path, directory: Path, settings: Mapping[str, str],
    load: Callable[[DaemonProcess], Target], *, rounds: int, seconds: float,
) -> Iterator[Row]:  # fmt: skip
    """Yield the rows of a daemon that has loaded ``log_dir``, during a load."""
    reports = []
    for _ in range(rounds):
        with watched_daemon(directory, log_dir, settings) as daemon:
            time.sleep(SETTLE_SECONDS)
            os.kill(daemon.process_id, signal.SIGUSR2)
            load(daemon).count(seconds)
        reports.append(read_loop_report(directory))
    yield from _rows(what, _DURING_WORK, reports)


def _rows(
    what: str, metrics: Mapping[str, tuple[str, str]], reports: Sequence[LoopReport]
) -> Iterator[Row]:
    """Yield the lowest figure of several daemons.

    On a virtual machine, time that the host steals from a thread may count as its CPU time.
    """
    for metric, (kind, name) in metrics.items():
        ours = min(getattr(report[kind], name) for report in reports)
        is_limited = metric in (_STEP, _STRETCH)
        yield Row(
            what=f"event loop, {what}", metric=metric, unit="ms", ours=ours, enforced=is_limited,
            limit=LIMIT_MS if is_limited else None,
        )  # fmt: skip


def watched_daemon(
    directory: Path, log_dir: Path, settings: Mapping[str, str], *,
    timeout_seconds: float = READY_TIMEOUT_SECONDS, token: str = "",
) -> AbstractContextManager[DaemonProcess]:  # fmt: skip
    """Run a daemon that writes a report when it ends, which ``read_loop_report`` returns."""
    report_path = directory / "event-loop.json"
    report_path.unlink(missing_ok=True)
    program = (sys.executable, "-m", "tools.bench.event_loop", report_path)
    return ready_daemon(directory, log_dir, settings, program, timeout_seconds, token)


def read_loop_report(directory: Path) -> LoopReport:
    """Return the report of the last ``watched_daemon`` in ``directory``."""
    return msgspec.json.decode((directory / "event-loop.json").read_bytes(), type=LoopReport)


def run_watched(watch: LoopWatch, run: Callable[..., Any], main: Callable[[], Any]) -> None:
    """Call ``run`` (``trio.run``) with ``main`` and the instrument."""

    async def watched() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.tick)
            await main()
            nursery.cancel_scope.cancel()

    run(watched, instruments=[watch])


def main() -> None:
    """Run the daemon's command with the arguments that follow the report's path."""
    report_path, watch, run = Path(sys.argv[1]), LoopWatch(), trio.run
    sys.argv[:] = ["authorizerd", *sys.argv[2:]]
    signal.signal(signal.SIGUSR2, lambda number, frame: watch.restart())
    # Patch trio, so that the daemon needs no hook for measurements.
    with mock.patch.object(trio, "run", lambda main: run_watched(watch, run, main)):
        try:
            # Run the command by name, so that this does not depend on the daemon's structure.
            runpy.run_module("authorizerd.cli.main", run_name="__main__")
        finally:
            # Also if the command ends with SystemExit, which is the normal case.
            report_path.write_bytes(msgspec.json.encode(watch.report()))


if __name__ == "__main__":
    main()
