"""Measure how long the daemon's event loop is blocked, inside the unchanged daemon.

A trio instrument measures *stretches*, the time between two waits for I/O, and *steps*, one task's
turn. It records both in wall time, and in the loop thread's CPU time, which other load on the
machine does not affect. A task that ticks every millisecond also notices waits for a worker thread
that holds the interpreter.

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
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec
import trio

from tools.bench.daemon_process import READY_TIMEOUT_SECONDS, DaemonProcess, ready_daemon
from tools.bench.figures import Line, percentile

LIMIT_MS: Final = 2.0
SETTLE_SECONDS: Final = 0.5
TICK_SECONDS: Final = 0.001


class Spans(msgspec.Struct, frozen=True):
    """A summary of spans in ms; CPU times are of the loop's thread."""

    count: int
    wall_max: float
    wall_p999: float
    cpu_max: float
    cpu_p999: float


class LoopReport(msgspec.Struct, frozen=True):
    """``longest_task`` is the task with the longest step in CPU time."""

    stretches: Spans
    steps: Spans
    longest_task: str
    tick_delay_max: float
    tick_delay_p999: float


class _Spans:
    """Collects spans in seconds."""

    def __init__(self) -> None:
        # A float takes 8 bytes in an array and 32 in a list, which the daemon would have to hold.
        self._wall: Final = array("d")
        self._cpu: Final = array("d")
        self._wall_start = time.perf_counter()
        self._cpu_start = time.thread_time()

    def start(self) -> None:
        self._wall_start = time.perf_counter()
        self._cpu_start = time.thread_time()

    def end(self) -> float:
        """Record the span; return its CPU time."""
        cpu = time.thread_time() - self._cpu_start
        self._wall.append(time.perf_counter() - self._wall_start)
        self._cpu.append(cpu)
        return cpu

    def summary(self) -> Spans:
        wall, cpu = sorted(self._wall), sorted(self._cpu)
        return Spans(
            count=len(wall),
            wall_max=wall[-1] * 1000,
            wall_p999=percentile(wall, 99.9) * 1000,
            cpu_max=cpu[-1] * 1000,
            cpu_p999=percentile(cpu, 99.9) * 1000,
        )


class LoopWatch(trio.abc.Instrument):
    """Measures every stretch and step of one ``trio.run``."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Discard all measurements so far."""
        self._stretches = _Spans()
        self._steps = _Spans()
        self._delays = array("d")
        self._longest_step = 0.0
        self._longest_task = ""

    # No wait for I/O precedes the first stretch.
    def before_run(self) -> None:
        self._stretches.start()

    def after_io_wait(self, timeout: float) -> None:
        self._stretches.start()

    def before_io_wait(self, timeout: float) -> None:
        self._stretches.end()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._steps.start()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        cpu = self._steps.end()
        if cpu > self._longest_step:
            self._longest_step = cpu
            self._longest_task = task.name

    async def tick(self) -> None:
        """Record how late this task wakes, until it is cancelled."""
        while True:
            due = time.perf_counter() + TICK_SECONDS
            await trio.sleep(TICK_SECONDS)
            self._delays.append(time.perf_counter() - due)

    def report(self) -> LoopReport:
        # A run may end before its first tick.
        delays = sorted(self._delays) or [0.0]
        return LoopReport(
            stretches=self._stretches.summary(),
            steps=self._steps.summary(),
            longest_task=self._longest_task,
            tick_delay_max=delays[-1] * 1000,
            tick_delay_p999=percentile(delays, 99.9) * 1000,
        )


def run_watched(
    watch: LoopWatch, run: Callable[..., Any], main: Callable[[], Awaitable[None]]
) -> None:
    """Call ``run`` (``trio.run``) with ``main`` and the instrument."""

    async def watched() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.tick)
            await main()
            nursery.cancel_scope.cancel()

    run(watched, instruments=[watch])


def measure_event_loop(log_dir: Path, directory: Path, *, rounds: int) -> list[Line]:
    """Return the lines of a daemon that loads ``log_dir``.

    Each figure is the lowest of ``rounds`` daemons, as in ``measure_stretches_of``.

    Raises:
        ProcessError: the daemon did not become ready.
    """
    reports = []
    for _ in range(rounds):
        with watched_daemon(directory, log_dir, {}):
            time.sleep(SETTLE_SECONDS)
        reports.append(read_loop_report(directory))

    def line(what: str, pick: Callable[[LoopReport], float], limit: float | None = None) -> Line:
        return Line(
            what=f"event loop while loading: {what}",
            unit="ms",
            ours=min(map(pick, reports)),
            limit=limit,
            enforced=limit is not None,
        )

    return [
        line("longest stretch, CPU", lambda report: report.stretches.cpu_max, LIMIT_MS),
        line("stretch, CPU, p99.9", lambda report: report.stretches.cpu_p999),
        line("longest step of one task, CPU", lambda report: report.steps.cpu_max, LIMIT_MS),
        # Not limited: the host may pause this machine in the middle of a stretch.
        line("longest stretch, wall", lambda report: report.stretches.wall_max),
        line("stretch, wall, p99.9", lambda report: report.stretches.wall_p999),
        line("a ticking task's longest delay, wall", lambda report: report.tick_delay_max),
        line("a ticking task's delay, wall, p99.9", lambda report: report.tick_delay_p999),
    ]


def measure_stretches_of(
    what: str,
    log_dir: Path,
    directory: Path,
    settings: Mapping[str, str],
    work: Callable[[DaemonProcess], object],
    *,
    rounds: int,
) -> list[Line]:
    """Return the lines for the event loop of a daemon that has loaded ``log_dir``, during ``work``.

    Each figure is the lowest of ``rounds`` daemons: on a virtual machine, the time that the host
    takes from a thread may count as the thread's CPU time.

    Raises:
        ProcessError: the daemon did not become ready.
    """
    reports = []
    for _ in range(rounds):
        with watched_daemon(directory, log_dir, settings) as daemon:
            time.sleep(SETTLE_SECONDS)
            os.kill(daemon.process_id, signal.SIGUSR2)
            work(daemon)
        reports.append(read_loop_report(directory))
    name = f"event loop, {what}: "
    steps, stretches = [each.steps for each in reports], [each.stretches for each in reports]
    return [
        Line(
            what=f"{name}longest step of one task, CPU",
            unit="ms",
            ours=min(each.cpu_max for each in steps),
            limit=LIMIT_MS,
            enforced=True,
        ),
        *(
            Line(what=f"{name}{shown}, CPU", unit="ms", ours=ms)
            for shown, ms in (
                ("step of one task, p99.9", min(each.cpu_p999 for each in steps)),
                ("longest stretch of all tasks", min(each.cpu_max for each in stretches)),
                ("stretch of all tasks, p99.9", min(each.cpu_p999 for each in stretches)),
            )
        ),
    ]


@contextmanager
def watched_daemon(
    directory: Path,
    log_dir: Path,
    settings: Mapping[str, str],
    timeout_seconds: float = READY_TIMEOUT_SECONDS,
) -> Iterator[DaemonProcess]:
    """Run a daemon that writes a report when it ends, which ``read_loop_report`` returns.

    Raises:
        ProcessError: as ``ready_daemon``.
    """
    report_path = _report_path(directory)
    report_path.unlink(missing_ok=True)
    program = (sys.executable, "-m", "tools.bench.event_loop", report_path)
    with ready_daemon(directory, log_dir, settings, program, timeout_seconds) as daemon:
        yield daemon


def _report_path(directory: Path) -> Path:
    return directory / "event-loop.json"


def read_loop_report(directory: Path) -> LoopReport:
    """Return the report of the last daemon of ``watched_daemon`` in ``directory``."""
    return msgspec.json.decode(_report_path(directory).read_bytes(), type=LoopReport)


def main() -> None:
    """Run the daemon's command with the arguments that follow the report's path."""
    report_path = Path(sys.argv[1])
    sys.argv[:] = ["authorizerd", *sys.argv[2:]]
    watch = LoopWatch()
    signal.signal(signal.SIGUSR2, lambda number, frame: watch.restart())
    run = trio.run
    # Patch trio, so that the daemon needs no hook for measurements.
    with mock.patch.object(trio, "run", lambda main: run_watched(watch, run, main)):
        try:
            # Run by name, so that this does not depend on the daemon's structure.
            runpy.run_module("authorizerd.cli.main", run_name="__main__")
        finally:
            # Also if the command ends with SystemExit, as it does.
            report_path.write_bytes(msgspec.json.encode(watch.report()))


if __name__ == "__main__":
    main()
