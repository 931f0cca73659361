"""What the keeper of grants leaves in the audit log of a daemon with its own log."""

from datetime import UTC

import pytest
import trio

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.audit.recorded.requests import read_facts
from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.model import AclAdded, ChangeBatch
from authorizerd.actors.auditor import Auditor
from authorizerd.actors.grant_keeper import GrantKeeper
from authorizerd.actors.record_applier import CaughtUp
from authorizerd.daemon.audit.format import format_json, format_kafka
from authorizerd.daemon.sources.snapshot_grants import AUTHOR, OwnLogGrants
from tests.support.acls import acl
from tests.support.audit import RecordingAuditLog
from tests.support.update_queue import Running

NOW_MS = 1_000_000_000_000
ALICE = acl("User:alice", topic="orders")
BOB = acl("User:bob", topic="orders")
_ENDED = Grant(id="1", acl=ALICE, begin_ms=0, end_ms=NOW_MS - 1, author="User:ops", reason="why")
_BEGINS = Grant(
    id="2", acl=BOB, begin_ms=NOW_MS - 1, end_ms=2 * NOW_MS, author="User:ops", reason="why",
    is_waiting=True,
)  # fmt: skip


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
    access = OwnLogGrants(running.applier.snapshot, running.queue)
    start = trio.current_time()
    keeper = GrantKeeper(
        access, lambda: NOW_MS + int((trio.current_time() - start) * 1000), trio.current_time
    )
    nursery.start_soon(keeper.run)
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
