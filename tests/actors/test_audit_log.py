"""Decisions in, lines out, in order; and what becomes of those that cannot be written."""

from __future__ import annotations

import errno

import msgspec
import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.audit import AuditLevel
from authorizerd.acl.decision import DEFAULT_DENY
from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.actors.audit_log import (
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


class Said:
    """What the log was told to say, in order."""

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
    writer: Writer,
    *,
    events_max: int = 1000,
    is_required: bool = False,
) -> tuple[AuditLog, Said]:
    said = Said()
    log = AuditLog(
        writer,
        format_event=lambda event: event.question.resource_name.encode(),
        events_max=events_max,
        on_failure=said.failure,
        on_recovery=said.recovery,
        on_loss=said.loss,
    )
    log.set_required(is_required)
    return log, said


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
    assert (log.statistics.dropped_queue, log.statistics.dropped_output) == (15, 0)
    writer.goes_on.set()
    await wait_all_tasks_blocked()
    assert writer.lines == [b"%d" % number for number in range(11)]
    nursery.cancel_scope.cancel()


async def test_what_cannot_be_written_is_kept_and_tried_again(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """A full disk costs no line while there is room to keep it; it is said once, its end too."""
    writer = Writer()
    writer.error = FULL
    log, said = new_log(writer)
    await nursery.start(log.run)
    log.record(event(1))
    await trio.sleep(CHECK_SECONDS * 3.5)
    log.record(event(2))
    assert said.all == [("failure", FULL)]
    assert log.statistics.failing == 1
    writer.error = None
    await trio.sleep(CHECK_SECONDS)
    assert writer.lines == [b"1", b"2"]
    assert said.all == [("failure", FULL), ("recovery", 0)]
    assert (log.statistics.written, log.statistics.dropped, log.statistics.failing) == (2, 0, 0)
    nursery.cancel_scope.cancel()


async def test_a_broken_output_is_not_tried_at_every_decision(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Once a second, however many decisions there are."""
    writer = Writer()
    writer.error = FULL
    log, _ = new_log(writer)
    await nursery.start(log.run)
    for number in range(100):
        log.record(event(number))
        await trio.sleep(CHECK_SECONDS / 20)
    assert 5 <= len(writer.writes) <= 7
    nursery.cancel_scope.cancel()


async def test_what_finds_no_room_while_the_output_is_broken_is_its_loss(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """The reason that is counted is the cause; how many were lost is said at the end of it."""
    writer = Writer()
    writer.error = FULL
    log, said = new_log(writer, events_max=10)
    await nursery.start(log.run)
    log.record(event(0))
    await trio.sleep(CHECK_SECONDS / 2)
    for number in range(1, 16):
        log.record(event(number))
    assert (log.statistics.dropped_output, log.statistics.dropped_queue) == (5, 0)
    writer.error = None
    await trio.sleep(CHECK_SECONDS)
    assert writer.lines == [b"%d" % number for number in range(11)]
    assert said.all[1:] == [("recovery", 5)]
    nursery.cancel_scope.cancel()


async def test_a_write_that_broke_off_is_taken_up_where_it_did(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """No line is written twice, and none is left out."""
    writer = Writer()
    writer.error = PartialWriteError(FULL, 2)
    log, said = new_log(writer)
    for number in range(4):
        log.record(event(number))
    await nursery.start(log.run)
    await trio.sleep(CHECK_SECONDS / 2)
    assert (log.statistics.written, len(said.all)) == (2, 1)
    writer.error = None
    await trio.sleep(CHECK_SECONDS)
    assert writer.lines == [b"0", b"1", b"2", b"3"]
    assert log.statistics.written == 4
    nursery.cancel_scope.cancel()


async def test_an_output_that_broke_behind_the_last_line_is_found_well_again(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Though nothing is left to be written: a required audit would refuse for ever."""
    writer = Writer()
    writer.error = PartialWriteError(FULL, 1)
    log, _ = new_log(writer, is_required=True)
    await nursery.start(log.run)
    log.record(event(1))
    await trio.sleep(CHECK_SECONDS / 2)
    assert log.is_refusing
    writer.error = None
    await trio.sleep(CHECK_SECONDS)
    assert not log.is_refusing
    assert writer.lines == [b"1"]
    nursery.cancel_scope.cancel()


async def test_an_idle_log_has_its_output_looked_after(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """A file that was moved is there again within a second, whether or not anybody asks."""
    writer = Writer()
    log, _ = new_log(writer)
    await nursery.start(log.run)
    await trio.sleep(CHECK_SECONDS * 2.5)
    assert writer.writes == [0, 0]
    nursery.cancel_scope.cancel()


async def test_a_required_audit_refuses_while_the_output_is_broken(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """And goes on by itself; what is not required goes on deciding."""
    for is_required in (True, False):
        writer = Writer()
        log, _ = new_log(writer, is_required=is_required)
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
    nursery.cancel_scope.cancel()


async def test_a_required_audit_refuses_before_it_would_drop(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """The last that finds room is decided; once there is room again, others are."""
    writer = Writer()
    writer.goes_on = trio.Event()
    log, _ = new_log(writer, events_max=3, is_required=True)
    for number in range(3):
        assert not log.is_refusing
        log.record(event(number))
    assert log.is_refusing
    await nursery.start(log.run)
    await wait_all_tasks_blocked()
    assert not log.is_refusing
    assert log.statistics.dropped == 0
    nursery.cancel_scope.cancel()


async def test_long_names_fill_the_queue_too(nursery: trio.Nursery) -> None:
    """Or a few who ask about endless names would take all memory; written, they leave room."""
    writer = Writer()
    log, _ = new_log(writer, events_max=10)
    for _ in range(10):
        log.record(event(0, padding=CHARACTERS_PER_EVENT * 4))
    assert log.statistics.dropped_queue == 7
    await nursery.start(log.run)
    await wait_all_tasks_blocked()
    for _ in range(3):
        log.record(event(0, padding=CHARACTERS_PER_EVENT * 4))
    assert log.statistics.dropped_queue == 7
    nursery.cancel_scope.cancel()


async def test_one_write_is_of_bounded_size(nursery: trio.Nursery) -> None:
    """A few long lines at a time, or many short ones; all of them in the end."""
    writer = Writer()
    log, _ = new_log(writer, events_max=100_000)
    half = BYTES_PER_WRITE_MAX // 2
    for number in range(5):
        log.record(event(number, padding=half))
    await nursery.start(log.run)
    await wait_all_tasks_blocked()
    assert writer.writes == [2, 2, 1]
    nursery.cancel_scope.cancel()


async def test_an_end_waits_for_a_stuck_reader_no_longer_than_it_should(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What it cost is counted and said."""
    writer = Writer()
    writer.goes_on = trio.Event()
    log, said = new_log(writer)
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        log.record(event(0))
        await wait_all_tasks_blocked()
        log.record(event(1))
        started = trio.current_time()
        log.close()
    assert trio.current_time() - started == pytest.approx(CLOSE_SECONDS)
    assert said.all == [("loss", 2)]
    assert log.statistics.dropped_output == 2


async def test_an_end_tries_a_broken_output_once_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """At once: what is written then is not lost."""
    for error in (FULL, None):
        writer = Writer()
        writer.error = FULL
        log, said = new_log(writer)
        async with trio.open_nursery() as nursery:
            await nursery.start(log.run)
            log.record(event(0))
            await wait_all_tasks_blocked()
            writer.error = error
            started = trio.current_time()
            log.close()
        assert trio.current_time() - started < CHECK_SECONDS
        assert (writer.lines == [b"0"]) is (error is None)
        assert said.all[1:] == ([("recovery", 0)] if error is None else [("loss", 1)])


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
    assert log.statistics.dropped_queue == 1


async def test_a_fault_elsewhere_loses_no_line(autojump_clock: trio.testing.MockClock) -> None:
    """What a write has under way is not cut off, and what is queued behind it follows."""
    writer = Writer()
    writer.goes_on = trio.Event()
    log, said = new_log(writer)
    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            await nursery.start(log.run)
            log.record(event(0))
            await wait_all_tasks_blocked()
            log.record(event(1))
            trio.lowlevel.spawn_system_task(_set_later, writer.goes_on)
            raise RuntimeError("an actor's fault")
    assert writer.lines == [b"0", b"1"]
    assert (said.all, log.statistics.written) == ([], 2)


async def _set_later(event: trio.Event) -> None:
    await trio.sleep(CLOSE_SECONDS / 2)
    event.set()


async def test_lines_lost_to_a_fault_elsewhere_are_counted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A stuck reader is waited for no longer than at any other end, though closed before."""
    writer = Writer()
    writer.goes_on = trio.Event()
    log, said = new_log(writer)
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        for number in range(3):
            log.record(event(number))
        started = trio.current_time()
        log.close()
        await trio.sleep(CLOSE_SECONDS / 2)
        nursery.cancel_scope.cancel()
    assert trio.current_time() - started == pytest.approx(CLOSE_SECONDS)
    assert said.all == [("loss", 3)]
    assert log.statistics.dropped_output == 3


async def test_lines_that_cannot_be_formatted_are_counted_at_the_end() -> None:
    """A defect of our own ends the log, and says what it costs."""
    log, said = new_log(Writer())
    log.record(event(0))
    question = Question("User:a", None, Operation.READ, ResourceType.TOPIC, "\ud800")
    log.record(msgspec.structs.replace(event(1), question=question))
    with pytest.RaisesGroup(UnicodeEncodeError):
        await log.run()
    assert said.all == [("loss", 2)]
