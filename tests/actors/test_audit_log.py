"""The audit log: lines in order, a bounded queue, and outputs that fail."""

import errno

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.decision import DEFAULT_DENY
from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.actors.audit_log import (
    BYTES_PER_SLICE,
    BYTES_PER_WRITE_MAX,
    CHARACTERS_PER_EVENT,
    CHECK_SECONDS,
    CLOSE_SECONDS,
    EVENTS_PER_SLICE,
    AuditEvent,
    AuditLog,
    PartialWriteError,
)
from tests.support.audit import Writer

FULL = OSError(errno.ENOSPC, "no space left")

pytestmark = pytest.mark.usefixtures("autojump_clock")


class Reports:
    """The calls that the log has made, in order."""

    def __init__(self) -> None:
        self.all: list[tuple[str, object]] = []

    def failure(self, error: OSError) -> None:
        self.all.append(("failure", error))

    def recovery(self, lost: int) -> None:
        self.all.append(("recovery", lost))

    def loss(self, lines: int) -> None:
        self.all.append(("loss", lines))


def event(number: int, *, padding: int = 0) -> AuditEvent:
    name = str(number).rjust(padding, "0")
    question = Question("User:a", None, Operation.READ, ResourceType.TOPIC, name)
    return AuditEvent(0.0, AuditLevel.INFO, question, DEFAULT_DENY, "Test", 0)


def new_log(
    *,
    events_max: int = 1000,
    is_required: bool = False,
    error: OSError | None = None,
    is_stuck: bool = False,
) -> tuple[Writer, AuditLog, Reports]:
    writer, reports = Writer(), Reports()
    writer.error = error
    if is_stuck:
        writer.goes_on = trio.Event()
    log = AuditLog(
        writer,
        format_event=lambda event: event.question.resource_name.encode(),
        events_max=events_max,
        on_failure=reports.failure,
        on_recovery=reports.recovery,
        on_loss=reports.loss,
    )
    log.set_required(is_required)
    return writer, log, reports


async def test_lines_are_written_in_the_order_of_decisions(nursery: trio.Nursery) -> None:
    """The order holds over many slices, and after a pause."""
    writer, log, _ = new_log()
    await nursery.start(log.run)
    for number in range(EVENTS_PER_SLICE * 3):
        log.record(event(number))
    await wait_all_tasks_blocked()
    log.record(event(EVENTS_PER_SLICE * 3))
    await wait_all_tasks_blocked()
    assert writer.lines == [b"%d" % number for number in range(EVENTS_PER_SLICE * 3 + 1)]
    assert log.statistics.written == len(writer.lines)


async def test_a_full_queue_drops_and_counts(nursery: trio.Nursery) -> None:
    """While the writer is stuck, memory stays bounded, and no decision is delayed."""
    writer, log, _ = new_log(events_max=10, is_stuck=True)
    await nursery.start(log.run)
    log.record(event(0))
    await wait_all_tasks_blocked()
    for number in range(1, 26):
        log.record(event(number))
    assert (log.statistics.dropped_queue, log.statistics.dropped_output) == (15, 0)
    writer.goes_on.set()
    await wait_all_tasks_blocked()
    assert writer.lines == [b"%d" % number for number in range(11)]


async def test_lines_that_cannot_be_written_are_kept_and_retried(nursery: trio.Nursery) -> None:
    """Nothing is lost while the queue has room. The failure and its end are reported once each."""
    writer, log, reports = new_log(error=FULL)
    await nursery.start(log.run)
    log.record(event(1))
    await trio.sleep(CHECK_SECONDS * 3.5)
    log.record(event(2))
    assert reports.all == [("failure", FULL)]
    assert log.statistics.failing == 1
    writer.error = None
    await trio.sleep(CHECK_SECONDS)
    assert writer.lines == [b"1", b"2"]
    assert reports.all == [("failure", FULL), ("recovery", 0)]
    assert (log.statistics.written, log.statistics.dropped, log.statistics.failing) == (2, 0, 0)


async def test_a_failing_output_is_not_retried_at_every_decision(nursery: trio.Nursery) -> None:
    """It is tried once a second."""
    writer, log, _ = new_log(error=FULL)
    await nursery.start(log.run)
    for number in range(100):
        log.record(event(number))
        await trio.sleep(CHECK_SECONDS / 20)
    assert 5 <= len(writer.writes) <= 7


async def test_events_dropped_in_a_failure_count_for_the_output(nursery: trio.Nursery) -> None:
    """They count as lost to the output. The recovery reports their number."""
    writer, log, reports = new_log(events_max=10, error=FULL)
    await nursery.start(log.run)
    log.record(event(0))
    await trio.sleep(CHECK_SECONDS / 2)
    for number in range(1, 16):
        log.record(event(number))
    assert (log.statistics.dropped_output, log.statistics.dropped_queue) == (5, 0)
    writer.error = None
    await trio.sleep(CHECK_SECONDS)
    assert writer.lines == [b"%d" % number for number in range(11)]
    assert reports.all[1:] == [("recovery", 5)]


async def test_a_partial_write_is_resumed_where_it_stopped(nursery: trio.Nursery) -> None:
    """No line is written twice or left out."""
    writer, log, reports = new_log(error=PartialWriteError(FULL, 2))
    for number in range(4):
        log.record(event(number))
    await nursery.start(log.run)
    await trio.sleep(CHECK_SECONDS / 2)
    assert (log.statistics.written, len(reports.all)) == (2, 1)
    writer.error = None
    await trio.sleep(CHECK_SECONDS)
    assert writer.lines == [b"0", b"1", b"2", b"3"]
    assert log.statistics.written == 4


async def test_a_failure_after_the_last_line_is_recovered_from(nursery: trio.Nursery) -> None:
    """The log retries although no line is queued, or a required audit would refuse forever."""
    writer, log, _ = new_log(is_required=True, error=PartialWriteError(FULL, 1))
    await nursery.start(log.run)
    log.record(event(1))
    await trio.sleep(CHECK_SECONDS / 2)
    assert log.is_refusing
    writer.error = None
    await trio.sleep(CHECK_SECONDS)
    assert not log.is_refusing
    assert writer.lines == [b"1"]


async def test_an_idle_log_checks_its_output(nursery: trio.Nursery) -> None:
    """A moved file is created again within a second, even without decisions."""
    writer, log, _ = new_log()
    await nursery.start(log.run)
    await trio.sleep(CHECK_SECONDS * 2.5)
    assert writer.writes == [0, 0]


async def test_a_required_audit_refuses_while_the_output_fails(nursery: trio.Nursery) -> None:
    """It recovers by itself. An audit that is not required never refuses."""
    for is_required in (True, False):
        writer, log, _ = new_log(is_required=is_required)
        nursery.start_soon(log.run)
        assert not log.is_refusing
        writer.error = FULL
        log.record(event(1))
        await trio.sleep(CHECK_SECONDS / 2)
        assert log.is_refusing is is_required
        log.set_required(not is_required)
        assert log.is_refusing is not is_required
        log.set_required(is_required)
        writer.error = None
        await trio.sleep(CHECK_SECONDS)
        assert not log.is_refusing


async def test_a_required_audit_refuses_before_it_drops(nursery: trio.Nursery) -> None:
    """The decision that fills the queue is the last until the queue has room again."""
    _, log, _ = new_log(events_max=3, is_required=True, is_stuck=True)
    for number in range(3):
        assert not log.is_refusing
        log.record(event(number))
    assert log.is_refusing
    await nursery.start(log.run)
    await wait_all_tasks_blocked()
    assert not log.is_refusing
    assert log.statistics.dropped == 0


async def test_long_names_fill_the_queue_too(nursery: trio.Nursery) -> None:
    """Otherwise a few questions with huge names would take all memory. Written events free it."""
    _, log, _ = new_log(events_max=10)
    for _ in range(10):
        log.record(event(0, padding=CHARACTERS_PER_EVENT * 4))
    assert log.statistics.dropped_queue == 7
    await nursery.start(log.run)
    await wait_all_tasks_blocked()
    for _ in range(3):
        log.record(event(0, padding=CHARACTERS_PER_EVENT * 4))
    assert log.statistics.dropped_queue == 7


async def test_the_size_of_a_write_is_bounded(nursery: trio.Nursery) -> None:
    writer, log, _ = new_log(events_max=100_000)
    half = BYTES_PER_WRITE_MAX // 2
    for number in range(5):
        log.record(event(number, padding=half))
    await nursery.start(log.run)
    await wait_all_tasks_blocked()
    assert writer.writes == [2, 2, 1]


async def test_long_lines_are_formatted_in_short_slices(nursery: trio.Nursery) -> None:
    """Otherwise clients with long names would hold the event loop."""
    writer, log, _ = new_log(events_max=100_000)
    for number in range(8):
        log.record(event(number, padding=BYTES_PER_SLICE))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while not writer.writes:
            turns += 1
            await trio.lowlevel.checkpoint()

    nursery.start_soon(count_turns)
    await nursery.start(log.run)
    await wait_all_tasks_blocked()
    assert turns >= 8


async def test_closing_waits_a_bounded_time_for_a_stuck_reader() -> None:
    """The lost lines are counted and reported."""
    _, log, reports = new_log(is_stuck=True)
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        log.record(event(0))
        await wait_all_tasks_blocked()
        log.record(event(1))
        started = trio.current_time()
        log.close()
    assert trio.current_time() - started == pytest.approx(CLOSE_SECONDS)
    assert reports.all == [("loss", 2)]
    assert log.statistics.dropped_output == 2


async def test_closing_retries_a_failing_output_once() -> None:
    """It does not pause before the retry. Lines that the retry writes are not lost."""
    for error in (FULL, None):
        writer, log, reports = new_log(error=FULL)
        async with trio.open_nursery() as nursery:
            await nursery.start(log.run)
            log.record(event(0))
            await wait_all_tasks_blocked()
            writer.error = error
            started = trio.current_time()
            log.close()
        assert trio.current_time() - started < CHECK_SECONDS
        assert (writer.lines == [b"0"]) is (error is None)
        assert reports.all[1:] == ([("recovery", 0)] if error is None else [("loss", 1)])


async def test_closing_writes_the_queue_and_ends(nursery: trio.Nursery) -> None:
    """Later events are counted as lost."""
    writer, log, _ = new_log()
    for number in range(3):
        log.record(event(number))
    log.close()
    log.record(event(3))
    with trio.fail_after(1):
        await log.run()
    assert writer.lines == [b"0", b"1", b"2"]
    assert log.statistics.dropped_queue == 1


async def test_an_error_elsewhere_loses_no_line() -> None:
    """The current write is completed, and the queued lines follow."""
    writer, log, reports = new_log(is_stuck=True)
    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            await nursery.start(log.run)
            log.record(event(0))
            await wait_all_tasks_blocked()
            log.record(event(1))
            trio.lowlevel.spawn_system_task(_set_later, writer.goes_on)
            raise RuntimeError("an actor's fault")
    assert writer.lines == [b"0", b"1"]
    assert (reports.all, log.statistics.written) == ([], 2)


async def _set_later(event: trio.Event) -> None:
    await trio.sleep(CLOSE_SECONDS / 2)
    event.set()


async def test_lines_lost_to_an_error_elsewhere_are_counted() -> None:
    """Closing before the cancellation does not extend the wait for a stuck reader."""
    _, log, reports = new_log(is_stuck=True)
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        for number in range(3):
            log.record(event(number))
        started = trio.current_time()
        log.close()
        await trio.sleep(CLOSE_SECONDS / 2)
        nursery.cancel_scope.cancel()
    assert trio.current_time() - started == pytest.approx(CLOSE_SECONDS)
    assert reports.all == [("loss", 3)]
    assert log.statistics.dropped_output == 3


async def test_lines_that_cannot_be_formatted_are_counted_at_the_end() -> None:
    """A defect of ours ends the log and reports the lost lines."""
    _, log, reports = new_log()
    log.record(event(0))
    question = Question("User:a", None, Operation.READ, ResourceType.TOPIC, "\ud800")
    log.record(msgspec.structs.replace(event(1), question=question))
    with pytest.RaisesGroup(UnicodeEncodeError):
        await log.run()
    assert reports.all == [("loss", 2)]
