"""A worker's source; the test acts as its daemon and its applier."""

from collections.abc import Mapping
from contextlib import suppress

import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from authorizerd.acl.model import ChangeBatch
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes, at_offset
from authorizerd.actors.published import Published
from authorizerd.actors.record_applier import CaughtUp, Message, Renew, Suspend
from authorizerd.daemon.workers.feed_source import FeedSource, WorkerActions
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import frame
from authorizerd.protocol.worker_changes import encode_changes
from authorizerd.protocol.worker_feed import (
    Begin,
    Done,
    Drain,
    Files,
    Listen,
    Loaded,
    Order,
    Report,
    StopDecisions,
    TakeFiles,
    TakeSettings,
    encode_message,
    report_reader,
)
from tests.support.log_files import added

SILENCE_SECONDS = 20


class Told(WorkerActions):
    """Record the orders; a drain waits until the test releases it."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.drained = trio.Event()

    def apply_settings(self, texts: Mapping[str, str]) -> None:
        self.told.append(f"settings {dict(texts)}")

    async def apply_files(self, files: Files) -> None:
        self.told.append(f"files {files.tokens}")

    async def listen(self) -> None:
        self.told.append("listen")

    async def drain(self) -> None:
        self.told.append("drain")
        await self.drained.wait()

    def counters(self) -> dict[str, int]:
        return {"told": len(self.told)}


class Daemon:
    """The other end of the feed, and what the source passes on."""

    def __init__(self) -> None:
        self.stream, theirs = memory_stream_pair()
        self.source = FeedSource(theirs)
        self.follower = Told()
        self.snapshot = Published[AclSnapshot | None](None)
        self.feed, self.handed_on = trio.open_memory_channel[Message](9)
        self.has_ended = False
        self._found: list[Done] = []

    async def run(self) -> None:
        await self.source.run(self.feed, self.snapshot, self.follower)
        self.has_ended = True

    async def order(self, *orders: Order) -> list[Done]:
        """Send orders; return the reports."""
        return await self.send(b"".join(map(encode_message, orders)))

    async def send(self, data: bytes) -> list[Done]:
        await self.stream.send_all(data)
        return await self.reports()

    async def reports(self) -> list[Done]:
        await wait_all_tasks_blocked()
        found, self._found = self._found, []
        return found

    async def read(self) -> None:
        reader = report_reader()
        with suppress(trio.ClosedResourceError):
            async for data in self.stream:
                reader.receive_data(data)
                while (done := reader.next_message()) is not None:
                    self._found.append(done)


@pytest.fixture
async def daemon(nursery: trio.Nursery) -> Daemon:
    daemon = Daemon()
    nursery.start_soon(daemon.run)
    nursery.start_soon(daemon.read)
    return daemon


async def test_change_is_reported_once_the_worker_decides_by_it(daemon: Daemon) -> None:
    """Passing it on is not enough. A batch in parts is reported after its last part."""
    assert await daemon.order(Loaded(1, 3)) == []
    assert daemon.handed_on.receive_nowait() == CaughtUp(3)
    daemon.snapshot.publish(at_offset(EMPTY_SNAPSHOT, 3))
    assert await daemon.reports() == [Done(1, 3)]
    piece, end = ChangeBatch(5, (added(1),), is_end=False), ChangeBatch(5, (added(2),))
    assert await daemon.send(b"".join(encode_changes(2, piece))) == []
    assert await daemon.send(b"".join(encode_changes(3, end))) == []
    assert [daemon.handed_on.receive_nowait() for _ in range(2)] == [piece, end]
    assert await daemon.order(Report(4)) == [], "reports are in order, so it waits"
    changed = apply_changes(EMPTY_SNAPSHOT, end.changes)
    daemon.snapshot.publish(at_offset(changed, end.last_offset))
    assert await daemon.reports() == [Done(3, 5), Done(4, 5, {"told": 0})]
    await daemon.stream.aclose()


async def test_stop_and_deadline_reach_the_applier_in_order(daemon: Daemon) -> None:
    """The deadline is that of the state after the orders before it, also while it drains."""
    orders = (Report(1, 5.0), StopDecisions(2, "why"), Report(3, 7.0), Drain(4), Report(5, 9.0))
    reports = await daemon.order(*orders)
    assert [done.number for done in reports] == [1, 2, 3, 5]
    wanted = [Renew(5.0), Suspend("why"), Renew(7.0), Renew(9.0)]
    assert [daemon.handed_on.receive_nowait() for _ in wanted] == wanted
    await daemon.stream.aclose()


async def test_orders_are_reported_in_order(daemon: Daemon) -> None:
    files = Files("text")
    reports = await daemon.order(
        TakeSettings(1, {"a": "b"}), TakeFiles(2, files), Listen(3), Report(4)
    )
    assert reports == [Done(1, -1), Done(2, -1), Done(3, -1), Done(4, -1, {"told": 3})]
    assert daemon.follower.told == ["settings {'a': 'b'}", "files text", "listen"]
    await daemon.stream.aclose()


async def test_draining_worker_still_applies_changes(daemon: Daemon) -> None:
    """Its last report holds its counters."""
    assert await daemon.order(Drain(1)) == []
    assert await daemon.order(Report(2)) == [Done(2, -1, {"told": 1})]
    assert not daemon.has_ended
    daemon.follower.drained.set()
    assert await daemon.reports() == [Done(1, -1, {"told": 1})]
    assert daemon.has_ended


async def test_source_ends_with_the_daemon(daemon: Daemon) -> None:
    """The source ends immediately, however long a drain would take."""
    await daemon.order(Drain(1))
    await daemon.stream.aclose()
    await wait_all_tasks_blocked()
    assert daemon.has_ended


async def test_daemon_that_ends_before_the_first_order_is_not_a_fault() -> None:
    ours, theirs = memory_stream_pair()
    await ours.aclose()
    assert await FeedSource(theirs).begin() is None


async def test_first_order_is_begin() -> None:
    ours, theirs = memory_stream_pair()
    source = FeedSource(theirs)
    await ours.send_all(encode_message(Begin(1, {"node.id": "1"})))
    assert await source.begin() == Begin(1, {"node.id": "1"})
    reader = report_reader()
    reader.receive_data(await ours.receive_some())
    assert reader.next_message() == Done(1, -1)


async def test_invalid_order_ends_the_worker() -> None:
    daemon = Daemon()
    await daemon.stream.send_all(frame(b"\xc1"))
    with pytest.raises(DecodeError):
        await daemon.source.begin()
