from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors.completion import Completion


async def test_every_waiter_gets_the_result(nursery: trio.Nursery) -> None:
    """Whoever came before and whoever comes after."""
    completion: Completion[int] = Completion()
    seen: list[int] = []

    async def wait() -> None:
        seen.append(await completion)

    nursery.start_soon(wait)
    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    assert not completion.is_done
    completion.succeed(7)
    await wait_all_tasks_blocked()
    assert seen == [7, 7]
    assert completion.is_done
    assert await completion == completion.result() == await Completion.of(7)


async def test_an_error_is_raised_to_every_waiter() -> None:
    """Each time it is awaited."""
    completion: Completion[int] = Completion()
    completion.fail(ValueError("why"))
    for _ in range(2):
        with pytest.raises(ValueError, match="why"):
            await completion


async def test_a_cancelled_waiter_does_not_end_the_work() -> None:
    """The result stays to be awaited again."""
    completion: Completion[int] = Completion()
    with trio.move_on_after(0):
        await completion
    completion.succeed(1)
    assert await completion == 1


def test_it_ends_once_and_has_no_result_before() -> None:
    """A second end is a fault of whoever does the work."""
    completion: Completion[int] = Completion()
    with pytest.raises(AssertionError):
        completion.result()
    completion.succeed(1)
    with pytest.raises(AssertionError):
        completion.succeed(2)
    with pytest.raises(AssertionError):
        completion.fail(ValueError())
