"""The instrument that measures the event loop."""

import gc
import time
from collections.abc import Iterator

import pytest
import trio

from tools.bench.event_loop import LoopWatch, run_watched

STALL_MS = 30.0


@pytest.fixture(autouse=True)
def _without_collections() -> Iterator[None]:
    """With the objects of thousands of tests, a collection takes longer than a stall."""
    gc.disable()
    yield
    gc.enable()


def watched_stall(*, uses_cpu: bool, restarts: bool = False) -> LoopWatch:
    """Return the instrument after one task has blocked the loop for ``STALL_MS``.

    If ``restarts``, these measurements are then discarded.
    """

    async def stall() -> None:
        await trio.sleep(0.005)
        until = time.thread_time() + STALL_MS / 1000
        if not uses_cpu:
            time.sleep(STALL_MS / 1000)  # noqa: ASYNC251 - it must block the loop
        while uses_cpu and time.thread_time() < until:
            pass
        await trio.sleep(0.005)
        if restarts:
            watch.restart()
            await trio.sleep(0.005)

    watch = LoopWatch()
    run_watched(watch, trio.run, stall)
    return watch


def test_stall_shows_in_stretch_step_and_tick() -> None:
    report = watched_stall(uses_cpu=True).report()
    assert report["stretch, CPU"].max >= STALL_MS
    assert report["stretch, wall"].max >= STALL_MS
    assert report["step, CPU"].max >= STALL_MS
    assert report["tick"].max >= STALL_MS / 2


def test_stall_without_cpu_use_shows_in_wall_time_only() -> None:
    report = watched_stall(uses_cpu=False).report()
    assert report["stretch, wall"].max >= STALL_MS
    assert report["stretch, CPU"].max < STALL_MS


def test_restart_discards_earlier_measurements() -> None:
    report = watched_stall(uses_cpu=True, restarts=True).report()
    assert report["stretch, CPU"].max < STALL_MS
    assert report["step, CPU"].max < STALL_MS
