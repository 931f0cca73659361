from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from acl.audit import AuditLevel
from acl.decision import DEFAULT_DENY
from acl.model import Operation, Question, ResourceType
from actors.audit_log import EVENTS_PER_SLICE, AuditEvent, AuditLog


class Writer:
    """Takes lines once it is let go on; fails while ``error`` is set."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.goes_on = trio.Event()
        self.goes_on.set()
        self.error: OSError | None = None

    async def write(self, lines: Sequence[bytes]) -> None:
        await self.goes_on.wait()
        if self.error is not None:
            raise self.error
        self.lines += lines


def event(number: int) -> AuditEvent:
    question = Question("User:a", None, Operation.READ, ResourceType.TOPIC, str(number))
    return AuditEvent(0.0, AuditLevel.INFO, question, DEFAULT_DENY, "Test", 0)


def new_log(
    writer: Writer, *, events_max: int = 1000, level: AuditLevel = AuditLevel.INFO
) -> tuple[AuditLog, list[OSError]]:
    failures: list[OSError] = []
    log = AuditLog(
        writer,
        level=level,
        format_event=lambda event: event.question.resource_name.encode(),
        events_max=events_max,
        on_failure=failures.append,
    )
    return log, failures


async def test_lines_are_written_in_the_order_of_decisions(nursery: trio.Nursery) -> None:
    """Over many slices, and across pauses."""
    writer = Writer()
    log, _ = new_log(writer)
    await nursery.start(log.run)
    for number in range(EVENTS_PER_SLICE * 3):
        log.record(event(number))
    await wait_all_tasks_blocked()
    log.record(event(EVENTS_PER_SLICE * 3))
    await wait_all_tasks_blocked()
    assert writer.lines == [b"%d" % number for number in range(EVENTS_PER_SLICE * 3 + 1)]
    assert log.statistics.written == len(writer.lines)
    nursery.cancel_scope.cancel()


async def test_a_full_queue_drops_and_counts(nursery: trio.Nursery) -> None:
    """A writer that is stuck costs lines, never memory and never a decision's time."""
    writer = Writer()
    writer.goes_on = trio.Event()
    log, _ = new_log(writer, events_max=10)
    await nursery.start(log.run)
    log.record(event(0))
    await wait_all_tasks_blocked()
    for number in range(1, 26):
        log.record(event(number))
    assert log.statistics.dropped == 15
    writer.goes_on.set()
    await wait_all_tasks_blocked()
    assert writer.lines == [b"%d" % number for number in range(11)]
    nursery.cancel_scope.cancel()


async def test_a_write_that_fails_is_counted_and_said(nursery: trio.Nursery) -> None:
    """A full disk loses lines, not the daemon; what comes later is written again."""
    writer = Writer()
    writer.error = OSError("no space left")
    log, failures = new_log(writer)
    await nursery.start(log.run)
    log.record(event(1))
    await wait_all_tasks_blocked()
    assert (log.statistics.dropped, failures) == (1, [writer.error])
    writer.error = None
    log.record(event(2))
    await wait_all_tasks_blocked()
    assert writer.lines == [b"2"]
    nursery.cancel_scope.cancel()


async def test_closing_writes_what_is_queued_then_ends(nursery: trio.Nursery) -> None:
    """The last decisions before a shutdown are in the file; later ones are counted as lost."""
    writer = Writer()
    log, _ = new_log(writer)
    for number in range(3):
        log.record(event(number))
    log.close()
    log.record(event(3))
    with trio.fail_after(1):
        await log.run()
    assert writer.lines == [b"0", b"1", b"2"]
    assert log.statistics.dropped == 1


@pytest.mark.parametrize(
    ("level", "allowed", "denied"),
    [
        (AuditLevel.INFO, None, AuditLevel.INFO),
        (AuditLevel.DEBUG, AuditLevel.DEBUG, AuditLevel.INFO),
        (AuditLevel.TRACE, AuditLevel.DEBUG, AuditLevel.INFO),
    ],
)
def test_the_level_decides_what_is_logged(
    level: AuditLevel, allowed: AuditLevel | None, denied: AuditLevel | None
) -> None:
    """INFO, Kafka's default, holds denials only."""
    log, _ = new_log(Writer(), level=level)
    assert (log.level_of(allowed=True), log.level_of(allowed=False)) == (allowed, denied)
