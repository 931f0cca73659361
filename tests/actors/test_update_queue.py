"""The UpdateQueue with the real RecordApplier, over a log in memory whose syncs tests can delay."""

import itertools
from contextlib import nullcontext
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.model import Acl, AclFilter, ChangeBatch
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes, at_offset
from authorizerd.acl.updates import Deleted, Plan
from authorizerd.actors import steps, update_queue
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.completion import Completion
from authorizerd.actors.errors import LogWriteError, UpdateRefusedError
from authorizerd.actors.published import Published
from authorizerd.actors.record_applier import CaughtUp, Prepare
from authorizerd.actors.update_queue import UpdateQueue
from authorizerd.actors.updates import ClusterPlan
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage
from tests.support.acls import acl as topic_acl
from tests.support.update_queue import MemoryLog, Running, results


def acl(name: str, principal: str = "User:a") -> Acl:
    return topic_acl(principal, topic=name)


async def start(nursery: trio.Nursery, requests_max: int = 5000, loaded: bool = True) -> Running:
    running = Running(requests_max)
    await running.start(nursery, *[CaughtUp(0)] * loaded)
    return running


@pytest.fixture
async def running(nursery: trio.Nursery) -> Running:
    return await start(nursery)


async def test_a_creation_is_durable_and_applied_when_it_is_acknowledged(running: Running) -> None:
    """It is acknowledged after the sync, and decisions use it from then on."""
    running.log.hold()
    (created,) = running.queue.create([acl("t")])
    await wait_all_tasks_blocked()
    before = (created.is_done, running.acls)
    running.log.released.set()  # before the assertions: if they failed, the test would hang
    assert before == (False, set())
    assert await results([created]) == [None]
    assert running.acls == {acl("t")}


async def test_an_update_waits_until_the_acls_are_loaded(nursery: trio.Nursery) -> None:
    """It is planned, written and acknowledged after the load."""
    running = Running(10)
    await nursery.start(running.queue.run)
    (created,) = running.queue.create([acl("t")])
    running.feed.send_nowait(CaughtUp(0))
    scope = trio.CancelScope()

    async def load_only() -> None:
        with scope:
            await running.applier.run()

    nursery.start_soon(load_only)
    assert await results([created]) == [None]
    assert running.acls == {acl("t")}


async def test_thousand_equal_creations_write_one_record_and_all_succeed(running: Running) -> None:
    """Each is planned against the requests queued before it."""
    running.log.hold()
    completions = [running.queue.create([acl("t")])[0] for _ in range(1000)]
    running.log.released.set()
    assert await results(completions) == [None] * 1000
    assert [len(batch) for batch in running.log.batches] == [1]


async def test_waiting_requests_are_written_together_one_batch_each(running: Running) -> None:
    """Group commit: one append for all requests that arrived during the last one."""
    running.log.hold()
    first = running.queue.create([acl("0")])
    await wait_all_tasks_blocked()
    rest = [running.queue.create([acl(f"{n}a"), acl(f"{n}b")]) for n in range(1, 50)]
    running.log.released.set()
    assert await results([*first, *itertools.chain.from_iterable(rest)]) == [None] * 99
    assert [len(append) for append in running.log.appends] == [1, 49]
    assert {len(batch) for batch in running.log.appends[1]} == {2}
    assert running.queue.statistics.flushes == 2
    assert running.queue.statistics.requests_waiting == 0


async def test_a_flush_never_has_more_changes_than_its_limit(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit counts changes, since one filter can remove many ACLs."""
    monkeypatch.setattr(update_queue, "CHANGES_PER_FLUSH_MAX", 20)
    monkeypatch.setattr(update_queue, "RECORDS_PER_REQUEST_MAX", 10)
    running = await start(nursery)
    users = [f"User:{number}" for number in range(6)]
    for user in users:
        await results(running.queue.create([acl(f"t{n}", user) for n in range(10)]))
    running.log.hold()
    running.queue.create([acl("0")])
    await wait_all_tasks_blocked()
    waiting = [running.queue.delete([AclFilter(principal=user)]) for user in users]
    waiting.append(running.queue.delete([AclFilter(principal="User:none")]))
    written = len(running.log.appends)
    running.log.released.set()
    await results(list(itertools.chain.from_iterable(waiting)))
    flushes = [sum(map(len, append)) for append in running.log.appends[written:]]
    assert flushes == [1, 20, 20, 20]
    assert running.queue.statistics.requests_waiting == 0


async def test_a_large_request_has_one_completion(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No object is created for each of its items."""
    made: list[Completion[Any]] = []
    begin = Completion.__init__

    def count(self: Completion[Any]) -> None:
        begin(self)
        made.append(self)

    running = await start(nursery)
    monkeypatch.setattr(Completion, "__init__", count)
    created = running.queue.create([acl(f"t{n}") for n in range(1000)])
    deleted = running.queue.delete([AclFilter(resource_name=f"t{n}") for n in range(1000)])
    assert (len(created), len(deleted), len(made)) == (1000, 1000, 2)
    assert await results(created) == [None] * 1000
    assert [each.acls for each in await results(deleted)] == [(acl(f"t{n}"),) for n in range(1000)]


async def test_a_request_that_changes_nothing_writes_nothing(running: Running) -> None:
    """Neither a duplicate nor a filter without a match makes a batch."""
    await results(running.queue.create([acl("t")]))
    assert await results(running.queue.create([acl("t")])) == [None]
    none = running.queue.delete([AclFilter(resource_name="other")])
    assert await results(none) == [Deleted(())]
    assert await results(running.queue.create([])) == []
    assert len(running.log.batches) == 1


async def test_accepted_work_survives_its_callers_cancellation(running: Running) -> None:
    """A caller that stops waiting does not undo its request."""
    running.log.hold()
    (created,) = running.queue.create([acl("t")])
    with trio.move_on_after(0):
        await created
    running.log.released.set()
    assert await results([created]) == [None]
    assert running.acls == {acl("t")}


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_an_ending_queue_fails_all_waiting_requests(is_cancelled: bool) -> None:
    """An error of the log ends the actor: nothing is acknowledged, and nothing more is written,
    since the disk's content is unknown. A cancellation lets the current append finish, and its
    callers learn that it may have been done.
    """
    running = Running(100)
    completions: list[Completion[None]] = []
    with nullcontext() if is_cancelled else pytest.RaisesGroup(LogWriteError):
        async with trio.open_nursery() as nursery:
            await nursery.start(running.applier.run)
            await nursery.start(running.queue.run)
            await running.feed.send(CaughtUp(0))
            running.log.hold()
            if not is_cancelled:
                running.log.error = OSError("input/output error")
            completions += running.queue.create([acl("t")])
            await wait_all_tasks_blocked()
            completions += running.queue.create([acl("u")])
            if is_cancelled:
                nursery.cancel_scope.cancel()
            running.log.released.set()
    completions += running.queue.create([acl("late")])
    assert [type(each) for each in await results(completions)] == [
        LogWriteError,
        UpdateRefusedError,
        UpdateRefusedError,
    ]
    assert is_cancelled or running.acls == set()


async def test_refused_append_fails_its_requests_and_the_queue_continues(running: Running) -> None:
    """Nothing was written, so all plans of the flush are dropped."""
    running.log.hold()
    accepted = [*running.queue.create([acl("t")])]
    await wait_all_tasks_blocked()
    accepted += running.queue.create([acl("u"), acl("u")])
    accepted += running.queue.create([acl("u")])
    running.log.error = UpdateRefusedError("no descriptors")
    running.log.released.set()
    assert [str(each) for each in await results(accepted)] == ["no descriptors"] * 4
    assert (running.acls, running.log.batches) == (set(), [])
    running.log.error = None
    assert await results(running.queue.create([acl("u")])) == [None]
    assert running.acls == {acl("u")}
    assert running.queue.statistics.requests_waiting == 0


async def test_closing_queue_finishes_accepted_and_refuses_other_requests(running: Running) -> None:
    running.log.hold()
    accepted = [*running.queue.create([acl("t")])]
    await wait_all_tasks_blocked()
    accepted += running.queue.create([acl("u")])
    running.queue.close()
    refused = running.queue.create([acl("v")])
    assert [type(each) for each in await results(refused)] == [UpdateRefusedError]
    running.log.released.set()
    assert await results(accepted) == [None, None]
    assert running.acls == {acl("t"), acl("u")}


async def test_the_queue_is_bounded(nursery: trio.Nursery) -> None:
    """A request above the limit is refused at once."""
    running = await start(nursery, requests_max=2, loaded=False)
    await wait_all_tasks_blocked()
    completions = [running.queue.create([acl(f"t{n}")])[0] for n in range(3)]
    assert [completion.is_done for completion in completions] == [False, False, True]
    with pytest.raises(UpdateRefusedError, match="too many"):
        await completions[2]
    await running.feed.send(CaughtUp(0))
    assert await results(completions[:2]) == [None, None]


async def test_durable_change_that_is_not_applied_is_unacknowledged(nursery: trio.Nursery) -> None:
    """The test itself takes the place of the applier."""
    log = MemoryLog()
    feed, handed_on = trio.open_memory_channel[ChangeBatch | Prepare | CaughtUp](1)
    snapshot = Published[AclSnapshot | None](EMPTY_SNAPSHOT)
    queue = UpdateQueue(
        log,
        feed,
        snapshot,
        Published(EMPTY_IMAGE),
        requests_max=1,
        new_id=lambda: bytes(16),
        acls_changed_at=lambda: 0,
    )
    await nursery.start(queue.run)
    (created,) = queue.create([acl("t")])
    await wait_all_tasks_blocked()
    assert isinstance(handed_on.receive_nowait(), Prepare)
    batch = handed_on.receive_nowait()
    assert isinstance(batch, ChangeBatch)
    assert log.batches == [batch.changes]
    assert not created.is_done
    changed = apply_changes(EMPTY_SNAPSHOT, batch.changes)
    snapshot.publish(at_offset(changed, batch.last_offset))
    assert await results([created]) == [None]


async def test_nothing_is_acknowledged_before_workers_apply_it(nursery: trio.Nursery) -> None:
    """This includes settings, which are passed on before the wait."""
    calls: list[str] = []
    released = trio.Event()

    async def applied_everywhere() -> None:
        calls.append("waited")
        await released.wait()

    def settings(image: ClusterImage) -> ClusterPlan[str]:
        return Plan((), "changed")

    running = Running(2, applied_everywhere=applied_everywhere)
    (created,) = running.queue.create([acl("t")])
    changed = running.queue.change_cluster(settings, lambda: calls.append("passed on"))
    await running.start(nursery, CaughtUp(0))
    assert calls == ["passed on", "waited"]
    assert (created.is_done, changed.is_done) == (False, False)
    released.set()
    assert await results([created, changed]) == [None, "changed"]


async def test_garbage_is_collected_in_each_turn_of_a_plan(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Collecting the objects of many changes at once would block the event loop."""
    collections = 0

    def count() -> bool:
        nonlocal collections
        collections += 1
        return False

    monkeypatch.setattr(steps, "collect_if_many", count)
    monkeypatch.setattr(steps, "TURN_SECONDS", 0)
    running = await start(nursery)
    acls = [acl(f"t{number}") for number in range(1000)]
    await results(running.queue.create(acls))
    created, collections = collections, 0
    assert created > 10
    await results(running.queue.delete([AclFilter()]))
    assert collections > 10


async def test_requests_of_one_flush_build_on_each_other(running: Running) -> None:
    """Each sees what those before it create and delete. A later creation adds an ACL again."""
    running.log.hold()
    running.queue.create([acl("0")])
    await wait_all_tasks_blocked()
    created = running.queue.create([acl(f"t{number}") for number in range(100)])
    deleted = running.queue.delete([AclFilter(resource_name="t1")])
    again = running.queue.create([acl("t1"), acl("u")])
    running.log.released.set()
    wanted = [*[None] * 100, Deleted((acl("t1"),)), None, None]
    assert await results([*created, *deleted, *again]) == wanted
    assert running.acls == {acl("0"), acl("u"), *(acl(f"t{number}") for number in range(100))}
    assert len(running.log.appends) == 2
    newest = running.applier.snapshot.newest
    assert newest is not None
    changes: Any = itertools.chain.from_iterable(running.log.batches)
    assert newest == at_offset(apply_changes(EMPTY_SNAPSHOT, changes), newest.offset)


async def test_each_request_that_changes_acls_is_reported_with_its_offset(
    nursery: trio.Nursery,
) -> None:
    """One that changes nothing is not, even if it is written together with others."""
    written: list[tuple[str, int]] = []
    running = Running(
        9, on_written=lambda context, offset: written.append((context.principal, offset))
    )
    await running.start(nursery, CaughtUp(0))
    by = {name: RequestContext(principal=name, host=None, request_name="") for name in "abc"}
    created = running.queue.create([acl("t"), acl("u")], by["a"])
    again = running.queue.create([acl("t")], by["b"])
    removed = running.queue.delete([AclFilter()], by["c"])
    assert written == []
    await results([*created, *again, *removed])
    assert written == [("a", 2), ("c", 4)]
