"""Long work in turns. A turn ends by a clock that the tests move."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import trio

from authorizerd.acl.steps import Steps
from authorizerd.actors import steps
from authorizerd.actors.steps import (
    TURN_SECONDS,
    begin_turn,
    call_after_turns,
    finish_in_turns,
    pause_if_due,
)


class Clock:
    """A clock, and the number of times that other tasks were let run."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turns = 0

    async def checkpoint(self) -> None:
        await trio.lowlevel.checkpoint()
        self.turns += 1

    def work(self, seconds: list[float]) -> Steps[str]:
        """Return work whose steps take these times."""
        for taken in seconds:
            self.now += taken
            yield
        return "done"


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(steps, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    lowlevel = SimpleNamespace(checkpoint=clock.checkpoint)
    monkeypatch.setattr(steps, "trio", SimpleNamespace(lowlevel=lowlevel))
    return clock


class Calls:
    """A heap that notes its calls, and the turns before them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.calls: list[tuple[str, int]] = []

    def collect(self) -> None:
        self.calls.append(("collect", self._clock.turns))

    def keep(self) -> None:
        self.calls.append(("keep", self._clock.turns))


@pytest.mark.parametrize(
    ("taken", "turns"),
    [
        ([0.0] * 1000, 0),
        ([TURN_SECONDS / 10] * 9, 0),
        ([TURN_SECONDS] * 5, 5),
        ([TURN_SECONDS / 4] * 40, 10),
        ([0.0, 9.0, 0.0, 0.0], 1),
    ],
)
async def test_turn_ends_with_the_step_that_ends_after_its_time(
    clock: Clock, taken: list[float], turns: int
) -> None:
    begin_turn()
    assert await finish_in_turns(clock.work(taken)) == "done"
    assert clock.turns == turns


async def test_several_pieces_of_work_share_a_turn(clock: Clock) -> None:
    """Otherwise, many short pieces would be one long turn."""
    begin_turn()
    for _ in range(40):
        await finish_in_turns(clock.work([TURN_SECONDS / 4]))
        await pause_if_due()
    assert clock.turns == 10


async def test_task_that_has_waited_begins_a_new_turn(clock: Clock) -> None:
    clock.now += 5
    begin_turn()
    await finish_in_turns(clock.work([TURN_SECONDS / 2]))
    assert clock.turns == 0


async def test_only_objects_of_the_same_turn_are_kept(clock: Clock) -> None:
    """What other tasks leave behind is collected before more objects are kept."""
    heap = Calls(clock)
    begin_turn()
    await finish_in_turns(clock.work([TURN_SECONDS] * 2), heap)
    assert heap.calls == [
        ("collect", 0), ("keep", 0), ("collect", 1), ("keep", 1), ("collect", 2), ("keep", 2),
    ]  # fmt: skip


async def test_error_of_a_step_is_raised(clock: Clock) -> None:
    def fail() -> Steps[None]:
        yield
        raise ValueError("why")

    with pytest.raises(ValueError, match="why"):
        await finish_in_turns(fail())


@pytest.mark.parametrize(("takes_time", "expected"), [(False, [1, 2, 3]), (True, [1, 3, 5])])
async def test_turns_of_later_tasks_are_followed_by_the_call(
    clock: Clock, takes_time: bool, expected: list[int]
) -> None:
    """Other tasks run before the call, and after it if it has taken time."""
    calls: list[int] = []

    async def work() -> None:
        begin_turn()
        await finish_in_turns(clock.work([TURN_SECONDS] * 3))

    def call() -> bool:
        calls.append(clock.turns)
        return takes_time

    call_after_turns(call)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
    assert calls == expected
