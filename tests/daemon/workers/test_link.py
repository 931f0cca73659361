"""One worker's link; the test acts as its far end."""

import math
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock, lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import ChangeBatch
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes, at_offset
from authorizerd.daemon.workers import link as worker_link
from authorizerd.daemon.workers.link import (
    ENDING_SECONDS_MAX,
    LOADING_SECONDS_MAX,
    WorkerLink,
    WorkerProcess,
)
from authorizerd.image.cluster import EMPTY_IMAGE
from authorizerd.protocol import worker_changes
from authorizerd.protocol.framing import frame
from authorizerd.protocol.worker_changes import SharedTexts, to_batch
from authorizerd.protocol.worker_feed import (
    Done,
    Drain,
    Listen,
    Loaded,
    Order,
    Report,
    TakeChanges,
    encode_message,
    order_reader,
)
from tests.support.acls import acl, snapshot_of
from tests.support.log_files import added


class Process(WorkerProcess):
    def __init__(self) -> None:
        self.killed = False
        self.may_end = trio.Event()

    @property
    def pid(self) -> int:
        return 7

    def kill(self) -> None:
        self.killed = True

    async def wait(self) -> int:
        await self.may_end.wait()
        return 3


class Far:
    """The far end: read orders, and send the reports that the test chooses."""

    def __init__(self) -> None:
        near, self._stream = memory_stream_pair()
        self.process = Process()
        self.changes = 0
        self.link = WorkerLink(near, self.process, timeout_ms=1000, on_change=self._count_change)
        self._reader = order_reader()
        self.ended = ""

    def _count_change(self) -> None:
        self.changes += 1

    async def run(self) -> None:
        self.ended = await self.link.run()

    async def orders(self) -> list[Order]:
        await wait_all_tasks_blocked()
        self._reader.receive_data(await self._stream.receive_some())
        found: list[Order] = []
        while (order := self._reader.next_message()) is not None:
            found.append(order)
        return found

    async def report(self, number: int, offset: int) -> None:
        """Report that an order is done."""
        await self.send(encode_message(Done(number, offset)))

    async def load(self) -> None:
        """Order a state, and report that it is loaded."""
        order_state(self.link)
        await self.orders()
        await self.report(1, -1)

    async def send(self, data: bytes) -> None:
        await self._stream.send_all(data)
        await wait_all_tasks_blocked()

    async def close(self) -> None:
        await self._stream.aclose()
        await wait_all_tasks_blocked()


def order_state(link: WorkerLink, snapshot: AclSnapshot = EMPTY_SNAPSHOT) -> None:
    link.order_state(lambda: (snapshot, EMPTY_IMAGE), lambda _: ())


@pytest.fixture
async def far(nursery: trio.Nursery) -> AsyncIterator[Far]:
    far = Far()
    nursery.start_soon(far.run)
    yield far
    far.process.may_end.set()
    nursery.cancel_scope.cancel()


async def test_worker_listens_once_updates_wait_for_it(far: Far) -> None:
    """Earlier changes come before the order to listen in its feed, and a lease that begins now."""
    far.link.order(Report)
    order_state(far.link)
    assert await far.orders() == [Report(1), Loaded(2, -1)]
    await far.report(1, -1)
    far.link.order_changes(ChangeBatch(5, (added(1),)))
    assert not far.link.is_loaded
    await far.report(2, -1)
    assert far.link.is_loaded
    changes, report, listen = await far.orders()
    assert isinstance(changes, TakeChanges)
    assert (changes.number, report, listen) == (3, Report(4), Listen(5))
    await far.report(3, 5)
    await far.report(4, 5)
    assert not far.link.is_listening
    await far.report(5, 5)
    assert (far.link.is_listening, far.link.offset, far.changes) == (True, 5, 1)


async def test_waiters_resume_only_after_the_process_ended(far: Far, nursery: trio.Nursery) -> None:
    """A link that ends for any reason kills its process and waits for it."""
    number = far.link.order(Report)
    far.link.kill("because")
    went_on = trio.Event()

    async def wait() -> None:
        await far.link.wait_until_done(number)
        went_on.set()

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    assert (far.process.killed, went_on.is_set()) == (True, False)
    far.process.may_end.set()
    await wait_all_tasks_blocked()
    assert (went_on.is_set(), far.ended) == (True, "because")


async def test_worker_that_closes_its_feed_may_log_why(far: Far, autojump_clock: MockClock) -> None:
    await far.close()
    assert not far.process.killed
    await trio.sleep(ENDING_SECONDS_MAX + 0.1)
    assert far.process.killed
    far.process.may_end.set()
    await wait_all_tasks_blocked()
    assert far.ended == "it has ended with code 3"


async def test_invalid_report_kills_the_worker(far: Far) -> None:
    far.process.may_end.set()
    await far.send(frame(b"\xc1"))
    assert "expected a message of the feed" in far.ended


async def test_pause_of_the_daemon_does_not_kill_a_worker(far: Far, mock_clock: MockClock) -> None:
    await far.load()
    mock_clock.jump(50)
    await wait_all_tasks_blocked()
    assert not far.process.killed
    for _ in range(8):
        mock_clock.jump(0.25)
        await wait_all_tasks_blocked()
    assert far.process.killed


async def test_lease_is_renewed_after_a_daemons_pause(far: Far, mock_clock: MockClock) -> None:
    await far.load()
    assert await far.orders() == [Report(2), Listen(3)]
    assert far.link.decides_until == -math.inf
    await far.report(2, -1)
    assert far.link.decides_until == math.inf
    await far.report(3, -1)
    mock_clock.jump(50)
    await wait_all_tasks_blocked()
    assert far.link.last_number == 4
    assert await far.orders() == [Report(4)]


async def test_worker_that_reads_its_snapshot_slowly_lives(
    nursery: trio.Nursery, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Millions of ACLs take minutes. A worker that then does nothing is killed."""
    monkeypatch.setattr(worker_changes, "CHANGES_PER_FRAME", 1)
    near, stream = lockstep_stream_pair()
    process, reader = Process(), order_reader()
    process.may_end.set()
    link = WorkerLink(near, process, timeout_ms=1000, on_change=lambda: None)
    order_state(link, snapshot_of(*(acl(topic=name) for name in "abcd")))
    nursery.start_soon(link.run)
    order: Order | None = None
    while not isinstance(order, Loaded):
        await trio.sleep(LOADING_SECONDS_MAX - 10)
        assert not process.killed
        while (order := reader.next_message()) is None:
            reader.receive_data(await stream.receive_some())
    await trio.sleep(LOADING_SECONDS_MAX - 10)
    assert not process.killed
    await trio.sleep(20)
    assert process.killed
    nursery.cancel_scope.cancel()


async def test_no_change_waits_while_the_state_is_sent(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that loads slowly gets the newest state, however many changes come meanwhile."""
    monkeypatch.setattr(worker_changes, "CHANGES_PER_FRAME", 1)
    monkeypatch.setattr(worker_link, "CHANGES_WAITING_MAX", 2)
    near, stream = lockstep_stream_pair()
    process, reader = Process(), order_reader()
    process.may_end.set()
    link = WorkerLink(near, process, timeout_ms=1000, on_change=lambda: None)
    snapshot, later = build(map(added, range(3)), offset=3), ChangeBatch(99, (added(99),))
    link.order_state(lambda: (snapshot, EMPTY_IMAGE), lambda _: (later,))
    nursery.start_soon(link.run)
    found: list[Order] = []
    while not found or found[-1].number == 1:
        if len(found) == 1:
            for number in range(10, 20):
                batch = ChangeBatch(number, (added(number),))
                link.order_changes(batch)
                snapshot = at_offset(apply_changes(snapshot, batch.changes), number)
        while (order := reader.next_message()) is None:
            data = await stream.receive_some()
            assert data, "it was killed"
            reader.receive_data(data)
        found.append(order)
    *state, loaded, last = found
    assert loaded == Loaded(1, 19)
    assert isinstance(last, TakeChanges)
    assert last.offset == 99
    batches = [to_batch(order, SharedTexts()) for order in state if isinstance(order, TakeChanges)]
    assert {change.id for batch in batches for change in batch.changes} == set(snapshot.acls)
    assert not process.killed
    nursery.cancel_scope.cancel()


async def test_drain_has_no_order_time_limit(far: Far, autojump_clock: MockClock) -> None:
    """Clients may take their time; the order before the drain has the usual limit."""
    await far.load()
    await far.orders()
    await far.report(3, -1)
    far.link.order_drain(Drain)
    await trio.sleep(100)
    assert not far.process.killed
