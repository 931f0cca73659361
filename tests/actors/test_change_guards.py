"""Requests that expect an offset, through the UpdateQueue and the RecordApplier."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.errors import StateMovedError
from authorizerd.acl.expected_offset import ANY_OFFSET, ExpectedOffset
from authorizerd.acl.model import Acl, AclAdded, AclFilter, ChangeBatch
from authorizerd.acl.updates import RECORDS_PER_REQUEST_MAX, Deleted, Plan
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.errors import UpdateRefusedError
from authorizerd.actors.record_applier import CaughtUp, Message, RecordApplier, Reset
from authorizerd.actors.updates import ClusterPlan
from authorizerd.image.changes import FeatureLevel
from authorizerd.image.cluster import ClusterImage
from tests.support.acls import acl
from tests.support.update_queue import Running, results

A, B, C = (acl("User:a", topic=name) for name in ("a", "b", "c"))
OTHER_CHANGE = FeatureLevel("some.feature", 1)


def guarded(expected_offset: int) -> RequestContext:
    return RequestContext(
        principal="User:a",
        host=None,
        request_name="CreateAcls",
        guard=ExpectedOffset(expected_offset),
    )


def written(context: RequestContext) -> int | None:
    assert context.guard is not None
    return context.guard.written_offset


async def start(nursery: trio.Nursery, *messages: Message) -> Running:
    running = Running(100)
    await running.start(nursery, *messages or (CaughtUp(0),))
    newest = running.applier.snapshot.newest
    assert newest is not None
    running.log.last_offset = newest.offset
    return running


@pytest.fixture
async def running(nursery: trio.Nursery) -> Running:
    return await start(nursery)


async def outcomes(completions: Sequence[Any]) -> list[Any]:
    """Return each item's value, or the type of its error."""
    ended = await results(completions)
    return [type(each) if isinstance(each, Exception) else each for each in ended]


async def create(running: Running, acls: Sequence[Acl], context: RequestContext) -> list[Any]:
    return await outcomes(running.queue.create(acls, context))


def change_cluster(_: ClusterImage) -> ClusterPlan[None]:
    return Plan((OTHER_CHANGE,), None)


async def test_each_request_expects_what_the_last_one_wrote(running: Running) -> None:
    first = guarded(0)
    assert await create(running, [A, B], first) == [None, None]
    second = guarded(written(first) or 0)
    assert await create(running, [C], second) == [None]
    assert (written(first), written(second)) == (2, 3)
    third = guarded(3)
    (deleted,) = await outcomes(running.queue.delete([AclFilter()], third))
    assert set(deleted.acls) == {A, B, C}
    assert written(third) == 6


@pytest.mark.parametrize("later", ["creation", "deletion"])
async def test_change_by_others_rejects_a_whole_request(nursery: trio.Nursery, later: str) -> None:
    running = await start(nursery, ChangeBatch(1, (AclAdded(bytes(16), A),)), CaughtUp(1))
    if later == "creation":
        await outcomes(running.queue.create([B]))
    else:
        await outcomes(running.queue.delete([AclFilter()]))
    acls = running.acls
    late = guarded(1)
    assert await create(running, [C, A], late) == [StateMovedError] * 2
    (deleted,) = await outcomes(running.queue.delete([AclFilter()], late))
    assert isinstance(deleted, Deleted)
    assert isinstance(deleted.error, StateMovedError)
    assert not deleted.acls
    assert (running.acls, written(late)) == (acls, None)
    assert len(running.log.batches) == 1


async def test_log_that_only_grew_is_no_conflict(running: Running) -> None:
    """Neither a change of configs nor a creation of what exists changes an ACL."""
    await outcomes(running.queue.create([A]))
    await running.queue.change_cluster(change_cluster, lambda: None)
    await outcomes(running.queue.create([A]))
    context = guarded(1)
    assert await create(running, [B], context) == [None]
    assert written(context) == 3


async def test_request_that_changes_nothing_tells_the_offset_of_its_state(running: Running) -> None:
    await outcomes(running.queue.create([A]))
    context = guarded(1)
    assert await create(running, [A], context) == [None]
    assert written(context) == 1


async def test_requests_of_one_flush_see_each_other(running: Running) -> None:
    """The second is planned before the first is durable, and it must not slip in."""
    running.log.hold()
    blocker = running.queue.create([A])
    await wait_all_tasks_blocked()
    contexts = [guarded(1), guarded(1), guarded(1)]
    first = running.queue.create([B], contexts[0])
    second = running.queue.create([C], contexts[1])
    third = running.queue.delete([AclFilter()], contexts[2])
    running.log.released.set()
    assert await outcomes(blocker) == [None]
    assert await outcomes(first) == [None]
    assert await outcomes(second) == [StateMovedError]
    (deleted,) = await outcomes(third)
    assert isinstance(deleted.error, StateMovedError)
    assert running.log.appends[1:] == [running.log.appends[1]], "all three were in one flush"
    assert running.acls == {A, B}
    assert [written(each) for each in contexts] == [2, None, None]


async def test_offsets_of_one_flush_are_told_apart(running: Running) -> None:
    running.log.hold()
    blocker = running.queue.create([A])
    await wait_all_tasks_blocked()
    contexts = [guarded(ANY_OFFSET) for _ in range(3)]
    creations = [
        running.queue.create(each, context)
        for each, context in zip([[A], [B, C], [B]], contexts, strict=True)
    ]
    changed = running.queue.change_cluster(change_cluster, lambda: None)
    running.log.released.set()
    await outcomes([*blocker, changed, *(each for some in creations for each in some)])
    assert [written(each) for each in contexts] == [1, 3, 3]
    assert running.log.last_offset == 4


async def test_offset_of_the_future_is_rejected(running: Running) -> None:
    """A client may guess the offset of a request that is not written yet."""
    running.log.hold()
    blocker = running.queue.create([A])
    await wait_all_tasks_blocked()
    first, guessed = running.queue.create([B]), guarded(2)
    second = running.queue.create([C], guessed)
    running.log.released.set()
    await outcomes([*blocker, *first])
    assert await outcomes(second) == [StateMovedError]
    assert await create(running, [C], guarded(7)) == [StateMovedError]


async def test_request_without_a_condition_is_told_its_offset(running: Running) -> None:
    await outcomes(running.queue.create([A]))
    context = guarded(ANY_OFFSET)
    assert await create(running, [B], context) == [None]
    assert written(context) == 2


async def test_refused_append_tells_no_offset(running: Running) -> None:
    running.log.error = UpdateRefusedError("no space")
    context = guarded(0)
    assert await create(running, [A], context) == [UpdateRefusedError]
    assert written(context) is None
    running.log.error = None
    assert await create(running, [A], guarded(0)) == [None]


async def test_largest_request_is_rejected_as_a_whole(running: Running) -> None:
    await outcomes(running.queue.create([A]))
    many = [acl("User:a", topic=f"t{number}") for number in range(RECORDS_PER_REQUEST_MAX)]
    assert set(await create(running, many, guarded(0))) == {StateMovedError}
    assert running.acls == {A}
    assert set(await create(running, many, guarded(1))) == {None}


@pytest.mark.parametrize(
    ("loaded", "oldest"),
    [
        # An empty log, then one that only has other changes.
        ((CaughtUp(0),), 0),
        ((ChangeBatch(4, cluster_changes=(OTHER_CHANGE,)), CaughtUp(4)), 0),
        # A change at offset 2, then others: the change's place is known exactly.
        (
            (ChangeBatch(2, (AclAdded(bytes(16), A),)),
             ChangeBatch(5, cluster_changes=(OTHER_CHANGE,)), CaughtUp(5)),
            2,
        ),
        # The last batch of a checkpoint up to 6 has no ACLs. The change may be as late as 6.
        (
            (ChangeBatch(6, (AclAdded(bytes(16), A),), is_end=False),
             ChangeBatch(6, cluster_changes=(OTHER_CHANGE,)), CaughtUp(8)),
            6,
        ),
        # What a source has taken back does not count.
        ((ChangeBatch(3, (AclAdded(bytes(16), A),)), Reset(), CaughtUp(3)), 0),
    ],
)  # fmt: skip
async def test_offsets_of_before_a_restart_pass_only_if_nothing_can_have_changed(
    nursery: trio.Nursery, loaded: tuple[Message, ...], oldest: int
) -> None:
    """The journal is empty after a load, so it cannot tell."""
    for expected in range(oldest + 1):
        running = await start(nursery, *loaded)
        is_rejected = expected < oldest
        wanted = StateMovedError if is_rejected else None
        assert await create(running, [C], guarded(expected)) == [wanted], expected
        assert (C in running.acls) is not is_rejected


async def test_offset_of_a_change_is_known_once_it_is_visible(nursery: trio.Nursery) -> None:
    """Otherwise a request could be planned against a newer state than that of the check."""
    send, inbox = trio.open_memory_channel[Message](10)
    applier = RecordApplier(inbox)
    await nursery.start(applier.run)
    await send.send(CaughtUp(0))
    await send.send(ChangeBatch(1, (AclAdded(bytes(16), A),)))
    with trio.fail_after(30):
        await applier.snapshot.wait_until(lambda newest: newest is not None and newest.offset >= 1)
    assert applier.acls_changed_at == 1
    await send.send(ChangeBatch(2, cluster_changes=(OTHER_CHANGE,)))
    await wait_all_tasks_blocked()
    assert applier.acls_changed_at == 1
