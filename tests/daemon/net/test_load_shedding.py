"""The clock of a turn: work counts, and only since the loop last looked for what is ready."""

from __future__ import annotations

import time

import pytest
import trio

from authorizerd.daemon.net.load_shedding import LoadShedder

TURN_MS_MAX = 50


@pytest.fixture
def worked_ns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How long this thread has worked, as the clock is told."""
    worked = [0]
    monkeypatch.setattr(time, "thread_time_ns", lambda: worked[0])
    return worked


async def test_a_turn_is_overloaded_once_it_has_worked_too_much(worked_ns: list[int]) -> None:
    """Exactly as much as a turn may do is not too much; the next turn begins anew."""
    shedder = LoadShedder(TURN_MS_MAX)
    with shedder.running():
        await trio.lowlevel.checkpoint()
        worked_ns[0] += TURN_MS_MAX * 1_000_000
        assert not shedder.is_overloaded
        worked_ns[0] += 1
        assert shedder.is_overloaded
        await trio.lowlevel.checkpoint()
        assert not shedder.is_overloaded


async def test_one_that_does_not_run_is_told_of_no_turn(worked_ns: list[int]) -> None:
    """A server that has ended leaves nothing behind in the loop."""
    shedder = LoadShedder(TURN_MS_MAX)
    with shedder.running():
        pass
    worked_ns[0] += 2 * TURN_MS_MAX * 1_000_000
    await trio.lowlevel.checkpoint()
    assert shedder.is_overloaded


def test_time_that_goes_by_is_no_work() -> None:
    """A process that was stopped for a while has nothing more to do for it."""
    shedder = LoadShedder(0.5)
    time.sleep(0.01)
    assert not shedder.is_overloaded
