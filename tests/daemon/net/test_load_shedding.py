"""Load shedding: only work in the current turn of the loop counts."""

from __future__ import annotations

import time

import pytest
import trio

from authorizerd.daemon.net.load_shedding import LoadShedder

TURN_MS_MAX = 50


@pytest.fixture
def worked_ns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The simulated CPU time of this thread."""
    worked = [0]
    monkeypatch.setattr(time, "thread_time_ns", lambda: worked[0])
    return worked


async def test_turn_is_overloaded_once_its_work_exceeds_the_limit(worked_ns: list[int]) -> None:
    shedder = LoadShedder(TURN_MS_MAX)
    with shedder.running():
        await trio.lowlevel.checkpoint()
        worked_ns[0] += TURN_MS_MAX * 1_000_000
        assert not shedder.is_overloaded
        worked_ns[0] += 1
        assert shedder.is_overloaded
        await trio.lowlevel.checkpoint()
        assert not shedder.is_overloaded


async def test_stopped_shedder_does_not_observe_turns(worked_ns: list[int]) -> None:
    """A server that has ended leaves nothing behind in the loop."""
    shedder = LoadShedder(TURN_MS_MAX)
    with shedder.running():
        pass
    worked_ns[0] += 2 * TURN_MS_MAX * 1_000_000
    await trio.lowlevel.checkpoint()
    assert shedder.is_overloaded


def test_elapsed_time_is_not_work() -> None:
    """A pause of the process is not work."""
    shedder = LoadShedder(0.5)
    time.sleep(0.01)
    assert not shedder.is_overloaded
