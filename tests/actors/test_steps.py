"""Long work in turns. A turn ends by a clock that the tests move."""

from types import SimpleNamespace

import pytest
import trio

from authorizerd.acl.steps import Steps
from authorizerd.actors import steps
from authorizerd.actors.steps import (
    CONTAINERS_MIN,
    TURN_SECONDS,
    begin_turn,
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


@pytest.mark.parametrize("is_automatic", [False, True])
async def test_only_objects_of_the_same_turn_are_kept(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, is_automatic: bool
) -> None:
    """What other tasks leave behind is collected, after other tasks have run and before more."""
    calls: list[tuple[str, int]] = []
    collector = SimpleNamespace(
        isenabled=lambda: is_automatic,
        get_count=lambda: (CONTAINERS_MIN, 0, 0),
        collect=lambda: calls.append(("collect", clock.turns)),
        freeze=lambda: calls.append(("freeze", clock.turns)),
    )
    monkeypatch.setattr(steps, "gc", collector)
    begin_turn()
    await finish_in_turns(clock.work([TURN_SECONDS] * 2))
    assert clock.turns == (2 if is_automatic else 4)
    collections = [
        (call, turn)
        for turn in range(5)
        # In an even turn, the work alone runs after the collection.
        for call in ("collect", "freeze", "freeze")[: 2 + (turn % 2 == 0)]
    ]
    assert calls == ([] if is_automatic else collections)


async def test_error_of_a_step_is_raised(clock: Clock) -> None:
    def fail() -> Steps[None]:
        yield
        raise ValueError("why")

    with pytest.raises(ValueError, match="why"):
        await finish_in_turns(fail())
