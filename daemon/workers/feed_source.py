"""The source of a worker: it passes the daemon's feed, in order, to the RecordApplier.

**Invariant:** an order is reported as done only once the worker's decisions use it. When the daemon
ends, the source and the worker end too, because no further changes would reach the worker. The
worker decides only until the deadline of the last ``Report``. This holds even if it is paused while
another daemon takes over and acknowledges changes that never reach this worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Protocol

import trio

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import View
from authorizerd.actors.record_applier import CaughtUp, Message, Renew, Suspend
from authorizerd.config.bounds import RECEIVE_BYTES
from authorizerd.protocol.worker_changes import SharedTexts, to_batch
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
    TakeChanges,
    TakeFiles,
    TakeSettings,
    encode_message,
    order_reader,
)

SILENT: Final = "the ACLs may be stale: this worker gets no orders from its daemon"


class WorkerActions(Protocol):
    """The part of a worker that carries out its orders, except those for its applier."""

    def apply_settings(self, texts: Mapping[str, str]) -> None:
        """Apply the settings."""

    async def apply_files(self, files: Files) -> None:
        """Apply the content of the files."""

    async def listen(self) -> None:
        """Accept connections from now on."""

    async def drain(self) -> None:
        """Stop accepting; return when all requests are answered and all audit lines written."""

    def counters(self) -> dict[str, int]:
        """Return all counters."""


class FeedSource:
    """The worker's end of the feed."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._reader = order_reader()
        self._texts: SharedTexts | None = None  # while the state is loaded
        # A drain reports while other orders are carried out, and messages must not be interleaved.
        self._sending = trio.Lock()

    async def begin(self) -> Begin | None:
        """Return the first order, or None if the daemon ends first.

        Raises:
            DecodeError: the message is invalid.
        """
        order = await self._next()
        if order is None:
            return None
        assert isinstance(order, Begin), "the first order is Begin"
        await self._report(Done(order.number, -1))
        return order

    async def run(
        self,
        applier: trio.MemorySendChannel[Message],
        applied: View[AclSnapshot | None],
        follower: WorkerActions,
    ) -> None:
        """Carry out orders until drained, or until the daemon ends.

        Args:
            applier: inbox of the applier that owns ``applied``.

        Raises:
            DecodeError: a message is invalid.
        """
        async with trio.open_nursery() as nursery:
            while (order := await self._next()) is not None:
                counters = None
                match order:
                    case TakeChanges() | Loaded():
                        # A batch is reported as done only after its last part.
                        if not await self._apply(order, applier, applied):
                            continue
                    case StopDecisions():
                        await applier.send(Suspend(order.reason))
                    case Report():
                        await applier.send(Renew(order.deadline))
                        counters = follower.counters()
                    case Drain():
                        nursery.start_soon(self._drain, order, applied, follower, nursery)
                        continue
                    case TakeSettings(_, texts):
                        follower.apply_settings(texts)
                    case TakeFiles(_, files):
                        await follower.apply_files(files)
                    case Listen():
                        await follower.listen()
                    case _:
                        begin: Begin = order
                        raise AssertionError(f"{begin}: expected the first order only")
                await self._report(Done(order.number, _offset(applied), counters))
            nursery.cancel_scope.cancel()

    async def _apply(
        self,
        order: TakeChanges | Loaded,
        applier: trio.MemorySendChannel[Message],
        applied: View[AclSnapshot | None],
    ) -> bool:
        """Pass on the changes of an order; return True once all of them are in force."""
        if isinstance(order, TakeChanges):
            await applier.send(to_batch(order, self._texts))
            if not order.is_end:
                return False
        else:
            self._texts = SharedTexts()
            await applier.send(CaughtUp(order.offset))
        await applied.wait_until(
            lambda newest: newest is not None and newest.offset >= order.offset
        )
        return True

    async def _drain(
        self,
        order: Drain,
        applied: View[AclSnapshot | None],
        follower: WorkerActions,
        nursery: trio.Nursery,
    ) -> None:
        """Drain while changes still arrive: a pending request may be waiting for one of them."""
        await follower.drain()
        await self._report(Done(order.number, _offset(applied), follower.counters()))
        nursery.cancel_scope.cancel()

    async def _next(self) -> Order | None:
        """Return the next order, None if the daemon has ended."""
        while (order := self._reader.next_message()) is None:
            try:
                data = await self._stream.receive_some(RECEIVE_BYTES)
            except trio.BrokenResourceError:
                return None
            if not data:
                return None
            self._reader.receive_data(data)
        return order

    async def _report(self, done: Done) -> None:
        async with self._sending:
            with suppress(trio.BrokenResourceError):  # the next read reports the daemon's end
                await self._stream.send_all(encode_message(done))


def _offset(applied: View[AclSnapshot | None]) -> int:
    return -1 if applied.newest is None else applied.newest.offset
