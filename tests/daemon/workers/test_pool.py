"""The pool with workers in this process, in virtual time."""

import math
import random
from collections.abc import Sequence

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.model import ChangeBatch
from authorizerd.actors.auditor import NOT_WRITTEN
from authorizerd.actors.published_state import STOPPED
from authorizerd.actors.record_applier import (
    CaughtUp,
    Message,
    Prepare,
    RecordApplier,
    Renew,
    Suspend,
)
from authorizerd.daemon.net.connection_statistics import HttpStatistics
from authorizerd.daemon.workers import link as worker_link
from authorizerd.daemon.workers.feed_source import SILENT
from authorizerd.daemon.workers.pool import REPLACE_SECONDS_MAX, REPLACE_SECONDS_MIN, WorkerPool
from authorizerd.daemon.workers.predecessors import LEASE_SECONDS_MAX
from authorizerd.protocol.worker_feed import Files, Report
from tests.daemon.fake_worker import FakeProcesses, FakeWorker
from tests.support.log_files import added, removed

TIMEOUT_MS = 1000
DETECTION_SECONDS = 1.26
"""The maximum time until a hanging worker is found: the time limit plus the check's interval."""

pytestmark = pytest.mark.usefixtures("autojump_clock")


class Running:
    """The pool of a daemon that has loaded one ACL; ``offset`` is that of the last change."""

    def __init__(self, nursery: trio.Nursery, count: int, *, is_followed: bool = False) -> None:
        feed, inbox = trio.open_memory_channel[Message](4)
        self.applier = RecordApplier(
            inbox,
            on_misfit=(lambda _: self.pool.fail()) if is_followed else None,
            clock=trio.current_time,
        )
        self.files = Files("first")
        self.pool = WorkerPool(
            count,
            feed,
            self.applier.applied,
            self.applier.cluster,
            configuration={"node.id": "1"},
            files=lambda: self.files,
            timeout_ms=TIMEOUT_MS,
            clock=lambda: trio.current_time() + self.clock_ahead_s,
        )
        self.clock_ahead_s = 0.0
        self.pool.drain_timeout_ms = 500
        self.pool.apply_settings({"super.users": "User:first"})
        self.processes = FakeProcesses(nursery)
        self.offset = 1
        self.acknowledged = 0

    @property
    def workers(self) -> Sequence[FakeWorker]:
        return self.processes.workers

    async def change(self) -> None:
        """Make one more change, and wait until it is acknowledged. Nobody uses it before that."""
        self.offset += 1
        offset, changes = self.offset, (added(self.offset),)
        await self.pool.feed.send(Prepare((changes,)))
        await self.pool.feed.send(ChangeBatch(offset, changes))
        await self.applier.snapshot.wait_until(
            lambda newest: newest is not None and newest.offset >= offset
        )
        await self.pool.applied_everywhere()
        self.acknowledged = offset


async def load(nursery: trio.Nursery, running: Running) -> None:
    """Run the pool, and let it begin with one ACL."""
    await nursery.start(running.applier.run)
    nursery.start_soon(running.pool.relay)
    nursery.start_soon(running.pool.run, [], running.processes.spawn)
    await running.pool.feed.send(ChangeBatch(1, (added(1),)))
    await running.pool.feed.send(CaughtUp(1))
    await running.applier.snapshot.wait_until(lambda newest: newest is not None)
    running.pool.begin()


async def start(nursery: trio.Nursery, count: int = 2, *, is_followed: bool = False) -> Running:
    running = Running(nursery, count, is_followed=is_followed)
    await load(nursery, running)
    with trio.fail_after(30):
        await running.pool.wait_until_complete()
    return running


@pytest.fixture
async def running(nursery: trio.Nursery) -> Running:
    return await start(nursery)


async def ends_within(seconds: float, worker: FakeWorker) -> bool:
    with trio.move_on_after(seconds):
        await worker.ended.wait()
        return True
    return False


async def test_acknowledgement_waits_for_every_worker(running: Running) -> None:
    """Afterwards, every worker decides by the change and by its settings."""
    first, second = running.workers
    second.hold()
    with trio.move_on_after(TIMEOUT_MS / 2000) as scope:
        await running.change()
    assert scope.cancelled_caught
    assert (first.offset, second.offset) == (2, 1)
    second.release()
    running.pool.apply_settings({"super.users": "User:second"})
    await running.change()
    assert [worker.offset for worker in running.workers] == [3, 3]
    assert [worker.acl_count for worker in running.workers] == [3, 3]
    assert {worker.settings["super.users"] for worker in running.workers} == {"User:second"}


async def test_pool_refuses_if_every_worker_does(running: Running) -> None:
    """One that decides is enough. Orders to stop reach all."""
    for counts, refusal in (((0, 0), ""), ((1, 0), ""), ((1, 1), NOT_WRITTEN), ((0, 1), "")):
        for worker, count in zip(running.workers, counts, strict=True):
            worker.refusing = count
        await trio.sleep(TIMEOUT_MS / 1000)
        assert running.pool.refusal == refusal
    await running.pool.feed.send(Suspend("why"))
    await trio.sleep(1)
    assert running.pool.refusal == "why"


async def test_pool_refuses_once_every_lease_has_passed(running: Running) -> None:
    """Workers may not have heard from the daemon for long, if it hung."""
    assert running.pool.refusal == ""
    running.clock_ahead_s = 1000.0
    assert running.pool.refusal == SILENT
    running.workers[0].hold()  # the other one decides again
    await trio.sleep(TIMEOUT_MS / 2000)
    assert running.pool.refusal == ""


async def test_all_workers_stop_deciding_with_the_daemon(running: Running) -> None:
    """A worker that is replaced meanwhile starts without decisions as well."""
    await running.pool.feed.send(Suspend("why"))
    await trio.sleep(TIMEOUT_MS / 1000)
    assert [worker.acl_count for worker in running.workers] == [-1, -1]
    running.workers[0].kill()
    await trio.sleep(REPLACE_SECONDS_MIN + 1)
    assert [worker.acl_count for worker in running.workers[1:]] == [-1, -1]
    assert [worker.not_ready_reason for worker in running.workers[1:]] == ["why", "why"]
    await running.pool.feed.send(Renew(math.inf))
    await trio.sleep(1)
    assert [worker.acl_count for worker in running.workers[1:]] == [-1, -1]


@pytest.mark.parametrize("resumes", [False, True])
async def test_workers_stay_undecided_after_a_misfit(nursery: trio.Nursery, resumes: bool) -> None:
    """They are replaced once, listen, and decide nothing, whatever the source sends later."""
    running = await start(nursery, is_followed=True)
    await running.pool.feed.send(ChangeBatch(2, (removed(9),)))
    await trio.sleep(TIMEOUT_MS / 1000 * 4)
    if resumes:
        await running.pool.feed.send(Suspend("why"))
        await running.pool.feed.send(Renew(math.inf))
        await running.pool.feed.send(ChangeBatch(3, (added(3),)))
    await trio.sleep(60)
    assert running.applier.snapshot.newest is None
    assert running.pool.restarts == 2
    assert running.pool.listening == 2
    assert [worker.acl_count for worker in running.workers[2:]] == [-1, -1]
    assert [worker.not_ready_reason for worker in running.workers[2:]] == [STOPPED, STOPPED]


async def test_hanging_worker_is_killed_before_updates_continue(running: Running) -> None:
    """The update waits no longer than the time-out; a new worker has the change from its start."""
    running.workers[1].hold()
    began = trio.current_time()
    await running.change()
    assert running.workers[1].ended.is_set()
    assert trio.current_time() - began <= DETECTION_SECONDS
    assert running.workers[0].offset == 2
    assert running.pool.listening == 1
    assert running.pool.is_ready, "the other workers still serve"
    await trio.sleep(1)
    assert running.pool.listening == 2
    assert (running.workers[2].offset, running.pool.restarts) == (2, 1)
    assert running.workers[2].settings == {"super.users": "User:first"}


async def test_hanging_worker_is_found_without_changes(running: Running) -> None:
    """The pool requests counters regularly; a worker that answers keeps running."""
    running.workers[0].hold()
    assert await ends_within(2 * DETECTION_SECONDS, running.workers[0])
    await trio.sleep(300)
    assert (len(running.workers), running.pool.restarts) == (3, 1)


async def test_loading_worker_is_not_waited_for(running: Running) -> None:
    """Updates go on; when it listens, it has all of them."""
    slow: list[FakeWorker] = []

    def hold(worker: FakeWorker) -> None:
        worker.hold()
        slow.append(worker)

    running.processes.on_start = hold
    running.workers[0].kill()
    await trio.sleep(10 * TIMEOUT_MS / 1000)
    began = trio.current_time()
    for _ in range(5):
        await running.change()
    assert trio.current_time() == began
    assert (slow[0].offset, len(slow)) == (-1, 1)
    slow[0].release()
    await trio.sleep(0.1)
    assert (slow[0].is_listening, slow[0].offset) == (True, 6)


async def test_worker_that_never_loads_is_replaced(running: Running) -> None:
    running.processes.on_start = FakeWorker.hold
    running.workers[0].kill()
    await trio.sleep(1)
    assert not await ends_within(worker_link.LOADING_SECONDS_MAX - 2, running.workers[2])
    assert await ends_within(4, running.workers[2])


async def test_changes_waiting_for_a_worker_are_bounded(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that reads nothing during many changes is killed; a new one starts fresh."""
    monkeypatch.setattr(worker_link, "CHANGES_WAITING_MAX", 10)
    running.processes.on_start = FakeWorker.hold
    running.workers[0].kill()
    await trio.sleep(1)
    running.processes.on_start = lambda worker: None
    loading = running.workers[2]
    for _ in range(10):
        await running.change()
    assert not loading.ended.is_set()
    await running.change()
    await wait_all_tasks_blocked()
    assert loading.ended.is_set()
    await trio.sleep(10)
    assert [worker.offset for worker in running.processes.living] == [running.offset] * 2


async def test_worker_that_ends_at_once_is_restarted_with_growing_delays(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """The same applies if no process can be started."""
    running.processes.failures = 3
    running.processes.on_start = FakeWorker.kill
    running.workers[0].kill()
    await trio.sleep(100)
    assert running.pool.restarts < 100 / REPLACE_SECONDS_MAX + 10
    assert "cannot start a process: Resource temporarily unavailable" in caplog.text
    running.processes.on_start = lambda worker: None
    await trio.sleep(REPLACE_SECONDS_MAX + 1)
    assert running.pool.listening == 2
    await trio.sleep(2 * REPLACE_SECONDS_MAX)
    running.processes.living[-1].kill()
    await trio.sleep(2 * REPLACE_SECONDS_MIN)
    assert running.pool.listening == 2, "after a long life, a worker is replaced at once"


async def test_ports_open_with_first_worker_and_are_ready_by_last(nursery: trio.Nursery) -> None:
    """Later, it is ready as long as one worker serves."""
    running = Running(nursery, 2)
    running.processes.on_start = FakeWorker.hold
    await load(nursery, running)
    await wait_all_tasks_blocked()
    assert not running.pool.opened.is_done
    running.workers[0].release()
    with trio.fail_after(1):
        await running.pool.opened
    assert not running.pool.is_ready
    running.workers[1].release()
    with trio.fail_after(1):
        await running.pool.wait_until_complete()
    assert running.pool.is_ready
    for worker in running.workers:
        worker.kill()
    await wait_all_tasks_blocked()
    assert not running.pool.is_ready


async def test_summed_counters_never_decrease(running: Running) -> None:
    for worker in running.workers:
        worker.count = 10
    await trio.sleep(2)

    def counted() -> tuple[int, int]:
        sums = running.pool.sums()
        return sums.decisions["Stream"].allowed, sums.audit.written

    assert counted() == (20, 2)
    running.processes.on_start = FakeWorker.hold
    running.workers[0].kill()
    await wait_all_tasks_blocked()
    assert counted() == (20, 2)
    assert running.pool.sums().statistics(HttpStatistics, "decision_http") == (
        HttpStatistics(connections_open=3)
    )


async def test_drained_workers_are_not_replaced(nursery: trio.Nursery) -> None:
    """Each ends by itself; one that does not is killed at the deadline."""
    running = await start(nursery, 3)
    running.workers[2].hold()
    began = trio.current_time()
    await running.pool.drain()
    assert trio.current_time() - began <= DETECTION_SECONDS + 0.5
    assert [worker.is_drained for worker in running.workers] == [True, True, False]
    await trio.sleep(100)
    assert (len(running.workers), running.processes.living) == (3, [])
    await running.change()


async def test_workers_get_the_files_in_force(running: Running) -> None:
    """At a reload, all workers get them once everything is in force; a new worker, at its start."""
    apply = running.pool.prepare_reload()
    await wait_all_tasks_blocked()
    assert [worker.files for worker in running.workers] == [[Files("first")]] * 2
    running.files = Files("second")
    apply()
    await running.pool.applied_everywhere()
    assert [worker.files[1:] for worker in running.workers] == [[Files("second")]] * 2
    running.workers[0].kill()
    await trio.sleep(1)
    assert running.workers[2].is_listening
    assert running.workers[2].files == [Files("second")]


@pytest.mark.parametrize("seed", range(10))
async def test_no_listening_worker_answers_from_before_an_acknowledgement(
    nursery: trio.Nursery, seed: int
) -> None:
    """Workers hang, end and start at random."""
    chance = random.Random(seed)
    running = await start(nursery, 3)
    listened: list[FakeWorker] = []

    def check(worker: FakeWorker) -> None:
        assert worker.offset >= running.acknowledged
        listened.append(worker)

    async def disturb() -> None:
        while True:
            await trio.sleep(chance.uniform(0, 0.3))
            worker = chance.choice(running.processes.living or [running.workers[0]])
            chance.choice((worker.kill, worker.hold, worker.release, worker.release))()

    running.processes.on_listen = check
    running.processes.on_start = lambda worker: worker.hold() if chance.random() < 0.3 else None
    nursery.start_soon(disturb)
    for _ in range(300):
        await running.change()
        for worker in running.processes.living:
            assert not worker.is_listening or worker.offset >= running.acknowledged
        await trio.sleep(chance.choice((0, 0, 0.01)))
    assert listened


async def test_lease_of_a_worker_ends_with_the_daemon_that_renews_it(running: Running) -> None:
    """It is never longer than the state's deadline, nor than what a new daemon waits for."""
    now = 1000.0
    running.pool._clock = lambda: now
    assert running.pool._new_report(7) == Report(7, now + 2 * TIMEOUT_MS / 1000)
    running.pool._lease_s = min(3600, LEASE_SECONDS_MAX)
    assert running.pool._new_report(7) == Report(7, now + LEASE_SECONDS_MAX)
    await running.pool.feed.send(Renew(now + 1))
    await wait_all_tasks_blocked()
    assert running.pool._new_report(7) == Report(7, now + 1)
