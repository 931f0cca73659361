"""A worker from the daemon's point of view: its orders, its progress, and whether it is alive.

**Invariant:** a worker is killed if it does not complete its current order in time, or if too many
changes wait for it. No changes wait for it while its state is sent. Tasks that wait for the worker
resume only once its process has ended, since until then it might answer from an old state.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import trio

from authorizerd.acl.model import ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import Published
from authorizerd.config.bounds import RECEIVE_BYTES
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.worker_changes import State, encode_changes, encode_state
from authorizerd.protocol.worker_feed import (
    Done,
    Listen,
    Order,
    Report,
    encode_message,
    report_reader,
)

CHANGES_WAITING_MAX: Final = 200_000
"""Maximum number of changes that may wait for a worker: ten times the size of one write."""
LOADING_SECONDS_MAX: Final = 120.0
REPORT_SECONDS: Final = 1.0
ENDING_SECONDS_MAX: Final = 1.0

_NONE: Final = -1


class WorkerProcess(Protocol):
    """A started process, with the interface of trio's processes."""

    @property
    def pid(self) -> int: ...

    def kill(self) -> None:
        """Kill the process; do nothing if it has ended."""

    async def wait(self) -> int:
        """Return the exit code once the process has ended."""


@dataclass(slots=True)
class _QueuedOrder:
    number: int
    frames: Iterator[bytes]
    changes: int = 0


class WorkerLink:
    """Send orders to one worker, and check that it completes them in time.

    ``offset`` and ``counters`` are the worker's log offset and counters in its last report.
    ``decides_until`` is the deadline of the last lease that the worker has confirmed.

    Args:
        timeout_ms: how long a loaded worker may take for one order.
        on_change: called when the worker starts to listen, and when it ends.
        new_report: creates the order that asks for counters and renews the worker's lease.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        process: WorkerProcess,
        *,
        timeout_ms: int,
        on_change: Callable[[], None],
        new_report: Callable[[int], Report] = Report,
    ) -> None:
        self._new_report = new_report
        self._stream = stream
        self._process = process
        self._timeout = timeout_ms / 1000
        self._on_change = on_change
        self._outbox: deque[_QueuedOrder] = deque()
        self._changes_waiting = 0
        self._arrived = trio.Event()
        self._sent: deque[_QueuedOrder] = deque()
        self._progress_time = trio.current_time()
        self._done: Published[int] = Published(0)
        self._alive = trio.CancelScope()
        self._takes_changes = False
        self._snapshot_number = self._listen_number = self._drain_number = _NONE
        self._report_number = 0
        self._ordered_until = -math.inf
        self._reason = ""
        self.last_number = 0
        self.offset = -1
        self.counters: Mapping[str, int] = {}
        self.decides_until = -math.inf
        self.is_listening = False
        self.is_draining = False

    @property
    def is_loaded(self) -> bool:
        """True once the worker has a snapshot. Updates then wait for it, even before it listens."""
        return _NONE < self._snapshot_number <= self._done.newest

    def order(self, make: Callable[[int], Order]) -> int:
        """Queue the order that ``make`` returns for the next number; return that number."""
        number = self.last_number + 1
        self._post(_QueuedOrder(number, iter((encode_message(make(number)),))))
        return number

    def order_state(
        self, newest: Callable[[], State], later: Callable[[AclSnapshot], Iterable[ChangeBatch]]
    ) -> None:
        """Queue the order to load the newest state; once done, the worker may listen.

        Args:
            later: returns the batches that were already passed on but are not in a snapshot.
        """

        def take_changes(snapshot: AclSnapshot) -> None:
            self._takes_changes = True
            for batch in later(snapshot):
                self.order_changes(batch)

        self._snapshot_number = number = self.last_number + 1
        self._post(_QueuedOrder(number, encode_state(number, newest, take_changes)))

    def order_changes(self, batch: ChangeBatch) -> None:
        """Queue the changes of a batch, or of a part of one.

        While the state is sent, this does nothing, because the changes will be part of it.
        """
        if not self._takes_changes:
            return
        number = self.last_number + 1
        self._post(_QueuedOrder(number, encode_changes(number, batch), len(batch.changes)))

    def order_report(self) -> None:
        """Ask for the counters, and renew the lease, unless such an order is pending."""
        if self._report_number <= self._done.newest:
            self._order_report_now()

    def _order_report_now(self) -> None:
        report = self._new_report(self.last_number + 1)
        self._ordered_until = report.deadline
        self._report_number = self.order(lambda _: report)

    def order_drain(self, make: Callable[[int], Order]) -> None:
        """Queue the last order. The caller limits how long it may take."""
        self.is_draining = True
        self._drain_number = self.order(make)

    def _post(self, ordered: _QueuedOrder) -> None:
        self.last_number = ordered.number
        self._changes_waiting += ordered.changes
        if self._changes_waiting > CHANGES_WAITING_MAX:
            self.kill("too many changes wait for it")
            return
        self._outbox.append(ordered)
        self._arrived.set()

    async def wait_until_done(self, number: int) -> None:
        """Return once the worker has done all orders up to ``number``, or has ended."""
        await self._done.wait_until(lambda done: done >= number)

    def kill(self, reason: str) -> None:
        """Kill the worker; ``run`` then returns the reason."""
        self._reason = reason
        self._alive.cancel()

    async def run(self) -> str:
        """Send queued orders until the worker ends or is killed; return the reason.

        The process has ended when this returns or is cancelled.
        """
        try:
            with self._alive:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send)
                    nursery.start_soon(self._watch)
                    await self._receive()
                    nursery.cancel_scope.cancel()
                with trio.move_on_after(ENDING_SECONDS_MAX):  # let it log the reason
                    await self._process.wait()
        finally:
            self.is_listening = False
            with trio.CancelScope(shield=True):
                self._process.kill()
                code = await self._process.wait()
                await self._stream.aclose()
            self._done.publish(sys.maxsize)  # wakes all tasks that wait for any of its orders
            self._on_change()
        return self._reason or f"it has ended with code {code}"

    async def _send(self) -> None:
        while True:
            while self._outbox:
                ordered = self._outbox.popleft()
                if not self._sent:
                    self._progress_time = trio.current_time()
                self._sent.append(ordered)
                try:
                    for frame in ordered.frames:
                        await self._stream.send_all(frame)
                        if not self.is_loaded:
                            # The worker reads the snapshot, which may take minutes. Nothing else
                            # shows that it is alive.
                            self._progress_time = trio.current_time()
                except trio.BrokenResourceError:
                    return  # the worker has ended; the reading task notices that next
            self._arrived = trio.Event()
            await self._arrived.wait()

    async def _receive(self) -> None:
        reader = report_reader()
        try:
            while data := await self._stream.receive_some(RECEIVE_BYTES):
                reader.receive_data(data)
                while (done := reader.next_message()) is not None:
                    self._accept_report(done)
        except trio.BrokenResourceError:
            pass
        except DecodeError as error:
            self.kill(str(error))

    def _accept_report(self, done: Done) -> None:
        while self._sent and self._sent[0].number <= done.number:
            self._changes_waiting -= self._sent.popleft().changes
        self._progress_time = trio.current_time()
        self.offset = done.offset
        if done.counters is not None:
            self.counters = done.counters
        if done.number >= self._report_number:
            self.decides_until = self._ordered_until
        was_loaded = self.is_loaded
        self._done.publish(max(done.number, self._done.newest))
        if self.is_loaded and not was_loaded:
            # From here on, updates wait for the worker, and all changes acknowledged earlier
            # precede this order in its feed. So it has every acknowledged change before it listens.
            # Its lease begins now: a lease from before the load may have expired.
            self._order_report_now()
            self._listen_number = self.order(Listen)
        if done.number == self._listen_number:
            self.is_listening = not self.is_draining
            self._on_change()

    async def _watch(self) -> None:
        """Ask for the counters regularly, and check that orders are completed in time."""
        period = min(REPORT_SECONDS, self._timeout / 4)
        while True:
            due = trio.current_time() + period
            await trio.sleep_until(due)
            self.order_report()  # a pause may have used up the lease
            if trio.current_time() > due + period:
                continue  # this process was paused, so the worker's report may still be unread
            if self._sent and self._sent[0].number != self._drain_number:
                waited = trio.current_time() - self._progress_time
                if waited > (self._timeout if self.is_loaded else LOADING_SECONDS_MAX):
                    self.kill(f"it has done nothing for {waited:.1f} s")
