import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from authorizerd.actors.published import Expiring, Published


async def test_a_waiter_wakes_at_the_value_it_accepts(nursery: trio.Nursery) -> None:
    """Other values do not end the wait."""
    numbers = Published(0)
    seen: list[int] = []

    async def wait() -> None:
        seen.append(await numbers.wait_until(lambda number: number >= 2))

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    numbers.publish(1)
    await wait_all_tasks_blocked()
    assert seen == []
    numbers.publish(5)
    await wait_all_tasks_blocked()
    assert seen == [5]


async def test_an_accepted_value_ends_the_wait_at_once() -> None:
    with trio.fail_after(1):
        assert await Published(3).wait_until(lambda number: number == 3) == 3


async def test_waiting_times_out_in_virtual_time(autojump_clock: MockClock) -> None:
    with pytest.raises(trio.TooSlowError), trio.fail_after(3600):
        await Published(0).wait_until(lambda number: number > 0)


async def test_seconds_left_are_never_negative() -> None:
    """The process may be paused between two readings of the clock."""
    now = 5.0
    value = Expiring[int](deadline=7.0, clock=lambda: now)
    assert (value.seconds_left, value.has_passed(value.deadline)) == (2.0, False)
    now = 20.0
    assert value.seconds_left == 0.0
