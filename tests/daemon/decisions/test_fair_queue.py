"""Callers get the turn one after another, whatever each of them has sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.lowlevel
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.steps import Steps
from authorizerd.daemon.decisions.fair_queue import FairQueue
from authorizerd.daemon.decisions.long_work import STEPS_PER_SLICE, LongWork

Ask = Callable[[str], None]


class Served:
    """Requests that keep the turn until the test ends them, one after another."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.queue = FairQueue()
        self.order: list[str] = []
        self.scopes: dict[str, trio.CancelScope] = {}
        self._nursery = nursery
        self._end = trio.Event()

    async def ask(self, *names: str) -> None:
        """Have the callers that the first letters name send requests, in this order."""
        for name in names:
            self._nursery.start_soon(self._serve, name)
            await wait_all_tasks_blocked()

    async def _serve(self, name: str) -> None:
        with trio.CancelScope() as scope:
            self.scopes[name] = scope
            async with self.queue.turn(name[0]):
                self.order.append(name)
                await self._end.wait()

    async def end(self, count: int = 1) -> None:
        """End the request that has the turn, and the next ones."""
        for _ in range(count):
            self._end.set()
            self._end = trio.Event()
            await wait_all_tasks_blocked()


async def test_callers_are_served_in_turn(nursery: trio.Nursery) -> None:
    """Another caller waits only for the request that has the turn."""
    served = Served(nursery)
    await served.ask("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    assert served.order == ["a1"]
    await served.end(7)
    assert served.order == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]
    await served.ask("d1")
    assert served.order[-1] == "d1"
    await served.end()


async def test_caller_that_comes_again_waits_for_the_others(nursery: trio.Nursery) -> None:
    served = Served(nursery)
    await served.ask("a1", "b1", "c1", "a2")
    await served.end()
    await served.ask("a3", "b2")
    await served.end(5)
    assert served.order == ["a1", "b1", "c1", "a2", "b2", "a3"]


@pytest.mark.parametrize("cancelled", ["a1", "a2", "b1", "c1"])
async def test_cancelled_request_leaves_the_turn_to_the_next(
    nursery: trio.Nursery, cancelled: str
) -> None:
    """Whether it has the turn or waits for it."""
    served = Served(nursery)
    await served.ask("a1", "a2", "b1", "c1")
    served.scopes[cancelled].cancel()
    await wait_all_tasks_blocked()
    await served.end(4)
    expected = [each for each in ("a1", "b1", "c1", "a2") if each != cancelled or each == "a1"]
    assert served.order == expected


def count_steps(order: list[str], name: str, slices: int) -> Steps[str]:
    for number in range(slices * STEPS_PER_SLICE):
        if number % STEPS_PER_SLICE == 0:
            order.append(name)
        yield
    return name


async def test_long_work_of_callers_goes_on_in_turn(nursery: trio.Nursery) -> None:
    """A short search does not wait for the end of another caller's long one.

    Only one request of a caller is under way.
    """
    work = LongWork(60_000)
    order: list[str] = []
    for name, slices in (("a1", 90), ("a2", 1), ("b1", 70), ("b2", 2), ("c1", 30)):
        nursery.start_soon(work.run, count_steps(order, name, slices), name[0])
        await trio.lowlevel.checkpoint()
    await wait_all_tasks_blocked()
    of_a, of_b = ([each for each in order if each[0] == caller] for caller in "ab")
    assert of_a == ["a1"] * 90 + ["a2"]
    assert of_b == ["b1"] * 70 + ["b2"] * 2
    together = order[order.index("c1") :][: 3 * 30]
    assert together == together[:3] * 30
    assert sorted(together[:3]) == ["a1", "b1", "c1"]


async def test_work_that_is_cancelled_while_others_have_the_turn_is_not_resumed() -> None:
    work = LongWork(60_000)
    order: list[str] = []
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def run_cancelled() -> None:
            with scope:
                await work.run(count_steps(order, "a1", 10**6), "a")

        def cancel_first() -> Steps[str]:
            yield from count_steps(order, "b1", 2)
            scope.cancel()
            yield from count_steps(order, "b1", 2)
            return ""

        nursery.start_soon(run_cancelled)
        nursery.start_soon(work.run, cancel_first(), "b")
    assert order.count("b1") == 4
    assert order[-1] == "b1"
    assert await work.run(count_steps(order, "c1", 1), "c") == "c1"
