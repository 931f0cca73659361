"""The workers of a story's daemon: real ones, each with a feed that may be late, cut or stopped.

Only their processes are replaced: a worker is a task of the daemon's loop, on a host of its own.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from random import Random
from typing import TYPE_CHECKING, Any, Final

import trio

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.record_applier import Message, RecordApplier
from authorizerd.daemon import lifespan, worker
from authorizerd.daemon.workers.link import LOADING_SECONDS_MAX, WorkerProcess
from authorizerd.protocol.worker_feed import WorkerAddress
from tests.model.invariants import check
from tests.model.machine import STALLS_S, Replacement
from tests.model.network import Host, MemoryListener, MemoryStream, Network
from tests.model.story import WorkerFault

if TYPE_CHECKING:
    from tests.model.process import Process

CONVERGES_S_MAX: Final = LOADING_SECONDS_MAX + 60.0
"""Time until all workers listen, with every change, once the last fault has begun.

By then, the daemon has replaced those that are stopped for longer.
"""
_STALLS_S: Final = (0.0, 0.0, 0.01)
"""Duration of a call in a worker's thread. Workers use no disk."""

_current: Final[ContextVar[SimulatedWorker | None]] = ContextVar("current", default=None)


class SimulatedWorker(WorkerProcess):
    """A worker and its process; ``seen`` is the state that it had when it was last checked."""

    def __init__(
        self, pid: int, feed: MemoryStream, host: Host, on_fault: Callable[[BaseException], None]
    ) -> None:
        self.host: Final = host
        self.applier: RecordApplier | None = None
        self.seen: AclSnapshot | None = None
        self._pid = pid
        self._feed = feed
        self._on_fault = on_fault
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def is_alive(self) -> bool:
        return not self.host.is_dead

    def kill(self) -> None:
        self.host.kill()
        self._scope.cancel()
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        return 0

    async def run(self) -> None:
        """Run the worker until it ends or is killed."""
        _current.set(self)
        STALLS_S.set(_STALLS_S)
        try:
            with self._scope:
                await worker.follow_feed(self._feed)
        except Exception as error:  # noqa: BLE001 - any error is a fault
            self._on_fault(error)
        finally:
            self.kill()


def is_dead() -> bool:
    """Return True in a task of a worker that was killed: what it does changes nothing."""
    current = _current.get()
    return current is not None and current.host.is_dead


def _new_applier(
    inbox: trio.MemoryReceiveChannel[Message],
    **options: Any,  # noqa: ANN401
) -> RecordApplier:
    current = _current.get()
    assert current is not None, "a worker creates its parts"
    current.applier = RecordApplier(inbox, clock=trio.current_time, **options)
    return current.applier


class Workers:
    """The workers of one daemon; ``counts`` says what has happened to them."""

    def __init__(self, process: Process, chance: Random) -> None:
        life = process.life
        self.counts: Final[Counter[str]] = Counter()
        self.feeds: Final = Network(chance, life.feed_delays_s, splits=life.splits)
        self._process = process
        self._chance = chance
        self._cuts = iter(life.feed_cuts)
        self._failures = 0
        self._started: list[SimulatedWorker] = []
        self._played = trio.Event()
        self.nursery: trio.Nursery

    @property
    def _living(self) -> Sequence[SimulatedWorker]:
        return [each for each in self._started if each.is_alive]

    @property
    def are_unready(self) -> bool:
        """True if a worker that listens has no ACLs to decide by."""
        return any(
            each.host.is_listening and each.applier and each.applier.snapshot.newest is None
            for each in self._living
        )

    def replacements(self) -> tuple[Replacement, ...]:
        """Return what replaces the processes, and a worker's own parts."""
        return (
            (lifespan, "start_worker", self._start),
            (worker, "RecordApplier", _new_applier),
            (worker, "automatic_collection_off", nullcontext),
            (worker, "listen_at", self._listen_at),
        )

    async def _start(self, inherited: Sequence[int]) -> tuple[MemoryStream, SimulatedWorker]:
        await trio.sleep(self._chance.choice((0.0, 0.1, 0.5)))
        if self._failures:
            self._failures -= 1
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        host = Host()
        ours, theirs = self.feeds.new_pair(next(self._cuts, None), host)
        started = SimulatedWorker(len(self._started) + 1, theirs, host, self._process.note_fault)
        self.counts["workers replaced"] += len(self._started) >= self._process.life.workers
        self._started.append(started)
        self.nursery.start_soon(started.run)
        return ours, started

    async def _listen_at(self, place: WorkerAddress) -> list[MemoryListener]:
        current = _current.get()
        assert current is not None
        assert current.applier is not None
        check(current.applier.applied.newest is not None, "a worker listens before it has ACLs")
        await trio.lowlevel.checkpoint()
        if not current.is_alive:
            return []
        return [self._process.network.listen(place.name, current.host)]

    # Faults.

    async def play(self, faults: Sequence[WorkerFault]) -> None:
        """Let these faults happen, one after the other."""
        for fault in faults:
            await trio.sleep(fault.delay_s)
            living = self._living
            if fault.kind == "refuse":
                self._failures += 1
            elif living:
                victim = living[fault.number % len(living)]
                self.counts[f"worker: {fault.kind}"] += 1
                if fault.kind == "kill":
                    victim.kill()
                else:
                    victim.host.stop(fault.seconds)
        self._played.set()

    async def settle(self) -> None:
        """Check that all workers have everything soon after the last fault."""
        await self._played.wait()
        with trio.move_on_after(CONVERGES_S_MAX) as converging:
            while not self._are_current():  # noqa: ASYNC110 - no event says that they are
                await trio.sleep(0.5)
        check(not converging.cancelled_caught, f"no full pool after {CONVERGES_S_MAX:g} s")

    def _are_current(self) -> bool:
        newest = self._process.applier.applied.newest
        pool = self._process.parts.workers
        assert pool is not None
        return (
            newest is not None
            and pool.listening == self._process.life.workers
            and pool.offset >= newest.offset
        )

    # Checks.

    def observe(self) -> None:
        """Check the state of each worker; called after each step of any task."""
        invariants = self._process.invariants
        for each in self._started:
            if each.applier is None or not each.is_alive:
                continue
            newest = each.applier.applied.newest
            if newest is not each.seen:
                check(newest is not None, "a worker's state is unloaded")
                assert newest is not None
                older = -1 if each.seen is None else each.seen.offset
                check(newest.offset > older, "a worker's offset goes back")
                invariants.check_copy(newest)
                self.counts["snapshots of workers checked"] += 1
                each.seen = newest
            if each.host.is_listening:
                offset = -1 if newest is None else newest.offset
                check(
                    offset >= invariants.promised_offset,
                    "an update is acknowledged before a worker has applied it",
                )

    def check_end(self) -> None:
        """Check that no process and no feed is left."""
        check(not self._living, f"{len(self._living)} workers are left")
        check(self.feeds.ends_open == 0, f"{self.feeds.ends_open} feeds are left open")
