"""The grants of the own log: they begin and end through the update queue, and by its guard."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock, wait_all_tasks_blocked

from authorizerd.acl.audit.authors import CREATE, DELETE
from authorizerd.acl.errors import StateMovedError
from authorizerd.acl.grants.book import GrantState
from authorizerd.acl.grants.clocks import STEADY_SECONDS
from authorizerd.acl.grants.model import Grant, make_grant_note, read_grant_note
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.completion import Completion
from authorizerd.actors.grant_keeper import PAUSE_SECONDS, SETTLE_SECONDS, GrantKeeper
from authorizerd.actors.record_applier import CaughtUp
from authorizerd.daemon.sources.snapshot_grants import AUTHOR, OwnLogGrants
from tests.support.acls import acl, exact_filter
from tests.support.update_queue import Running, results

EPOCH_MS = 1_800_000_000_000
ACL, OTHER = acl("User:a", topic="orders"), acl("User:b", topic="other")
GRANT = Grant(
    id="g1", acl=ACL, begin_ms=EPOCH_MS, end_ms=EPOCH_MS + 200_000, author="User:ops\nforged",
    reason="x', reason 'y",
)  # fmt: skip
NOTE = make_grant_note(GRANT)
CONTEXT = RequestContext(principal="User:a", host=None, request_name="")


@pytest.fixture
def written() -> list[tuple[str, str]]:
    """The authors and the requests of the changes, as the audit log names them."""
    return []


@pytest.fixture
async def running(nursery: trio.Nursery, written: list[tuple[str, str]]) -> Running:
    def on_written(context: RequestContext, _: int) -> None:
        written.append((context.principal, context.request_name))

    running = Running(100, on_written=on_written)
    await running.start(nursery, CaughtUp(0))
    running.log.last_offset = 0
    return running


async def create(running: Running, *acls: Acl) -> None:
    assert await results(running.queue.create(acls, CONTEXT)) == [None] * len(acls)


def own_ms() -> int:
    return EPOCH_MS + int(trio.current_time() * 1000)


def list_grants(running: Running) -> list[Grant]:
    read = [read_grant_note(each) for each in running.acls if is_note(each)]
    return [each for each in read if each is not None]


async def test_grant_begins_and_ends_in_the_own_log(
    running: Running, nursery: trio.Nursery, autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture, written: list[tuple[str, str]],
) -> None:  # fmt: skip
    """Its clock is believed after a minute; the log quotes the texts of the note."""
    caplog.set_level(logging.INFO)
    keeper = GrantKeeper(
        OwnLogGrants(running.applier.snapshot, running.queue), own_ms, trio.current_time
    )
    nursery.start_soon(keeper.run)
    waiting = replace(GRANT, begin_ms=EPOCH_MS + 30_000, is_waiting=True)
    await create(running, OTHER, make_grant_note(waiting))
    await trio.sleep(STEADY_SECONDS - 5)
    assert running.acls == {OTHER, make_grant_note(waiting)}
    assert (keeper.is_clock_believed, keeper.count().waiting, keeper.count().overdue) == (
        False, 1, 1,
    )  # fmt: skip
    await trio.sleep(10)
    assert {OTHER, ACL} < running.acls
    [grant] = list_grants(running)
    assert grant == replace(waiting, is_waiting=False, acl_id=grant.acl_id)
    assert grant.acl_id is not None
    assert (keeper.is_clock_believed, keeper.count().active, keeper.count().overdue) == (True, 1, 0)
    end_s = (GRANT.end_ms - EPOCH_MS) / 1000
    await trio.sleep(end_s - trio.current_time() - 0.01)
    assert ACL in running.acls
    await trio.sleep(0.01 + 2 * PAUSE_SECONDS)
    assert running.acls == {OTHER}
    assert set(written[1:]) == {(AUTHOR, CREATE), (AUTHOR, DELETE)}
    assert (keeper.statistics.begun, keeper.statistics.ended, keeper.statistics.failures) == (
        1, 1, 0,
    )  # fmt: skip
    ended = [each.getMessage() for each in caplog.records if "has ended" in each.getMessage()]
    assert ended == [
        f"grant 'g1' has ended: {str(ACL)!r}, author 'User:ops\\nforged', reason \"x', reason 'y\""
    ]


async def test_keeper_that_does_not_enforce_only_counts(
    running: Running, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    keeper = GrantKeeper(
        OwnLogGrants(running.applier.snapshot, running.queue),
        own_ms, trio.current_time, enforces=False,
    )  # fmt: skip
    nursery.start_soon(keeper.run)
    damaged = replace(NOTE, resource_name=NOTE.resource_name + "&later=1")
    await create(running, ACL, NOTE, damaged)
    await trio.sleep(300)
    counts = keeper.count()
    assert (counts.active, counts.overdue, counts.overdue_ms, counts.unreadable) == (
        1, 1, 100_000, 1,
    )  # fmt: skip
    assert running.acls == {ACL, NOTE, damaged}


@pytest.mark.parametrize(
    ("created", "deleted", "is_carried_out"),
    [
        ([OTHER], [], True),
        ([], [OTHER], True),
        ([make_grant_note(replace(GRANT, id="g2", end_ms=GRANT.end_ms + 1))], [], False),
        ([], [NOTE], False),
        ([], [ACL], False),
        ([ACL], [ACL], False),
    ],
    ids=["other created", "other deleted", "extended", "permanent", "deleted", "created again"],
)
@pytest.mark.parametrize("is_applied", [False, True], ids=["in flight", "applied"])
async def test_end_is_carried_out_only_if_its_notes_and_acls_have_not_changed(
    running: Running, created: list[Acl], deleted: list[Acl], *, is_carried_out: bool,
    is_applied: bool,
) -> None:  # fmt: skip
    """Another change may be planned, or applied, between the look and the request."""
    await create(running, ACL, NOTE, *(() if OTHER in created else (OTHER,)))
    access = OwnLogGrants(running.applier.snapshot, running.queue)
    await access.learn_ids({ACL})
    state = await access.confirm_state([ACL])
    assert state.find_id is not None
    assert state.find_id(ACL, ()) is not None
    if not is_applied:
        running.log.hold()
        unrelated = running.queue.create([acl("User:c", topic="c")], CONTEXT)
        await wait_all_tasks_blocked()  # the next requests are planned together
    waiting: list[Sequence[Completion[Any]]] = [
        running.queue.delete([exact_filter(each) for each in deleted], CONTEXT),
        running.queue.create(created, CONTEXT),
    ]
    if is_applied:
        for completions in waiting:
            await results(completions)
    outcome: list[object] = []

    async def end(state: GrantState) -> None:
        try:
            outcome.extend(await access.delete([ACL, NOTE], state))
        except StateMovedError as error:
            outcome.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end, state)
        await wait_all_tasks_blocked()
        running.log.released.set()
    if not is_applied:
        await results(unrelated)
    assert (outcome == ["", ""]) == is_carried_out, outcome
    assert is_carried_out or isinstance(outcome[0], StateMovedError)
    if is_carried_out:
        assert not running.acls & {ACL, NOTE}


async def test_note_outlives_its_acl_by_a_few_seconds(
    running: Running, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Another keeper may create the ACL just now: without the note, it would never end."""
    access = OwnLogGrants(running.applier.snapshot, running.queue)
    nursery.start_soon(GrantKeeper(access, own_ms, trio.current_time).run)
    await create(running, ACL, NOTE)
    await trio.sleep(STEADY_SECONDS + 10)
    await results(running.queue.delete([exact_filter(ACL)], CONTEXT))
    await trio.sleep(SETTLE_SECONDS - 0.5)
    assert [grant.id for grant in list_grants(running)] == [GRANT.id]
    await trio.sleep(3)
    assert running.acls == set()
