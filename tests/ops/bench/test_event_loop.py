"""The watch sees every stretch of a loop, and how late its tasks wake up."""

from __future__ import annotations

import time

import trio

from ops.bench.event_loop import LoopWatch, run_watched

STALL_MS = 30.0


def watched_stall(*, uses_cpu: bool) -> LoopWatch:
    """Return the watch of a loop that one task holds for at least ``STALL_MS``."""

    async def stall() -> None:
        await trio.sleep(0.005)
        until = time.thread_time() + STALL_MS / 1000
        if not uses_cpu:
            time.sleep(STALL_MS / 1000)  # noqa: ASYNC251 - to hold the loop is the point
        while uses_cpu and time.thread_time() < until:
            pass
        await trio.sleep(0.005)

    watch = LoopWatch()
    run_watched(watch, trio.run, stall)
    return watch


def test_a_stall_shows_in_stretch_step_and_tick() -> None:
    """A task that keeps its turn keeps everybody waiting, however one looks at it."""
    report = watched_stall(uses_cpu=True).report()
    assert report.stretches.cpu_max >= STALL_MS
    assert report.stretches.wall_max >= STALL_MS
    assert report.steps.cpu_max >= STALL_MS
    assert report.tick_delay_max >= STALL_MS / 2
    assert "stall" in report.longest_task or "watched" in report.longest_task


def test_a_stall_that_uses_no_cpu_shows_in_wall_time_alone() -> None:
    """CPU time is what tells our own work from another program's."""
    report = watched_stall(uses_cpu=False).report()
    assert report.stretches.wall_max >= STALL_MS
    assert report.stretches.cpu_max < STALL_MS


def test_a_run_counts_its_stretches_and_steps() -> None:
    """A stretch ends at each wait for IO, a step at each task's."""

    async def nap() -> None:
        for _ in range(3):
            await trio.lowlevel.checkpoint()

    watch = LoopWatch()
    run_watched(watch, trio.run, nap)
    report = watch.report()
    assert report.stretches.count >= 3
    assert report.steps.count >= report.stretches.count
    assert report.stretches.wall_p999 <= report.stretches.wall_max
