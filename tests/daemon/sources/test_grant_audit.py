"""What the keeper of grants leaves in the audit log of a daemon with its own log."""

from datetime import UTC

import pytest
import trio
from msgspec.structs import replace

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.audit.recorded.requests import read_facts
from authorizerd.acl.filters import filter_of
from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.grants.steps import NOTES_MAX
from authorizerd.acl.model import AclAdded, ChangeBatch, PermissionType
from authorizerd.acl.updates import RECORDS_PER_REQUEST_MAX
from authorizerd.actors.auditor import Auditor
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.grant_keeper import STEPS_PER_REQUEST, GrantKeeper
from authorizerd.actors.record_applier import CaughtUp
from authorizerd.daemon.audit.format import format_json, format_kafka
from authorizerd.daemon.sources.snapshot_grants import AUTHOR, OwnLogGrants
from tests.support.acls import acl
from tests.support.audit import RecordingAuditLog
from tests.support.update_queue import Running, results

NOW_MS = 1_000_000_000_000
ALICE = acl("User:alice", topic="orders")
BOB = acl("User:bob", topic="orders")
_ENDED = Grant(id="1", acl=ALICE, begin_ms=0, end_ms=NOW_MS - 1, author="User:ops", reason="why")
_BEGINS = Grant(
    id="2", acl=BOB, begin_ms=NOW_MS - 1, end_ms=2 * NOW_MS, author="User:ops", reason="why",
    is_waiting=True,
)  # fmt: skip


def _new_keeper(running: Running) -> GrantKeeper:
    start = trio.current_time()
    return GrantKeeper(
        OwnLogGrants(running.applier.snapshot, running.queue),
        lambda: NOW_MS + int((trio.current_time() - start) * 1000),
        trio.current_time,
    )


@pytest.mark.usefixtures("autojump_clock")
async def test_what_the_keeper_writes_has_an_author_in_the_audit_log(
    nursery: trio.Nursery,
) -> None:
    """Otherwise, a client's request of the same time would seem to have made the change."""
    auditor = Auditor(RecordingAuditLog(), level=AuditLevel.INFO, now_s=lambda: NOW_MS / 1000)
    running = Running(100, on_written=auditor.record_written)
    acls = [ALICE, make_grant_note(_ENDED), make_grant_note(_BEGINS)]
    added = tuple(AclAdded(bytes([number]) * 16, each) for number, each in enumerate(acls, 1))
    await running.start(nursery, ChangeBatch(3, added), CaughtUp(3))
    running.log.last_offset = 3
    nursery.start_soon(_new_keeper(running).run)
    await trio.sleep(100)
    assert ALICE not in running.acls
    assert BOB in running.acls
    assert isinstance(auditor.log, RecordingAuditLog)
    for write in (format_json, format_kafka):
        found: set[tuple[str, bool]] = set()
        for event in auditor.log.events:
            facts = read_facts(write(event), UTC)
            assert facts is not None
            assert facts.request is not None
            found.add((facts.request.principal, facts.request.creates))
        assert found == {(AUTHOR, True), (AUTHOR, False)}
    nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("autojump_clock")
async def test_many_notes_of_one_acl_do_not_keep_other_grants_alive(nursery: trio.Nursery) -> None:
    """A request with too many ACLs would be refused, again and again."""
    running = Running(100)
    many = [replace(_BEGINS, id=f"{number:03}") for number in range(STEPS_PER_REQUEST + 1)]
    acls = [ALICE, make_grant_note(_ENDED), *map(make_grant_note, many)]
    added = tuple(AclAdded(b"n" + number.to_bytes(15), each) for number, each in enumerate(acls, 1))
    await running.start(nursery, ChangeBatch(len(added), added), CaughtUp(len(added)))
    running.log.last_offset = len(added)
    nursery.start_soon(_new_keeper(running).run)
    await trio.sleep(100)
    assert ALICE not in running.acls
    assert BOB in running.acls
    changes = STEPS_PER_REQUEST * (NOTES_MAX + 1)
    assert max(map(len, running.log.batches)) <= changes < RECORDS_PER_REQUEST_MAX
    assert max(map(len, running.log.batches)) <= STEPS_PER_REQUEST + 1
    nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("autojump_clock")
async def test_acl_with_the_name_of_a_deleted_note_ends_nothing(nursery: trio.Nursery) -> None:
    running = Running(100)
    note = make_grant_note(replace(_ENDED, end_ms=NOW_MS + 90_000))
    acls = [ALICE, note, replace(note, permission_type=PermissionType.ALLOW)]
    added = tuple(AclAdded(bytes([255, number] * 8), each) for number, each in enumerate(acls))
    await running.start(nursery, ChangeBatch(3, added), CaughtUp(3))
    running.log.last_offset = 3
    nursery.start_soon(_new_keeper(running).run)
    await trio.sleep(70)
    context = RequestContext(principal="User:ops", host=None, request_name="")
    notes = [each for each in running.acls if each.permission_type == PermissionType.DENY]
    await results(running.queue.delete([filter_of(each) for each in notes], context))
    await trio.sleep(100)
    assert ALICE in running.acls
    nursery.cancel_scope.cancel()
