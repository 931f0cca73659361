from collections.abc import Sequence

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from authorizerd.actors.completion import Completion, ItemCompletions
from authorizerd.actors.purgatory import Purgatory
from tests.support.turns import Turns


async def test_a_request_that_is_already_done_is_never_counted() -> None:
    """Such a request is answered without waiting. A failed item is done."""
    purgatory = Purgatory(1000)
    failed: Completion[int] = Completion()
    failed.fail(ValueError())
    with trio.fail_after(1):
        await purgatory.wait([Completion.of(1), failed])
        await purgatory.wait([])
    assert purgatory.requests_waiting == 0


async def test_a_request_waits_for_the_last_of_its_items(nursery: trio.Nursery) -> None:
    """Meanwhile it counts once, as in Kafka, however many items are pending."""
    purgatory = Purgatory(1_000_000)
    first: Completion[int] = Completion()
    second: Completion[int] = Completion()
    done = trio.Event()

    async def wait() -> None:
        await purgatory.wait([Completion.of(0), first, second])
        done.set()

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    assert purgatory.requests_waiting == 1
    first.fail(ValueError())
    await wait_all_tasks_blocked()
    assert purgatory.requests_waiting == 1
    assert not done.is_set()
    second.succeed(2)
    await done.wait()
    assert purgatory.requests_waiting == 0


async def test_pending_items_time_out(autojump_clock: MockClock) -> None:
    """Finished items keep their results. The work of the others continues."""
    purgatory = Purgatory(30_000)
    finished, pending = Completion[int](), Completion[int]()
    finished.succeed(1)
    before = trio.current_time()
    await purgatory.wait([finished, pending])
    assert trio.current_time() - before == 30
    assert finished.result() == 1
    assert not pending.is_done
    assert (purgatory.requests_waiting, purgatory.requests_timed_out) == (0, 1)
    pending.succeed(2)


async def test_a_cancelled_request_is_not_counted_and_leaves_completions_unchanged() -> None:
    purgatory = Purgatory(30_000)
    pending = Completion[int]()
    with trio.move_on_after(0):
        await purgatory.wait([pending])
    assert (purgatory.requests_waiting, purgatory.requests_timed_out) == (0, 0)
    assert not pending.is_done


async def test_the_items_of_one_request_are_waited_for_once(nursery: trio.Nursery) -> None:
    purgatory = Purgatory(30_000)
    whole: Completion[Sequence[int | Exception]] = Completion()
    finished = trio.Event()

    async def wait() -> None:
        await purgatory.wait(ItemCompletions(whole, 1000))
        finished.set()

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    assert purgatory.requests_waiting == 1
    whole.succeed([0] * 1000)
    await finished.wait()
    assert purgatory.requests_waiting == 0


async def test_many_completions_are_examined_in_turns(nursery: trio.Nursery) -> None:
    """Other tasks run in between."""
    purgatory = Purgatory(30_000)
    turns = Turns()
    nursery.start_soon(turns.run)
    await purgatory.wait([Completion.of(1)] * 10_000)
    assert turns.count > 10_000 / 512
