"""One life of the daemon: ``DaemonServices`` and ``Daemon`` on a simulated machine and network.

Its disk, threads, clocks, sockets and signals are replaced; all else is the daemon's own. Batches
reach the applier late and in pieces.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NoReturn

import msgspec
import trio
from trio.testing import MockClock

from authorizerd.acl.model import Acl, AclFilter, ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.updates import Deleted
from authorizerd.actors.authorizer import Authorizer, RequestContext
from authorizerd.actors.completion import Completion
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer
from authorizerd.actors.errors import UpdateRefusedError
from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.actors.plugged_authorizer import PluggedAuthorizer
from authorizerd.actors.published import View
from authorizerd.actors.record_applier import Message, RecordApplier
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.actors.update_queue import UpdateQueue
from authorizerd.config.follow.settings import SourceKind
from authorizerd.daemon import components, lifespan, servers
from authorizerd.daemon.components import DaemonServices
from authorizerd.daemon.kafka.listener import KafkaListener
from authorizerd.daemon.origins import followed_cluster, own_log
from authorizerd.daemon.sources.own_log_writer import OwnLog
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.daemon.workers.pool import WorkerPool
from authorizerd.daemon.workers.query_pool import QueryPool
from authorizerd.metadata.meta_properties import MetaProperties
from authorizerd.metadata.writer import LogWriter
from tests.faults.disk import FaultDisk
from tests.faults.workload import BrokenInvariantError
from tests.model.invariants import Invariants, check
from tests.model.machine import Machine, Replacement, WatchedLog, simulated
from tests.model.network import Network
from tests.model.reference import Request
from tests.model.simulated_daemon import GATED, SimulatedDaemon, configure
from tests.model.story import LATE, ROOT, Create, Delete, Life
from tests.model.workers import Workers, is_dead
from tests.oracles.scan import Settings
from tests.support.recording_storage import PowerFailure

LIFE_S_MAX: Final = 600
"""Time limit of a life; every wait that ends at all is shorter."""
PROPERTIES: Final = MetaProperties("cluster", 1, "d")


class _WatchedQueue(UpdateQueue):
    """The queue; ``watch`` is told which updates it accepts."""

    watch: Callable[[Create | Delete, RequestContext | None, Sequence[Completion[Any]], int], None]

    def create(
        self, acls: Sequence[Acl], context: RequestContext | None = None
    ) -> Sequence[Completion[None]]:
        step, waiting = Create(tuple(acls)), self.statistics.requests_waiting
        completions = super().create(acls, context)
        self.watch(step, context, completions, waiting)
        return completions

    def delete(
        self, filters: Sequence[AclFilter], context: RequestContext | None = None
    ) -> Sequence[Completion[Deleted]]:
        step, waiting = Delete(tuple(filters)), self.statistics.requests_waiting
        completions = super().delete(filters, context)
        self.watch(step, context, completions, waiting)
        return completions


async def _never_start(_: int) -> NoReturn:
    await trio.sleep_forever()


class Process(trio.abc.Instrument):
    """A process that runs once. As a trio instrument, it checks every step of every task.

    Attributes:
        accepted: the last update that the queue has accepted of each client, by the client's id.
        settings: those of the file as they were applied, the newest last.
        workers: those that decide, or None if the daemon itself does.
        is_over: True once the daemon has ended.
    """

    source = SourceKind.LOG

    def __init__(
        self, life: Life, disk: FaultDisk, network: Network, invariants: Invariants
    ) -> None:
        self.life = life
        self.network = network
        self.invariants = invariants
        self.broken: BaseException | None = None
        self.accepted: dict[str | None, Request] = {}
        self.settings: list[Settings] = [(frozenset((ROOT,)), False)]
        self.file = configure(life, (ROOT,), False, self.source)
        self.machine = Machine(life, disk)
        self.is_over = False
        self.workers = Workers(self, self.machine.chance) if life.workers > 1 else None
        self._settled = 0
        self.started: Mapping[str, Completion[None]] = {}
        self.parts: DaemonServices
        self.gate: ListenerGate
        self.applier: RecordApplier
        self._late_inbox: trio.MemoryReceiveChannel[Message]
        self._late_feed: trio.MemorySendChannel[Message]
        self._callers: Callable[[], Any]
        self._visitors_left = trio.Event()

    @property
    def is_loaded(self) -> bool:
        return self.applier.snapshot.newest is not None

    @property
    def authorizer(self) -> DaemonAuthorizer:
        return self.parts.authorizer

    @property
    def super_users(self) -> frozenset[str]:
        return self.settings[-1][0]

    @property
    def least_offset(self) -> int:
        """The lowest offset that a new question at a decision port may see."""
        if self.workers is None:
            return self.invariants.acknowledged_offset
        return self.invariants.promised_offset

    def oldest_settings(self, *, of_workers: bool) -> int:
        """Return the number of the oldest settings that may be in force."""
        if of_workers and self.workers is not None:
            return self._settled
        return len(self.settings) - 1

    async def reload(self, super_users: tuple[str, ...], *, allow_everyone: bool) -> None:
        """Change the settings file, and reload it."""
        self.file = configure(self.life, super_users, allow_everyone, self.source)
        await self.parts.settings.reload()
        self.settings.append((frozenset(super_users), allow_everyone))
        newest = len(self.settings) - 1
        if self.parts.workers is not None:
            await self.parts.workers.applied_everywhere()
        self._settled = newest

    def _break(self, error: BaseException) -> None:
        if self.broken is None:
            self.broken = error

    def note_fault(self, error: BaseException) -> None:
        """Note an exception that ends only a connection or a worker."""
        if not is_dead():
            self._break(error)

    # What replaces the daemon's own parts.

    @contextmanager
    def on_its_machine(self) -> Iterator[None]:
        """Open the parts. Raises LogDirectoryError and OSError, as the daemon's start does."""
        with simulated(
            self.machine,
            self.life,
            self.note_fault,
            *self._replacements(),
            *(() if self.workers is None else self.workers.replacements()),
        ):
            self._prepare()
            self.parts = DaemonServices(self.file, lambda: self.file, PROPERTIES)
            yield

    def _replacements(self) -> tuple[Replacement, ...]:
        return (
            (components, "RecordApplier", self._new_applier),
            (components, "WorkerPool", partial(WorkerPool, clock=trio.current_time)),
            (components, "QueryPool", partial(QueryPool, clock=trio.current_time)),
            # Nobody in a story asks what takes long.
            (lifespan, "start_query_process", _never_start),
            (followed_cluster, "SourceStatus", partial(SourceStatus, clock=trio.current_time)),
            (servers, "KafkaListener", partial(KafkaListener, clock=trio.current_time)),
            (components, "choose_authorizer", self._choose_authorizer),
            (own_log, "OwnLog", self._new_own_log),
            (own_log, "UpdateQueue", self._new_queue),
        )

    def _prepare(self) -> None:
        """Do what the command does before it opens the parts."""

    def _new_applier(
        self,
        inbox: trio.MemoryReceiveChannel[Message],
        **options: Any,  # noqa: ANN401
    ) -> RecordApplier:
        self._late_inbox = inbox
        self._late_feed, late = trio.open_memory_channel[Message](0)
        self.applier = RecordApplier(late, clock=trio.current_time, **options)
        return self.applier

    def _choose_authorizer(
        self, name: str, standard: StandardAuthorizer, snapshot: View[AclSnapshot | None]
    ) -> Authorizer:
        if not self.life.is_plugged_in:
            return standard
        return PluggedAuthorizer(
            standard, name="Plugged", snapshot=snapshot, on_failure=self._break
        )

    def _new_own_log(self, writer: LogWriter, *, node_id: int) -> WatchedLog:
        return WatchedLog(OwnLog(writer, node_id=node_id), self.machine.disk, self.invariants)

    def _new_queue(self, *arguments: Any, **options: Any) -> _WatchedQueue:  # noqa: ANN401
        queue = _WatchedQueue(*arguments, **options)
        queue.watch = self._watch
        return queue

    def _watch(
        self,
        step: Create | Delete,
        context: RequestContext | None,
        completions: Sequence[Completion[Any]],
        waiting: int,
    ) -> None:
        if completions:
            assert context is not None
            self.accept(Request(step), context.client_id, completions, waiting)

    def accept(
        self,
        request: Request,
        client_id: str | None,
        completions: Sequence[Completion[Any]],
        waiting: int,
    ) -> None:
        """Note that the queue, with ``waiting`` requests, has accepted an update or refused it."""
        if completions[0].is_done:
            reasons = [_refusal(completion) for completion in completions]
            self.invariants.refuse(reasons, waiting >= self.life.requests_max)
            request.is_refused = True
        else:
            self.invariants.accept(request, completions)
        self.accepted[client_id] = request

    # The instrument.

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.broken is not None:
            return
        try:
            self._observe()
            if self.workers is not None:
                self.workers.observe()
        except Exception as error:  # noqa: BLE001 - trio would ignore it
            self._break(error)

    def _observe(self) -> None:
        self.invariants.watch(
            self.applier.snapshot.newest,
            self.applier.cluster.newest,
            self.parts.purgatory.timeout_ms,
            self.life.timeout_ms,
        )
        if not self.is_loaded and self.started:
            check(not self.gate.is_open(LATE), "an endpoint opens before the ACLs are loaded")

    def may_be_unready(self, since: float) -> bool:
        """Return True if a port that is open may have had no ACLs to decide by since then."""
        return False

    def check_freshness(self, offset: int, asked_at: float) -> None:
        """Check that a decision is not too old. Always true of a log of its own."""

    def check_opening(self, name: str) -> None:
        """Check that an endpoint may start to listen."""
        if name in GATED:
            check(self.is_loaded, f"{name} listens before the ACLs are loaded")
            timeout_ms = self.parts.purgatory.timeout_ms
            self.invariants.check_timeout(timeout_ms, self.life.timeout_ms)

    # The process.

    def run(self, callers: Callable[[], Any], visitors: Callable[[], Any]) -> None:
        """Run the daemon, which callers use until it is to end, and visitors also while it ends."""
        self._callers = callers
        clock = MockClock(autojump_threshold=0)
        # trio reads the time while it cancels scopes, in the order of their addresses. Each reading
        # of the machine's clock takes a random number, so the rest would be left to chance.
        clock._real_clock = float
        trio.run(self._run, visitors, clock=clock, instruments=[self])

    async def _run(self, visitors: Callable[[], Any]) -> None:
        daemon = SimulatedDaemon(self)
        with trio.fail_after(LIFE_S_MAX):
            async with trio.open_nursery() as outside:
                outside.start_soon(self._visit, visitors)
                async with trio.open_nursery() as harming:
                    if self.life.is_killed:
                        harming.start_soon(self._kill)
                    if self.workers is not None:
                        self.workers.nursery = outside
                        harming.start_soon(self.workers.play, self.life.worker_faults)
                    await daemon.run()
                    self.is_over = True
                    harming.cancel_scope.cancel()

    async def _visit(self, visitors: Callable[[], Any]) -> None:
        await visitors()
        self._visitors_left.set()

    async def serve(self) -> None:
        """Return when the daemon is to end."""
        end_s = None if self.life.is_killed else self.life.end_s
        with trio.move_on_after(float("inf") if end_s is None else end_s):
            await self._callers()
            await self._visitors_left.wait()
            await trio.sleep(self.life.rest_s)
            await self._settle()
            await self.gate.wait_until_all_open()

    async def _settle(self) -> None:
        """Return once all faults have ended, and the daemon has recovered from them."""
        if self.workers is not None:
            await self.workers.settle()

    def close(self) -> None:
        """Close the authorizers and the log, as the daemon always does."""
        self.parts.close()

    def check_end(self, *, is_crash: bool) -> None:
        """Check that nothing is left waiting and that every endpoint has finished starting."""
        if self.broken is not None:
            raise BrokenInvariantError(str(self.broken)) from self.broken
        check(self.network.ends_open == 0, f"{self.network.ends_open} streams are left open")
        if self.workers is not None:
            self.workers.check_end()
        check(self.parts.purgatory.requests_waiting == 0, "requests are left in purgatory")
        waiting = self.parts.origin.updates.statistics.requests_waiting
        check(is_crash or waiting == 0, "updates are left in the queue")
        if self.started and not is_crash:
            workers = self.parts.workers
            pending = [each for each in self.started.values() if not each.is_done]
            is_told = workers is not None and {*pending} <= {workers.opened}
            check(not pending or is_told, "a start never ends")
            was_loaded = self.applier.applied.newest is not None
            check(was_loaded or not _has_succeeded(self.started[LATE]), "started too early")

    async def _kill(self) -> None:
        assert self.life.end_s is not None
        await trio.sleep(self.life.end_s)
        raise PowerFailure

    async def relay(self) -> None:
        """Forward batches after a delay, in one or two pieces."""
        chance, stalls_s = self.machine.chance, self.life.stalls_s
        async with self._late_feed, self._late_inbox:
            async for message in self._late_inbox:
                await trio.sleep(chance.choice(stalls_s) / 10)
                if isinstance(message, ChangeBatch) and chance.random() < 0.5:
                    middle = chance.randint(0, len(message.changes))
                    first, message = _pieces(message, middle)
                    await self._late_feed.send(first)
                    await trio.sleep(chance.choice(stalls_s) / 10)
                await self._late_feed.send(message)


def _pieces(batch: ChangeBatch, middle: int) -> tuple[ChangeBatch, ChangeBatch]:
    first = ChangeBatch(batch.last_offset, batch.changes[:middle], is_end=False)
    return first, msgspec.structs.replace(batch, changes=batch.changes[middle:])


def _refusal(completion: Completion[Any]) -> str:
    """Return why this item is refused; a refusal applies to all items of a request."""
    check(completion.is_done, "a request is refused in part")
    try:
        completion.result()
    except UpdateRefusedError as error:
        return str(error)
    raise BrokenInvariantError("a request is answered before it is planned")


def _has_succeeded(completion: Completion[None]) -> bool:
    try:
        completion.result()
    except Exception:  # noqa: BLE001 - any error is a failure
        return False
    return True
