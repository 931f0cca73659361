"""One life of the daemon: its actors and its log, assembled as in ``daemon.components``.

The story's clients replace its ports. The work of threads runs in the loop, after a virtual delay
that stands for a slow disk. Batches reach the applier late and in pieces.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import cache
from random import Random
from typing import Any, Final, TypeVar

import trio
from msgspec.structs import replace

from authorizerd.acl.model import ChangeBatch
from authorizerd.actors.authorizer import ServerInfo
from authorizerd.actors.completion import Completion
from authorizerd.actors.decider import DecidingAuthorizer
from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.actors.plugged_authorizer import PluggedAuthorizer
from authorizerd.actors.purgatory import Purgatory
from authorizerd.actors.record_applier import CaughtUp, RecordApplier
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.actors.update_queue import UpdateQueue
from authorizerd.config.configuration import Configuration, parse
from authorizerd.daemon.settings import Settings
from authorizerd.daemon.sources.own_log_reader import LocalLogSource
from authorizerd.daemon.sources.own_log_writer import Checkpointer, CheckpointPolicy, OwnLog
from authorizerd.metadata.log import MetadataLog
from tests.faults.disk import FaultDisk
from tests.faults.workload import BrokenInvariantError
from tests.model.invariants import Invariants, check
from tests.model.story import EARLY, LATE, ROOT, Life
from tests.model.watched_log import LOG_DIR, WatchedLog, new_writer
from tests.support.recording_storage import PowerFailure

BATCHES_WAITING_MAX: Final = 16
LIFE_S_MAX: Final = 600
"""Time limit of a life; every wait that ends at all is shorter."""

T = TypeVar("T")


@cache
def _configuration(timeout_ms: int, super_users: tuple[str, ...], everyone: bool) -> Configuration:
    text = (
        f"node.id=1\nlog.dirs=/log\nsuper.users={';'.join(super_users)}\n"
        f"allow.everyone.if.no.acl.found={str(everyone).lower()}\n"
        f"authorizerd.update.timeout.ms={timeout_ms}\n"
    )
    return parse(text, source="server.properties")


class Process(trio.abc.Instrument):
    """A process that runs once. As a trio instrument, it checks every step of every task.

    ``super_users`` and ``allow_everyone`` are the applied settings of the file.
    """

    def __init__(self, life: Life, disk: FaultDisk, invariants: Invariants) -> None:
        """Open the log. Raises LogDirectoryError and OSError, as the daemon's start does."""
        self.life = life
        self.invariants = invariants
        self.broken: BaseException | None = None
        self.super_users: frozenset[str] = frozenset((ROOT,))
        self.allow_everyone = False
        self.file = _configuration(life.timeout_ms, (ROOT,), False)
        self._disk = disk
        self._chance: Final = Random(life.seed)
        self._writer = new_writer(disk, life.segment_bytes)
        own = WatchedLog(OwnLog(self._writer, node_id=1), disk, invariants)
        self._source = LocalLogSource(MetadataLog.open(LOG_DIR, disk), own)
        self._feed, self._late_inbox = trio.open_memory_channel[ChangeBatch | CaughtUp](
            BATCHES_WAITING_MAX
        )
        self._late_feed, inbox = trio.open_memory_channel[ChangeBatch | CaughtUp](0)
        self.applier = RecordApplier(inbox)
        ids = itertools.count(self._chance.getrandbits(64))
        self.updates = UpdateQueue(
            own,
            self._feed,
            self.applier.snapshot,
            self.applier.cluster,
            requests_max=life.requests_max,
            new_id=lambda: next(ids).to_bytes(16, "big"),
            acls_changed_at=lambda: self.applier.acls_changed_at,
        )
        self.standard = StandardAuthorizer(self.applier.snapshot, self.updates)
        self.authorizer: DecidingAuthorizer = self.standard
        if life.is_plugged_in:
            self.authorizer = PluggedAuthorizer(
                self.standard,
                name="Plugged",
                snapshot=self.applier.snapshot,
                on_failure=self._break,
            )
        self.authorizer.configure(self.file.file_values)
        self.purgatory = Purgatory(life.timeout_ms)
        self.settings = Settings(
            self.file,
            self.applier.cluster,
            self.authorizer,
            standard=self.standard,
            read=lambda: self.file,
        )
        self.checkpointer = self._new_checkpointer()
        self.started: dict[str, Completion[None]] = {}

    @property
    def is_loaded(self) -> bool:
        return self.applier.snapshot.newest is not None

    def write_file(self, super_users: tuple[str, ...], *, allow_everyone: bool) -> None:
        """Change the settings file; the next reload reads it."""
        self.file = _configuration(self.life.timeout_ms, super_users, allow_everyone)

    def _break(self, error: BaseException) -> None:
        if self.broken is None:
            self.broken = error

    # The instrument.

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.broken is not None:
            return
        try:
            self.invariants.watch(
                self.applier.snapshot.newest,
                self.applier.cluster.newest,
                self.purgatory.timeout_ms,
                self.life.timeout_ms,
            )
            if not self.is_loaded and LATE in self.started:
                check(not self.gate.is_open(LATE), "an endpoint opens before the ACLs are loaded")
        except Exception as error:  # noqa: BLE001 - trio would ignore it
            self._break(error)

    # The process.

    async def run(self, serve: Callable[[], Any]) -> None:
        """Run the daemon's actors, with ``serve`` in place of its servers."""
        with trio.fail_after(LIFE_S_MAX):
            self.started = dict(
                self.authorizer.start(
                    ServerInfo(
                        cluster_id="cluster",
                        node_id=1,
                        endpoints={EARLY: "early:1", LATE: "late:2"},
                        early_start_listeners=frozenset((EARLY,)),
                    )
                )
            )
            check(self.started[EARLY].is_done, "an early endpoint does not open at once")
            self.gate = ListenerGate(self.started)
            self.settings.follow(self._follow)
            async with trio.open_nursery() as actors:
                if self.life.is_killed:
                    actors.start_soon(self._kill)
                actors.start_soon(self._relay)
                await actors.start(self.applier.run)
                await actors.start(self.gate.run)
                actors.start_soon(self.checkpointer.run)
                async with trio.open_nursery() as writing:
                    await writing.start(self.updates.run)
                    async with trio.open_nursery() as serving:
                        serving.start_soon(self._load)
                        with trio.move_on_after(self._patience_s()):
                            await serve()
                            await trio.sleep(self.life.rest_s)
                            await self.gate.wait_until_all_open()
                        serving.cancel_scope.cancel()
                    self.updates.close()
                    if not self.is_loaded:
                        writing.cancel_scope.cancel()
                actors.cancel_scope.cancel()

    def close(self) -> None:
        """Close the authorizers and the log, as the daemon always does."""
        for authorizer in dict.fromkeys((self.authorizer, self.standard)):
            authorizer.close()
        with suppress(OSError):
            self._writer.close()

    def check_end(self, *, is_crash: bool) -> None:
        """Check that nothing is left waiting and that every endpoint has finished starting."""
        if self.broken is not None:
            raise BrokenInvariantError(str(self.broken)) from self.broken
        check(self.purgatory.requests_waiting == 0, "requests are left in purgatory")
        check(self.purgatory.items_waiting == 0, "items are left in purgatory")
        check(
            is_crash or self.updates.statistics.requests_waiting == 0,
            "updates are left in the queue",
        )
        if self.started and not is_crash:
            check(all(each.is_done for each in self.started.values()), "a start never ends")
            check(self.is_loaded or not _has_succeeded(self.started[LATE]), "started too early")

    def _patience_s(self) -> float:
        end_s = None if self.life.is_killed else self.life.end_s
        return float("inf") if end_s is None else end_s

    def _follow(self, settings: Any) -> None:  # noqa: ANN401
        self.purgatory.timeout_ms = settings.update_timeout_ms

    async def _kill(self) -> None:
        assert self.life.end_s is not None
        await trio.sleep(self.life.end_s)
        raise PowerFailure

    async def _load(self) -> None:
        try:
            await self._source.run(self._feed.clone())
        except Exception as error:
            self.standard.complete_initial_load(error)
            raise
        await self.applier.snapshot.wait_until(lambda newest: newest is not None)
        self.settings.refresh()
        self.invariants.check_timeout(self.purgatory.timeout_ms, self.life.timeout_ms)
        self.standard.complete_initial_load()
        await self.gate.wait_until_all_open()

    async def _relay(self) -> None:
        """Forward batches after a delay, in one or two pieces."""
        async with self._late_feed, self._late_inbox:
            async for message in self._late_inbox:
                await trio.sleep(self._chance.choice(self.life.stalls_s) / 10)
                if isinstance(message, ChangeBatch) and self._chance.random() < 0.5:
                    middle = self._chance.randint(0, len(message.changes))
                    first, message = _pieces(message, middle)
                    await self._late_feed.send(first)
                    await trio.sleep(self._chance.choice(self.life.stalls_s) / 10)
                await self._late_feed.send(message)

    async def run_sync(
        self,
        function: Callable[..., T],
        *arguments: object,
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter | None = None,
    ) -> T:
        """Replace ``trio.to_thread.run_sync``: run the function in the loop, after a delay.

        A cancelled call still completes, unless it may be abandoned. Then it is cancelled before or
        after the function runs, never within it.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        async with limiter or nullcontext():
            with trio.CancelScope(shield=not abandon_on_cancel):
                await trio.sleep(self._chance.choice(self.life.stalls_s))
                try:
                    result = function(*arguments)
                except Exception:
                    await trio.sleep(self._chance.choice(self.life.stalls_s))
                    raise
                await trio.sleep(self._chance.choice(self.life.stalls_s))
        return result

    def _new_checkpointer(self) -> Checkpointer:
        return Checkpointer(
            LOG_DIR,
            self._writer,
            self.applier.snapshot,
            self.applier.cluster,
            CheckpointPolicy(
                bytes_between=self.life.checkpoint_bytes,
                interval_ms=0,
                retention_bytes=self.life.retention_bytes,
                retention_ms=-1,  # otherwise it would depend on the clock
            ),
            replay=self._source.replay,
            storage=self._disk,
            bytes_read=lambda: self._source.bytes_since_checkpoint,
        )


def _pieces(batch: ChangeBatch, middle: int) -> tuple[ChangeBatch, ChangeBatch]:
    first = ChangeBatch(batch.last_offset, batch.changes[:middle], is_end=False)
    return first, replace(batch, changes=batch.changes[middle:])


def _has_succeeded(completion: Completion[None]) -> bool:
    try:
        completion.result()
    except Exception:  # noqa: BLE001 - any error is a failure
        return False
    return True
