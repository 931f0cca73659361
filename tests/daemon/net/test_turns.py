"""Turns: which connections go on in each turn of the loop, and which requests are refused."""

import time

import pytest
import trio

from authorizerd.daemon.net.turns import (
    BETWEEN_NS,
    ROUND_NS,
    SLICES_MAX,
    WORK_NS,
    Admission,
    Turns,
    current_turns,
)

COUNT = 100


@pytest.fixture
def worked_ns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The simulated CPU time of this thread."""
    worked = [0]
    monkeypatch.setattr(time, "thread_time_ns", lambda: worked[0])
    return worked


class Crowd:
    """Connections that go on for ``slice_ns`` each time; ``ran`` has their numbers, in order."""

    def __init__(self, turns: Turns, worked_ns: list[int], slice_ns: int) -> None:
        self._turns = turns
        self._worked_ns = worked_ns
        self._slice_ns = slice_ns
        self.ran: list[int] = []
        self.waits_ns: list[int] = []

    async def go_on(self, number: int, slices: int) -> None:
        took_ns = 0
        for _ in range(slices):
            self.waits_ns.append(await self._turns.wait(took_ns))
            self.ran.append(number)
            took_ns = self._slice_ns
            self._worked_ns[0] += took_ns


async def test_all_connections_go_on_in_order_of_arrival(worked_ns: list[int]) -> None:
    crowd = Crowd(Turns(), worked_ns, WORK_NS)
    async with trio.open_nursery() as nursery:
        for number in range(COUNT):
            nursery.start_soon(crowd.go_on, number, 3)
    assert len(crowd.ran) == 3 * COUNT
    first = crowd.ran[:COUNT]
    assert sorted(first) == list(range(COUNT))
    assert crowd.ran == first * 3  # one slice each in a turn of this length


@pytest.mark.parametrize(("slice_ns", "slices"), [(2 * WORK_NS, 1), (WORK_NS // 10, 10), (1, 64)])
async def test_turn_has_as_many_slices_as_fit(
    worked_ns: list[int], slice_ns: int, slices: int
) -> None:
    assert slices <= SLICES_MAX
    crowd = Crowd(Turns(), worked_ns, slice_ns)
    in_turns: list[int] = []

    async def watch() -> None:
        while True:
            before = len(crowd.ran)
            await trio.lowlevel.checkpoint()
            in_turns.append(len(crowd.ran) - before)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        async with trio.open_nursery() as others:
            for number in range(COUNT):
                others.start_soon(crowd.go_on, number, 20)
        nursery.cancel_scope.cancel()
    # trio shuffles its tasks, so one may see the slices of two turns, or of none.
    assert max(in_turns[-COUNT:]) <= 2 * slices
    if slices > 1:
        assert max(in_turns) > slices // 2


async def test_wait_reports_the_work_of_this_thread(worked_ns: list[int]) -> None:
    """Nobody waits in the first turn; the last one has waited for all the others.

    Elapsed time would count pauses of the machine as well.
    """
    crowd = Crowd(Turns(), worked_ns, WORK_NS)
    async with trio.open_nursery() as nursery:
        for number in range(COUNT):
            nursery.start_soon(crowd.go_on, number, 1)
    assert crowd.waits_ns[0] == 0
    assert (COUNT - 2) * WORK_NS <= crowd.waits_ns[-1] <= COUNT * WORK_NS


async def test_other_work_gets_no_more_time_than_the_slices(worked_ns: list[int]) -> None:
    """While other requests take 2 ms a turn, four slices of 0.5 ms go on in it."""
    turns = Turns()
    crowd = Crowd(turns, worked_ns, WORK_NS)

    async def work() -> None:
        while len(crowd.ran) < 20 * COUNT:
            worked_ns[0] += 4 * WORK_NS
            counts.append(len(crowd.ran))
            await trio.lowlevel.checkpoint()

    counts: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        for number in range(COUNT):
            nursery.start_soon(crowd.go_on, number, 20)
    assert 3 * len(counts) < len(crowd.ran)


async def test_cancelled_connections_hold_up_nobody() -> None:
    turns = Turns()
    with trio.CancelScope() as scope:
        scope.cancel()
        await turns.wait()
    with trio.fail_after(5):
        await turns.wait()


async def test_slices_shrink_while_many_wait(worked_ns: list[int]) -> None:
    turns = Turns()
    crowd = Crowd(turns, worked_ns, WORK_NS)
    assert turns.slice_ns == WORK_NS
    async with trio.open_nursery() as nursery:
        for number in range(COUNT):
            nursery.start_soon(crowd.go_on, number, 1)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        assert turns.waiting > COUNT // 2
        assert turns.slice_ns == ROUND_NS // (1 + turns.waiting)
        assert not turns.begin_slice()  # those that wait come first


@pytest.mark.parametrize("is_begun", [True, False])
async def test_others_are_answered_before_slices_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch, is_begun: bool
) -> None:
    """Their time counts from the end of the last answers, so half the time is left for slices."""
    now_ns = [0]
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now_ns[0])
    answered: list[int] = []

    def answer(end_ns: int) -> None:
        answered.append(end_ns - now_ns[0])
        now_ns[0] += BETWEEN_NS

    turns = Turns()
    for _ in range(COUNT):
        await turns.wait(1)  # short slices, so that several begin in one turn
    with turns.answering_between(answer):
        for later_ns in (BETWEEN_NS, BETWEEN_NS - 1, 1):
            now_ns[0] += later_ns
            if is_begun:
                assert turns.begin_slice()
            else:
                await turns.wait()
    assert answered == [BETWEEN_NS] * 2
    now_ns[0] += BETWEEN_NS
    await turns.wait()
    assert len(answered) == 2


async def test_all_ports_of_a_loop_share_the_queue() -> None:
    assert current_turns() is current_turns()


TURN_MS_MAX = 50
LIMIT_NS = TURN_MS_MAX * 1_000_000


@pytest.fixture
def waited_ns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The work that the queue reports after each wait."""
    waited = [0]

    async def wait(_: Turns, slice_ns: int = 0) -> int:
        await trio.lowlevel.checkpoint()
        return waited[0]

    monkeypatch.setattr(Turns, "wait", wait)
    return waited


async def test_request_is_refused_once_it_waited_longer_than_allowed(waited_ns: list[int]) -> None:
    admission = Admission(Turns(), TURN_MS_MAX)
    for waited, is_refused in ((LIMIT_NS, False), (LIMIT_NS + 1, True), (0, False)):
        waited_ns[0] = waited
        await admission.wait()
        assert admission.admits() is not is_refused
        assert admission.is_deferred is is_refused
        admission.is_deferred = False


async def test_one_wait_refuses_one_request(waited_ns: list[int]) -> None:
    admission = Admission(Turns(), TURN_MS_MAX)
    waited_ns[0] = LIMIT_NS + 1
    await admission.wait()
    assert [admission.admits() for _ in range(2)] == [False, True]


@pytest.mark.parametrize("has_answered", [True, False])
async def test_request_behind_answered_ones_is_admitted(
    waited_ns: list[int], has_answered: bool
) -> None:
    turns = Turns()
    admission = Admission(turns, TURN_MS_MAX)
    waited_ns[0] = LIMIT_NS + 1
    if has_answered:
        await admission.wait()
        admission.leave(has_backlog=True)
    else:
        assert turns.begin_slice()  # another connection's, so this one waits
        await admission.enter()
    assert admission.admits()


async def test_connection_begins_one_slice_without_waiting(waited_ns: list[int]) -> None:
    admission = Admission(Turns(), TURN_MS_MAX)
    assert admission.share(1) == 1
    assert [admission.begin_slice() for _ in range(2)] == [True, False]
    assert admission.share(1) > 1
