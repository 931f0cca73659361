import itertools
import math
import sys

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.errors import DuplicateIdError, UnknownIdError
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import AclRemoved, ChangeBatch
from authorizerd.acl.release_in_force import Evidence, judge_release
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import ITEMS_PER_CHUNK, Steps
from authorizerd.actors import record_applier, steps
from authorizerd.actors.boot_clock import Clock, boot_time
from authorizerd.actors.errors import UnfitChangeError
from authorizerd.actors.published_state import NOT_LOADED, STALE, STOPPED, UNCONFIRMED, UNTESTED
from authorizerd.actors.record_applier import (
    CaughtUp,
    Message,
    Prepare,
    RecordApplier,
    Renew,
    Reset,
    Suspend,
)
from authorizerd.image.changes import FeatureLevel, TopicAdded, TopicRemoved
from tests.support.acls import snapshot_after
from tests.support.log_files import added
from tests.support.strategies import logs
from tests.support.update_queue import send

EMPTY_SNAPSHOT_AT_0 = build([])
Feed = trio.MemorySendChannel[Message]


async def start(nursery: trio.Nursery) -> tuple[Feed, RecordApplier]:
    feed, inbox = trio.open_memory_channel[Message](0)
    applier = RecordApplier(inbox)
    await nursery.start(applier.run)
    return feed, applier


async def test_nothing_is_visible_before_the_source_has_caught_up(nursery: trio.Nursery) -> None:
    """A partly loaded snapshot could lack a DENY."""
    feed, applier = await start(nursery)
    await send(feed, ChangeBatch(7, (added(1),)))
    assert applier.snapshot.newest is None
    assert applier.statistics().offset == -1
    await feed.send(CaughtUp(9))
    with trio.fail_after(1):
        snapshot = await applier.snapshot.wait_until(lambda newest: newest is not None)
    assert snapshot == build([added(1)], offset=9)


async def test_a_batch_of_many_slices_becomes_visible_atomically(nursery: trio.Nursery) -> None:
    """Other tasks see the snapshot before or after the whole batch, however long it is."""
    feed, applier = await start(nursery)
    await feed.send(CaughtUp(0))
    sizes = set()

    async def watch() -> None:
        while True:
            newest = applier.snapshot.newest
            sizes.add(-1 if newest is None else len(newest.acls))
            await trio.lowlevel.checkpoint()

    nursery.start_soon(watch)
    count = ITEMS_PER_CHUNK * 5
    await feed.send(ChangeBatch(count, tuple(added(n) for n in range(count))))
    with trio.fail_after(5):
        await applier.snapshot.wait_until(lambda newest: newest is not None and newest.offset > 0)
    assert sizes <= {-1, 0, count}


async def test_prepared_changes_become_visible_only_once_they_are_committed(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not computed again. Other changes drop what is prepared. Nothing keeps them."""
    feed, applier = await start(nursery)
    await send(feed, CaughtUp(0))
    first, second, third = (added(1),), (added(2), AclRemoved(added(1).id)), (added(3),)
    references = sys.getrefcount(first)
    await send(feed, Prepare((first, second, third)))
    assert applier.snapshot.newest == applier.applied.newest == EMPTY_SNAPSHOT_AT_0
    with monkeypatch.context() as patched:
        patched.delattr(record_applier, "apply_in_steps")
        await send(feed, ChangeBatch(1, first))
        assert applier.snapshot.newest == build([added(1)], offset=1)
        await send(feed, ChangeBatch(3, second))
    assert applier.snapshot.newest == build([added(2)], offset=3)
    await send(feed, ChangeBatch(4, (added(4),)), ChangeBatch(5, third))
    assert applier.snapshot.newest == build([added(2), added(4), added(3)], offset=5)
    left = sys.getrefcount(first)
    assert left == references


async def test_a_batch_in_parts_becomes_visible_with_its_last_part(nursery: trio.Nursery) -> None:
    """A source may pass on a long batch in parts."""
    feed, applier = await start(nursery)
    await feed.send(CaughtUp(0))
    await feed.send(ChangeBatch(9, (added(1),), is_end=False))
    await send(feed, ChangeBatch(9, (added(2),), is_end=False))
    assert applier.snapshot.newest == EMPTY_SNAPSHOT_AT_0
    await send(feed, ChangeBatch(9, (added(3),)))
    assert applier.snapshot.newest == build([added(1), added(2), added(3)], offset=9)


@pytest.mark.parametrize("loaded", [False, True])
async def test_a_contradictory_batch_ends_the_applier(loaded: bool) -> None:
    """The error names the offset and the reason."""
    for change, cause in ((added(1), DuplicateIdError), (AclRemoved(b"x" * 16), UnknownIdError)):
        feed, inbox = trio.open_memory_channel[Message](4)
        applier = RecordApplier(inbox)
        feed.send_nowait(ChangeBatch(0, (added(1),)))
        if loaded:
            feed.send_nowait(CaughtUp(0))
        feed.send_nowait(ChangeBatch(5, (change,)))
        feed.close()
        with pytest.raises(UnfitChangeError, match="log offset 5") as error:
            await applier.run()
        assert isinstance(error.value.__cause__, cause)


async def test_a_source_that_ends_early_publishes_nothing() -> None:
    """Nothing is published before ``CaughtUp``."""
    feed, inbox = trio.open_memory_channel[Message](1)
    applier = RecordApplier(inbox)
    feed.send_nowait(ChangeBatch(0, (added(1),)))
    feed.close()
    with trio.fail_after(1):
        await applier.run()
    assert applier.snapshot.newest is None


async def test_senders_learn_that_the_applier_has_ended() -> None:
    """Sending to an ended applier fails instead of blocking."""
    feed, inbox = trio.open_memory_channel[Message](0)
    applier = RecordApplier(inbox)
    with trio.CancelScope() as scope:
        scope.cancel()
        await applier.run()
    with pytest.raises(trio.BrokenResourceError), trio.fail_after(1):
        await feed.send(ChangeBatch(0))


@given(logs(unknown_codes=True), st.integers(0, 6))
async def test_bulk_load_and_batches_give_one_state(log: list[ChangeBatch], loaded: int) -> None:
    """Some batches loaded in bulk and the others applied one by one give the same snapshot."""
    feed, inbox = trio.open_memory_channel[Message](len(log) + 1)
    applier = RecordApplier(inbox)
    for batch in log[:loaded]:
        feed.send_nowait(batch)
    feed.send_nowait(CaughtUp(log[:loaded][-1].last_offset if log[:loaded] else -1))
    for batch in log[loaded:]:
        feed.send_nowait(batch)
    feed.close()
    await applier.run()
    assert applier.snapshot.newest == snapshot_after(log)


async def test_image_and_snapshot_become_visible_together(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that reads both sees one state of the log. Before the load, the image is empty."""
    monkeypatch.setattr(steps, "TURN_SECONDS", 0)  # other tasks run after each step
    feed, applier = await start(nursery)
    topics = [TopicAdded(f"t{n}", n.to_bytes(16, "big")) for n in range(3)]
    seen: list[tuple[int, int]] = []

    async def watch() -> None:
        while True:
            newest = applier.snapshot.newest
            acls = -1 if newest is None else len(newest.acls)
            seen.append((acls, len(applier.cluster.newest.topics)))
            await trio.lowlevel.checkpoint()

    await send(feed, ChangeBatch(1, (added(0),), cluster_changes=(topics[0],)))
    nursery.start_soon(watch)
    await feed.send(CaughtUp(1))
    await feed.send(ChangeBatch(2, (added(1),), is_end=False))
    await feed.send(ChangeBatch(2, cluster_changes=(topics[1],)))
    await feed.send(ChangeBatch(4, (added(2),), cluster_changes=(topics[2],)))
    with trio.fail_after(1):
        await applier.snapshot.wait_until(lambda each: each is not None and each.offset == 4)
    await trio.lowlevel.checkpoint()
    nursery.cancel_scope.cancel()
    assert set(seen) <= {(-1, 0), (1, 1), (2, 2), (3, 3)}
    assert seen[-1] == (3, 3)


async def test_a_batch_without_other_changes_leaves_the_image(nursery: trio.Nursery) -> None:
    """It is the same object, so its followers do not wake."""
    feed, applier = await start(nursery)
    await send(feed, CaughtUp(0))
    before = applier.cluster.newest
    await send(feed, ChangeBatch(1, (added(1),)))
    assert applier.cluster.newest is before


@pytest.mark.parametrize("is_loaded", [False, True])
async def test_a_contradictory_change_of_a_topic_ends_the_applier(is_loaded: bool) -> None:
    """The error names the offset and the topic."""
    feed, inbox = trio.open_memory_channel[Message](2)
    if is_loaded:
        feed.send_nowait(CaughtUp(0))
    feed.send_nowait(ChangeBatch(7, cluster_changes=(TopicRemoved(b"t" * 16),)))
    with trio.fail_after(1):
        with pytest.raises(UnfitChangeError, match=f"log offset 7.*{(b't' * 16).hex()}"):
            await RecordApplier(inbox).run()


async def test_old_states_are_freed_in_parts(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest are freed first. Each state is one chunk of changes away from the next."""
    sizes: list[int] = []

    def watched(states: list[AclSnapshot]) -> Steps[None]:
        while states:
            sizes.append(len(states.pop().acls))
            yield

    monkeypatch.setattr(record_applier, "free", watched)
    feed, _ = await start(nursery)
    await feed.send(CaughtUp(0))
    count = 6 * ITEMS_PER_CHUNK
    changes = tuple(map(added, range(count)))
    await feed.send(ChangeBatch(count, changes[:100], is_end=False))
    await send(feed, ChangeBatch(count, changes[100:]))
    assert sizes == sorted(sizes)
    assert sizes[0] == 0
    steps = [later - earlier for earlier, later in itertools.pairwise([*sizes, count])]
    assert max(steps) == ITEMS_PER_CHUNK


async def test_removed_acls_of_the_load_are_freed(nursery: trio.Nursery) -> None:
    """Neither the applier nor its index keeps a reference to them."""
    feed, applier = await start(nursery)
    loaded = added(1)
    references = sys.getrefcount(loaded.acl)
    await feed.send(ChangeBatch(0, (loaded,)))
    await send(feed, CaughtUp(0), ChangeBatch(1, (AclRemoved(loaded.id),)))
    await send(feed, ChangeBatch(2, (added(2),)))
    left = sys.getrefcount(loaded.acl)
    assert applier.statistics().acls == 1
    assert left == references


async def test_reset_forgets_what_was_loaded_so_far(nursery: trio.Nursery) -> None:
    """A snapshot of the cluster may replace what the local copy contained."""
    feed, applier = await start(nursery)
    topic = TopicAdded("old", bytes(16))
    await feed.send(ChangeBatch(3, (added(1), added(2)), cluster_changes=(topic,)))
    await send(feed, Reset(), ChangeBatch(9, (added(3),)), CaughtUp(9))
    assert applier.snapshot.newest == build([added(3)], offset=9)
    assert not applier.cluster.newest.topics


@pytest.mark.parametrize("is_loaded", [False, True])
async def test_suspended_applier_applies_but_publishes_no_snapshot(
    is_loaded: bool, nursery: trio.Nursery
) -> None:
    feed, applier = await start(nursery)
    assert applier.not_ready_reason == NOT_LOADED
    first = (CaughtUp(0), Suspend("why")) if is_loaded else (Suspend("why"), CaughtUp(0))
    for message in first:
        await feed.send(message)
    await send(feed, ChangeBatch(1, (added(1),)))
    assert applier.snapshot.newest is None
    assert applier.not_ready_reason == "why"
    assert applier.statistics().acls == -1
    assert applier.applied.newest == build([added(1)], offset=1)
    await send(feed, Renew(math.inf))
    assert applier.snapshot.newest is None


@pytest.mark.parametrize("is_loaded", [False, True])
async def test_state_decides_until_its_deadline_whoever_runs(
    is_loaded: bool, nursery: trio.Nursery
) -> None:
    """The clock alone decides: no task runs between the moments. A batch moves no deadline."""
    now = 0.0
    feed, inbox = trio.open_memory_channel[Message](0)
    applier = RecordApplier(inbox, deadline=-math.inf, clock=lambda: now)
    await nursery.start(applier.run)
    for message in (CaughtUp(0), Renew(10.0)) if is_loaded else (Renew(10.0), CaughtUp(0)):
        await send(feed, message)
        if message == CaughtUp(0) and is_loaded:
            assert applier.snapshot.newest is None
            assert applier.not_ready_reason == UNCONFIRMED
    first = applier.snapshot.newest
    assert first is not None
    await send(feed, ChangeBatch(1, (added(1),)))
    second, deadline = applier.snapshot.read()
    assert second is not None
    assert (second.offset, deadline) == (1, 10.0)
    now = 9.9
    assert applier.snapshot.newest is second
    now = 10.0
    assert applier.snapshot.newest is None
    assert applier.snapshot.has_passed(deadline)
    assert applier.not_ready_reason == STALE
    assert applier.statistics().acls == -1
    await send(feed, ChangeBatch(2, (added(2),)))
    assert applier.snapshot.newest is None
    await feed.send(Renew(20.0))
    third = await applier.snapshot.wait_until(lambda newest: newest is not None)
    assert third is not None
    assert third.offset == 2
    assert applier.snapshot.has_passed(deadline), "a request that began before is too old"


@pytest.mark.parametrize("is_loaded", [False, True])
async def test_misfit_stops_a_follower_for_ever(is_loaded: bool, nursery: trio.Nursery) -> None:
    misfits: list[UnfitChangeError] = []
    feed, inbox = trio.open_memory_channel[Message](0)
    applier = RecordApplier(inbox, on_misfit=misfits.append)
    await nursery.start(applier.run)
    if is_loaded:
        await feed.send(CaughtUp(0))
    await feed.send(ChangeBatch(5, (AclRemoved(bytes(16)),)))
    for message in (ChangeBatch(6, (added(1),)), Suspend("why"), Renew(math.inf)):
        with trio.fail_after(1):
            await feed.send(message)
    await wait_all_tasks_blocked()
    assert [error.offset for error in misfits] == [5]
    assert applier.not_ready_reason == STOPPED
    assert applier.snapshot.newest is None


def level(number: int) -> ChangeBatch:
    """Return a batch that changes nothing but the release."""
    return ChangeBatch(number, cluster_changes=(FeatureLevel("metadata.version", number),))


async def start_judging(
    nursery: trio.Nursery, *, stops_if_newer: bool = False, clock: Clock = boot_time
) -> tuple[Feed, RecordApplier]:
    feed, inbox = trio.open_memory_channel[Message](0)
    applier = RecordApplier(
        inbox,
        judge=lambda image: judge_release(image, Evidence.OWN_LOG),
        stops_if_newer=stops_if_newer,
        clock=clock,
    )
    await nursery.start(applier.run)
    return feed, applier


async def test_each_state_has_the_rules_of_its_own_image(nursery: trio.Nursery) -> None:
    """From the first one on, also if no ACL changes with the release."""
    feed, applier = await start_judging(nursery)
    await feed.send(level(30))
    await feed.send(CaughtUp(30))
    for offset, rules in ((30, RULES_4_3), (31, ANY_RELEASE), (32, RULES_4_4), (33, RULES_4_4)):
        if offset > 30:
            await feed.send(ChangeBatch(offset, (added(offset),), is_end=False))
            await feed.send(level(offset))
        newest = await applier.snapshot.wait_until(
            lambda newest: newest is not None and newest.offset >= offset  # noqa: B023 - at once
        )
        assert newest is not None
        assert (newest.offset, newest.rules) == (offset, rules)
        assert applier.applied.newest is newest
        assert applier.release.newest.rules == rules
        assert len(newest.acls) == offset - 30


@pytest.mark.parametrize("stops", [False, True])
async def test_newer_release_stops_decisions_if_set(nursery: trio.Nursery, *, stops: bool) -> None:
    """They go on once it is gone, but not while the state is too old."""
    now = 0.0
    feed, applier = await start_judging(nursery, stops_if_newer=stops, clock=lambda: now)
    await send(feed, Renew(5.0), level(34), CaughtUp(34))
    assert (applier.snapshot.newest is None) is applier.has_stopped_for_newer is stops
    assert applier.applied.newest is not None
    if not stops:
        return
    assert applier.not_ready_reason == UNTESTED
    await send(feed, Renew(10.0))
    assert applier.snapshot.newest is None
    now = 10.0
    back = ChangeBatch(35, cluster_changes=(FeatureLevel("metadata.version", 33),))
    await send(feed, back)
    assert applier.snapshot.newest is None
    assert applier.not_ready_reason == STALE
    await send(feed, Renew(20.0))
    newest = applier.snapshot.newest
    assert newest is not None
    assert (newest.offset, newest.rules) == (35, RULES_4_4)
