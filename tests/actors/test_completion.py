from collections.abc import Sequence

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.actors.completion import Completion, ItemCompletions


async def test_every_waiter_gets_the_result(nursery: trio.Nursery) -> None:
    """It does not matter whether a task waits before the end or after it."""
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
    """It is raised each time."""
    completion: Completion[int] = Completion()
    completion.fail(ValueError("why"))
    for _ in range(2):
        with pytest.raises(ValueError, match="why"):
            await completion


async def test_a_cancelled_waiter_does_not_end_the_work() -> None:
    """The result can be awaited again."""
    completion: Completion[int] = Completion()
    with trio.move_on_after(0):
        await completion
    completion.succeed(1)
    assert await completion == 1


def test_a_completion_ends_once_and_has_no_result_before() -> None:
    """Ending a completion twice is a defect of the task that does the work."""
    completion: Completion[int] = Completion()
    with pytest.raises(AssertionError):
        completion.result()
    completion.succeed(1)
    with pytest.raises(AssertionError):
        completion.succeed(2)
    with pytest.raises(AssertionError):
        completion.fail(ValueError())


async def test_items_end_with_the_whole() -> None:
    """Each has its own value or error. Items read before the end complete as well."""
    whole: Completion[Sequence[int | Exception]] = Completion()
    items = ItemCompletions(whole, 3)
    early = list(items)
    assert [item.is_done for item in early] == [False] * 3
    whole.succeed([1, ValueError("why"), 3])
    for first, failed, last in (early, items, items[-3:], [items[n] for n in range(3)]):
        assert (first.is_done, first.error, await first, last.result()) == (True, None, 1, 3)
        assert isinstance(failed.error, ValueError)
        with pytest.raises(ValueError, match="why"):
            await failed
    assert (len(items), len(items[1:])) == (3, 2)
    with pytest.raises(IndexError):
        items[3]


async def test_items_fail_together() -> None:
    """An error of the whole is the error of each item."""
    whole: Completion[Sequence[int | Exception]] = Completion()
    items = ItemCompletions(whole, 2)
    with pytest.raises(AssertionError):
        items[0].fail(ValueError())
    with pytest.raises(AssertionError):
        items[0].succeed(1)
    whole.fail(ValueError("refused"))
    for item in items:
        with pytest.raises(ValueError, match="refused"):
            item.result()


@pytest.mark.parametrize(
    ("value", "are_none"),
    [([], True), ([None] * 3, True), ([None, ValueError(), None], False), ([None, 1, None], False)],
)
def test_items_are_all_none_only_once_done(value: list[object], are_none: bool) -> None:
    whole: Completion[Sequence[object]] = Completion()
    items = ItemCompletions(whole, len(value))
    assert not items.are_all_none
    whole.succeed(value)
    assert items.are_all_none == are_none


def test_failed_items_are_not_none() -> None:
    whole: Completion[Sequence[object]] = Completion()
    whole.fail(ValueError())
    assert not ItemCompletions(whole, 0).are_all_none


def test_a_shared_error_does_not_collect_tracebacks() -> None:
    """Each raise would otherwise add its frames."""
    error = ValueError()
    whole: Completion[Sequence[int | Exception]] = Completion()
    whole.succeed([error] * 50)
    alone: Completion[int] = Completion()
    alone.fail(error)
    for completion in (*ItemCompletions(whole, 50), *[alone] * 50):
        with pytest.raises(ValueError):  # noqa: PT011 - it has no text
            completion.result()
    frames = 0
    traceback = error.__traceback__
    while traceback is not None:
        frames, traceback = frames + 1, traceback.tb_next
    assert frames < 5
