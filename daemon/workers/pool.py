"""The worker pool: processes that share the decision ports.

Every worker receives every committed change, in log order.

**Invariant:** an update is acknowledged only after every listening worker has applied it, so every
worker that a client reaches afterwards uses it. A worker that hangs or dies is removed and
replaced; the others keep serving. A new worker starts from the daemon's snapshot, the differences
to newer snapshots and the changes made since. It listens only once acknowledgements also wait for
it.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, assert_never

import trio

from authorizerd.acl.model import ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.auditor import NOT_WRITTEN
from authorizerd.actors.boot_clock import Clock, boot_time
from authorizerd.actors.completion import Completion
from authorizerd.actors.published import Published, View
from authorizerd.actors.published_state import STOPPED
from authorizerd.actors.record_applier import CaughtUp, Message, Prepare, Renew, Reset, Suspend
from authorizerd.daemon.workers.counters import AUDIT_REFUSING, Sums, Totals
from authorizerd.daemon.workers.feed_source import SILENT
from authorizerd.daemon.workers.link import WorkerLink, WorkerProcess
from authorizerd.daemon.workers.predecessors import LEASE_SECONDS_MAX
from authorizerd.image.cluster import ClusterImage
from authorizerd.protocol.decisions.page_tokens import SECRET_BYTES
from authorizerd.protocol.worker_changes import State
from authorizerd.protocol.worker_feed import (
    Begin,
    Drain,
    Files,
    Report,
    StopDecisions,
    TakeFiles,
    TakeSettings,
    WorkerAddress,
)

REPLACE_SECONDS_MIN: Final = 0.1
REPLACE_SECONDS_MAX: Final = 10.0
"""Delay before a dead worker is replaced. It doubles until a worker lives longer than this."""

Spawn = Callable[[], Awaitable[tuple[trio.abc.Stream, WorkerProcess]]]
"""Start a process, and return the daemon's end of its feed. Raises OSError."""

_logger = logging.getLogger("authorizerd")


class WorkerPool:
    """Starts, feeds, watches and replaces the workers.

    Args:
        applier: inbox of the daemon's own applier.
        snapshot, image: the state that this applier has applied.
        configuration: the keys that the daemon started with, as text.
        files: returns the loaded content of the files that the configuration names.
        timeout_ms: time limit for one order to a worker; a slower worker is killed.
        deadline: how long the state may be used before the first ``Renew``.
    """

    def __init__(
        self,
        count: int,
        applier: trio.MemorySendChannel[Message],
        snapshot: View[AclSnapshot | None],
        image: View[ClusterImage],
        *,
        configuration: Mapping[str, str],
        files: Callable[[], Files],
        timeout_ms: int,
        deadline: float = math.inf,
        clock: Clock = boot_time,
    ) -> None:
        self._deadline = deadline
        self._clock = clock
        self._lease_s = min(2 * timeout_ms / 1000, LEASE_SECONDS_MAX)
        self._count = count
        self._applier = applier
        # Unbuffered: a change must not count as passed on while it waits here.
        self.feed, self._inbox = trio.open_memory_channel[Message](0)
        self._snapshot = snapshot
        self._image = image
        self._configuration = dict(configuration)
        self._files = files
        self._timeout_ms = timeout_ms
        self._page_secret = secrets.token_bytes(SECRET_BYTES)
        self._texts: dict[str, str] = {}
        self._links: list[WorkerLink] = []
        self._unapplied: deque[ChangeBatch] = deque()
        self._is_caught_up = self._has_failed = False
        self._stop_reason = ""
        self._loaded = trio.Event()
        self._changes = Published(0)
        self._is_draining = False
        self._totals = Totals()
        self.drain_timeout_ms = 0
        self.restarts = 0
        self.opened: Final = Completion[None]()  # set once a worker listens
        self.is_complete = False  # True once all workers have listened at the same time

    @property
    def listening(self) -> int:
        return sum(link.is_listening for link in self._links)

    @property
    def offset(self) -> int:
        """The lowest log offset that a worker's decisions use; -1 if none listens."""
        return min((link.offset for link in self._links if link.is_listening), default=-1)

    @property
    def is_ready(self) -> bool:
        """True once all workers have listened, as long as one still does."""
        return self.is_complete and self.listening > 0

    @property
    def refusal(self) -> str:
        """Why all workers refuse all decisions; empty if any worker decides."""
        if self._stop_reason:
            return self._stop_reason
        listening = [link for link in self._links if link.is_listening]
        if listening and self._clock() >= max(link.decides_until for link in listening):
            return SILENT
        if listening and all(link.counters.get(AUDIT_REFUSING) for link in listening):
            return NOT_WRITTEN
        return ""

    def sums(self) -> Sums:
        """Return the last reported counts of all workers, including dead ones."""
        return self._totals.sum(link.counters for link in self._links)

    async def wait_until_complete(self) -> None:
        await self._changes.wait_until(lambda _: self.is_complete)

    async def relay(self) -> None:
        """Pass on the feed's messages to the workers and to the daemon's own applier."""
        async with self._inbox, self._applier:
            async for message in self._inbox:
                match message:
                    case CaughtUp():
                        self._is_caught_up = True
                    case ChangeBatch():
                        if self._is_caught_up and not self._has_failed:
                            self._pass_on(message)
                    case Renew(deadline):
                        self._deadline = deadline
                        for link in self._links:
                            link.order_report()
                    case Suspend(reason):
                        self._stop_decisions(reason)
                    case Prepare():  # workers get only durable changes
                        pass
                    case Reset():  # nothing has been passed on yet
                        pass
                    case _:
                        assert_never(message)
                await self._applier.send(message)

    def fail(self) -> None:
        """Stop decisions in all workers, because the daemon could not apply a change.

        Workers that were sent this change cannot complete it, so they are replaced. New workers
        must not get it: they start from the state before it, without making decisions.
        """
        self._has_failed = True
        self._unapplied.clear()
        self._stop_decisions(STOPPED)

    def _stop_decisions(self, reason: str) -> None:
        """Stop decisions in all current and future workers."""
        self._stop_reason = STOPPED if self._has_failed else reason
        for link in self._links:
            link.order(lambda number: StopDecisions(number, self._stop_reason))

    def _new_report(self, number: int) -> Report:
        """Return the order that renews a worker's lease, up to the state's deadline."""
        return Report(number, min(self._deadline, self._clock() + self._lease_s))

    def _pass_on(self, batch: ChangeBatch) -> None:
        for link in self._links:
            link.order_changes(batch)
        # The applier has yet to apply this batch. A worker that joins now gets the older snapshot,
        # and then this batch from ``_unapplied``.
        self._unapplied.append(batch)
        newest = self._snapshot.newest
        while newest is not None and self._unapplied[0].last_offset <= newest.offset:
            self._unapplied.popleft()

    async def applied_everywhere(self) -> None:
        """Return once every worker, listening or about to listen, has applied what was passed on.

        A worker that is too slow for that has been killed by then.
        """
        waited_for = [(link, link.last_number) for link in self._links if link.is_loaded]
        for link, number in waited_for:
            await link.wait_until_done(number)

    def apply_settings(self, texts: Mapping[str, str]) -> None:
        """Apply these settings in every current and future worker."""
        self._texts = dict(texts)
        for link in self._links:
            link.order(lambda number: TakeSettings(number, self._texts))

    def prepare_reload(self) -> Callable[[], None]:
        """Return a function that sends every worker the files' currently loaded content."""

        def apply() -> None:
            for link in self._links:
                self._order_files(link)

        return apply

    def _order_files(self, link: WorkerLink) -> None:
        link.order(lambda number: TakeFiles(number, self._files()))

    def begin(self) -> None:
        """Note that the daemon has loaded, and that its settings are in force."""
        self._loaded.set()

    async def run(
        self,
        places: Sequence[WorkerAddress],
        spawn: Spawn,
        audit_turns: int | None = None,
        questions: int | None = None,
    ) -> None:
        """Keep the workers running until drained; cancellation kills them.

        Args:
            audit_turns: the descriptor of the lock with which workers take turns to write audit
                lines.
            questions: the descriptor of the socket with which workers ask the query process.
        """

        def new_begin(number: int) -> Begin:
            files = self._files()
            return Begin(
                number,
                self._configuration,
                tuple(places),
                files.audit_secret,
                audit_turns,
                files.stores,
                self._page_secret,
                questions,
            )

        async with trio.open_nursery() as nursery:
            for number in range(1, self._count + 1):
                nursery.start_soon(self._keep_running, number, new_begin, spawn)

    async def _keep_running(
        self, number: int, new_begin: Callable[[int], Begin], spawn: Spawn
    ) -> None:
        delay = REPLACE_SECONDS_MIN
        while not self._is_draining:
            started = trio.current_time()
            reason = await self._run_one(number, new_begin, spawn)
            if self._is_draining:
                return
            if trio.current_time() - started > REPLACE_SECONDS_MAX:
                delay = REPLACE_SECONDS_MIN
            self.restarts += 1
            _logger.error("%s is replaced in %.1f s: %s", self._name(number), delay, reason)
            await self._rest(delay)
            delay = min(2 * delay, REPLACE_SECONDS_MAX)

    def _name(self, number: int) -> str:
        return f"worker {number}"

    async def _rest(self, seconds: float) -> None:
        """Wait while no process runs."""
        await trio.sleep(seconds)

    async def _run_one(self, number: int, new_begin: Callable[[int], Begin], spawn: Spawn) -> str:
        """Run one process to its end; return why it ended."""
        try:
            stream, process = await spawn()
        except OSError as error:
            return f"cannot start a process: {error.strerror or error}"
        _logger.info("%s: process %d", self._name(number), process.pid)
        link = WorkerLink(
            stream,
            process,
            timeout_ms=self._timeout_ms,
            on_change=self._notice_change,
            new_report=self._new_report,
        )
        link.order(new_begin)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._join, link)
                reason = await link.run()
                nursery.cancel_scope.cancel()
        finally:
            if link in self._links:
                self._links.remove(link)
            self._totals.retire(link.counters)
            self._notice_change()
        return reason

    async def _join(self, link: WorkerLink) -> None:
        """Send a new worker the whole state, and from then on every change, without a gap."""
        await self._loaded.wait()
        link.order(lambda number: TakeSettings(number, self._texts))
        self._order_files(link)  # the files may have changed since the worker started
        link.order_state(self._newest_state, self._find_unapplied)
        if self._stop_reason:
            link.order(lambda number: StopDecisions(number, self._stop_reason))
        self._links.append(link)
        if self._is_draining:  # ``drain`` has already sent this order to the others
            link.order_drain(Drain)

    def _newest_state(self) -> State:
        snapshot = self._snapshot.newest
        assert snapshot is not None, "loaded"
        return snapshot, self._image.newest

    def _find_unapplied(self, snapshot: AclSnapshot) -> list[ChangeBatch]:
        """Return the batches that were passed on but are not in the snapshot."""
        return [batch for batch in self._unapplied if batch.last_offset > snapshot.offset]

    def _notice_change(self) -> None:
        listening = self.listening
        if listening and not self.opened.is_done:
            self.opened.succeed(None)
        if listening == self._count and not self.is_complete:
            self.is_complete = True
            self._report_complete()
        self._changes.publish(self._changes.newest + 1)

    def _report_complete(self) -> None:
        _logger.info("all %d workers listen", self._count)

    async def drain(self) -> None:
        """Let every worker answer its requests and end; start no new workers."""
        self._is_draining = True
        for link in self._links:
            link.order_drain(Drain)
        with trio.move_on_after((self.drain_timeout_ms + self._timeout_ms) / 1000):
            await self._changes.wait_until(lambda _: not self._links)
        for link in self._links:
            link.kill("it did not end in time")
