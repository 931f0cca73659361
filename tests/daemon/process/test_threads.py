"""Threads: their errors, and the half of the time that they leave to the event loop."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from authorizerd.daemon.process import threads
from authorizerd.daemon.process.thread_switching import REST_S_MAX, WORK_S, Pace
from authorizerd.daemon.process.threads import run_in_thread


class Held:
    """Something that a frame of the function holds."""


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def test_result_or_error_is_that_of_the_function() -> None:
    assert await run_in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(divmod, 7, 0)


async def test_error_leaves_no_cycle() -> None:
    """Without a collection, what the function held is gone with the error."""
    held: list[weakref.ref[Held]] = []

    def fail() -> None:
        local = Held()
        held.append(weakref.ref(local))
        raise ValueError("expected")

    async def call() -> None:
        with pytest.raises(ValueError, match="expected"):
            await run_in_thread(fail)

    await call()
    await trio.testing.wait_all_tasks_blocked()
    assert held[0]() is None


def test_daemon_starts_threads_here_alone() -> None:
    daemon = Path(threads.__file__).parents[1]
    users = {path.name for path in daemon.rglob("*.py") if "to_thread" in path.read_text("utf-8")}
    assert users == {"threads.py"}


@pytest.mark.parametrize("step_s", [WORK_S / 7, WORK_S, WORK_S * 5, REST_S_MAX * 3])
def test_thread_rests_as_long_as_it_works(step_s: float) -> None:
    """A step that took very long, as on a busy machine, does not delay the answer as much again."""
    now, rests = 0.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        rests.append(seconds)
        now += seconds

    pace = Pace(lambda: now, sleep)
    pace.rest_if_due()
    steps = 70
    for _ in range(steps):
        now += step_s
        pace.rest_if_due()
    assert sum(rests) == pytest.approx(min(steps * step_s, len(rests) * REST_S_MAX), rel=0.01)
    assert len(rests) <= steps * step_s / WORK_S + 1
