"""The journal of changes: complete, in order, bounded."""

import math
from unittest.mock import patch

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import AclAdded, AclRemoved, Change, ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot, apply_changes
from authorizerd.acl.steps import finish
from authorizerd.actors import acl_journal
from authorizerd.actors.acl_journal import CHANGE_BYTES, AclChange, AclJournal, ExpiredError
from authorizerd.actors.published_state import UNCONFIRMED
from authorizerd.actors.record_applier import CaughtUp, Message, RecordApplier, Renew
from authorizerd.image.changes import TopicAdded
from tests.support.acls import acl, snapshot_after, snapshot_of
from tests.support.log_files import added
from tests.support.strategies import logs

MANY_BYTES = 1 << 20


def follow(journal: AclJournal, after: int) -> list[tuple[int, list[AclChange]]]:
    """Return the batches after an offset, each with its changes."""
    place, batches, some = journal.find(after), [], list[AclChange]()
    while (part := journal.look_up(place)) is not None:
        some += part.changes
        place += 1
        if part.is_last:
            batches.append((part.offset, some))
            some = []
    assert not some, "a batch without an end"
    return batches


def to_changes(changes: list[AclChange]) -> list[Change]:
    return [
        AclAdded(each.id, each.acl) if each.is_added else AclRemoved(each.id) for each in changes
    ]


async def apply(log: list[ChangeBatch], journal: AclJournal, *, loaded: int) -> AclSnapshot:
    """Apply a log, the first batches before it is loaded. Return the last state."""
    feed, inbox = trio.open_memory_channel[Message](0)
    applier = RecordApplier(inbox, journal=journal)
    async with trio.open_nursery() as nursery:
        await nursery.start(applier.run)
        for number, batch in enumerate(log):
            if number == loaded:
                await feed.send(CaughtUp(log[number - 1].last_offset if number else -1))
            await feed.send(batch)
        if loaded >= len(log):
            await feed.send(CaughtUp(log[-1].last_offset if log else -1))
        await feed.aclose()
    newest = applier.applied.newest
    assert newest is not None
    return newest


@given(
    log=logs(unknown_codes=True),
    loaded=st.integers(0, 6),
    journal_bytes=st.sampled_from([1, 2 * CHANGE_BYTES, 4 * CHANGE_BYTES, MANY_BYTES]),
    part=st.integers(1, 3),
)
async def test_changes_after_any_offset_lead_to_the_newest_state(
    log: list[ChangeBatch], loaded: int, journal_bytes: int, part: int
) -> None:
    """Or the offset has expired, which only happens if it is older than the floor."""
    loaded = min(loaded, len(log))
    journal = AclJournal(journal_bytes)
    with patch.object(acl_journal, "CHANGES_PER_PART", part):
        newest = await apply(log, journal, loaded=loaded)
    assert journal.offset == newest.offset
    begin = log[loaded - 1].last_offset if loaded else -1
    assert journal.floor >= begin
    if journal_bytes == MANY_BYTES:
        assert journal.floor == begin
    for after in range(-1, newest.offset + 2):
        if not journal.floor <= after <= newest.offset:
            with pytest.raises(ExpiredError):
                journal.find(after)
            continue
        state = snapshot_after([batch for batch in log if batch.last_offset <= after])
        for offset, changes in follow(journal, after):
            assert offset > after
            removed = [each for each in changes if not each.is_added]
            known = dict(state.acls) | {each.id: each.acl for each in changes if each.is_added}
            assert all(known[each.id] == each.acl for each in removed)
            state = apply_changes(state, to_changes(changes))
        assert state.acls == newest.acls


async def test_nothing_is_visible_before_its_batch_is_complete(nursery: trio.Nursery) -> None:
    """The journal and the snapshot change in one step."""
    feed, inbox = trio.open_memory_channel[Message](0)
    journal = AclJournal(MANY_BYTES)
    applier = RecordApplier(inbox, journal=journal)
    await nursery.start(applier.run)
    await feed.send(CaughtUp(0))
    await feed.send(ChangeBatch(9, (added(1),), is_end=False))
    await feed.send(ChangeBatch(9, (added(2), AclRemoved(added(1).id)), is_end=False))
    await trio.testing.wait_all_tasks_blocked()
    assert (journal.offset, follow(journal, 0)) == (0, [])
    await feed.send(ChangeBatch(9, (added(3),)))
    with trio.fail_after(5):
        await journal.news.wait_until(bool)
    newest = applier.snapshot.newest
    assert newest is not None
    assert newest.offset == journal.offset == 9
    ((offset, changes),) = follow(journal, 0)
    assert offset == 9
    assert to_changes(changes) == [added(1), added(2), AclRemoved(added(1).id), added(3)]


async def test_other_records_move_the_offset_but_are_no_news(nursery: trio.Nursery) -> None:
    feed, inbox = trio.open_memory_channel[Message](0)
    journal = AclJournal(MANY_BYTES)
    await nursery.start(RecordApplier(inbox, journal=journal).run)
    await feed.send(CaughtUp(0))
    await feed.send(ChangeBatch(5, cluster_changes=(TopicAdded("t", b"1" * 16),)))
    await trio.testing.wait_all_tasks_blocked()
    assert (journal.offset, journal.news.newest) == (5, 0)
    assert follow(journal, 0) == follow(journal, 5) == []


@pytest.mark.usefixtures("autojump_clock")
async def test_decisions_that_stop_are_news(nursery: trio.Nursery) -> None:
    """Changes are collected meanwhile."""
    feed, inbox = trio.open_memory_channel[Message](0)
    journal = AclJournal(MANY_BYTES)
    applier = RecordApplier(
        inbox, journal=journal, deadline=-math.inf, clock=trio.current_time, why_expired="stale"
    )
    await nursery.start(applier.run)
    await feed.send(CaughtUp(0))
    await trio.testing.wait_all_tasks_blocked()
    assert journal.stop_reason == UNCONFIRMED
    for seconds, reason in ((0, ""), (5, "stale"), (0, "")):
        seen = journal.news.newest
        if seconds:
            await trio.sleep(seconds)
        else:
            await feed.send(Renew(trio.current_time() + 5))
        await trio.testing.wait_all_tasks_blocked()
        assert journal.stop_reason == reason
        assert journal.news.newest > seen
    await feed.send(ChangeBatch(3, (added(1),)))
    await trio.testing.wait_all_tasks_blocked()
    assert len(follow(journal, 0)) == 1


def test_journal_stays_within_its_limit() -> None:
    """A place that has left the journal is never mistaken for another one."""
    journal = AclJournal(3 * CHANGE_BYTES)
    journal.begin(0, "")
    for offset in range(1, 6):
        finish(journal.collect(snapshot_of(), [added(offset)]))
        journal.commit(offset)
        finish(journal.trim())
    assert journal.floor == 3
    assert [offset for offset, _ in follow(journal, 3)] == [4, 5]
    with pytest.raises(ExpiredError, match="begins after offset 3"):
        journal.look_up(2)


def test_long_batch_is_cut_by_number_and_by_size() -> None:
    journal = AclJournal(1 << 30)
    journal.begin(0, "")
    many = [added(number) for number in range(acl_journal.CHANGES_PER_PART + 1)]
    long = [
        AclAdded(bytes([number]) * 16, acl(f"User:{number}" + "x" * 12000, topic="t"))
        for number in range(101, 104)
    ]
    finish(journal.collect(snapshot_of(), [*many, *long]))
    journal.commit(1)
    parts = [journal.look_up(place) for place in range(journal.find(0), 5)]
    sizes = [len(part.changes) for part in parts if part is not None]
    assert sizes[0] == acl_journal.CHANGES_PER_PART
    assert sum(sizes) == len(many) + len(long)
    assert sizes[-1] == 1
    assert all(
        len(part.changes) == 1 or part.cost <= acl_journal.PART_BYTES_MAX
        for part in parts
        if part is not None
    )
    assert [part.is_last for part in parts if part is not None] == [False] * (len(sizes) - 1) + [
        True
    ]


def test_journal_without_memory_keeps_nothing() -> None:
    journal = AclJournal(0)
    journal.begin(0, "")
    finish(journal.collect(snapshot_of(), [added(1)]))
    journal.commit(1)
    assert follow(journal, 1) == []
    with pytest.raises(ExpiredError):
        journal.find(0)
    finish(journal.collect(snapshot_of(), []))
    journal.commit(2)
    assert follow(journal, 1) == []  # nothing was lost since


def test_an_added_acl_is_found_although_it_was_removed() -> None:
    first, second, third = added(1), added(2), added(3)
    acls = [first.acl, second.acl, third.acl]
    journal = AclJournal(MANY_BYTES)
    journal.begin(0, "")
    before = snapshot_of()
    changes: list[Change] = [first, second, AclRemoved(first.id)]
    for offset, change in enumerate(changes, 1):
        finish(journal.collect(before, [change]))
        before = apply_changes(before, [change])
        journal.commit(offset)
    found = [finish(journal.find_added(offset, acls)) for offset in range(4)]
    assert found == [{first.acl, second.acl}, {second.acl}, set(), set()]
    with pytest.raises(ExpiredError):
        finish(journal.find_added(-1, acls))
