"""The source of a worker: what the daemon hands down over the feed, in order, to the RecordApplier.

Law: an order is reported as done only when the worker decides by it. When the daemon is gone the
source ends, and so does the worker: nobody would tell it of changes any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Protocol, assert_never

import trio

from authorizerd.acl.model import ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import View
from authorizerd.actors.record_applier import CaughtUp
from authorizerd.protocol.worker_feed import (
    Begin,
    Done,
    Drain,
    Files,
    Listen,
    Loaded,
    Order,
    Report,
    TakeChanges,
    TakeFiles,
    TakeSettings,
    batch_of,
    encode_message,
    order_reader,
)

RECEIVE_BYTES: Final = 64 * 1024


class Follower(Protocol):
    """What of a worker does as it is told, beside its applier."""

    def take_settings(self, texts: Mapping[str, str]) -> None:
        """Put the settings in force."""

    async def take_files(self, files: Files) -> None:
        """Put the files' content in force."""

    async def listen(self) -> None:
        """Accept connections from now on."""

    async def drain(self) -> None:
        """Accept no more, and return when what is under way is answered, and all is written."""

    def counters(self) -> dict[str, int]:
        """Return all that was counted."""


class FeedSource:
    """The worker's end of the feed."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._reader = order_reader()
        self._sending = trio.Lock()

    async def begin(self) -> Begin | None:
        """Return the first order, None where the daemon is gone before.

        Raises:
            DecodeError: the daemon speaks another language.
        """
        order = await self._next()
        if order is None:
            return None
        assert isinstance(order, Begin), "the first order is to begin"
        await self._report(Done(order.number, -1))
        return order

    async def run(
        self,
        applier: trio.MemorySendChannel[ChangeBatch | CaughtUp],
        snapshot: View[AclSnapshot | None],
        follower: Follower,
    ) -> None:
        """Do what is ordered until drained, or until the daemon is gone.

        Raises:
            DecodeError: the daemon speaks another language.
        """
        async with trio.open_nursery() as nursery:
            while (order := await self._next()) is not None:
                counters = None
                match order:
                    case TakeChanges() | Loaded():
                        if not await _apply(order, applier, snapshot):
                            continue
                    case TakeSettings(_, texts):
                        follower.take_settings(texts)
                    case TakeFiles(_, files):
                        await follower.take_files(files)
                    case Report():
                        counters = follower.counters()
                    case Listen():
                        await follower.listen()
                    case Drain():
                        nursery.start_soon(self._drain, order, snapshot, follower, nursery)
                        continue
                    case Begin():
                        raise AssertionError("a worker begins once")
                    case _:
                        assert_never(order)
                await self._report(Done(order.number, _offset(snapshot), counters))
            nursery.cancel_scope.cancel()

    async def _drain(
        self,
        order: Drain,
        snapshot: View[AclSnapshot | None],
        follower: Follower,
        nursery: trio.Nursery,
    ) -> None:
        """Drain, with changes still coming in: what is under way may be asked after them."""
        await follower.drain()
        await self._report(Done(order.number, _offset(snapshot), follower.counters()))
        nursery.cancel_scope.cancel()

    async def _next(self) -> Order | None:
        """Return the next order, None where the daemon is gone."""
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
            with suppress(trio.BrokenResourceError):  # the daemon is gone, as is read next
                await self._stream.send_all(encode_message(done))


async def _apply(
    order: TakeChanges | Loaded,
    applier: trio.MemorySendChannel[ChangeBatch | CaughtUp],
    snapshot: View[AclSnapshot | None],
) -> bool:
    """Hand on what an order brings; say whether all of it is there, and is decided by."""
    if isinstance(order, TakeChanges):
        await applier.send(batch_of(order))
        if not order.is_end:
            return False
    else:
        await applier.send(CaughtUp(order.offset))
    await snapshot.wait_until(lambda newest: newest is not None and newest.offset >= order.offset)
    return True


def _offset(snapshot: View[AclSnapshot | None]) -> int:
    return -1 if snapshot.newest is None else snapshot.newest.offset
