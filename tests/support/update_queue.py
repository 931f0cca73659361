"""An UpdateQueue and its RecordApplier over a log in memory."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.model import Acl
from authorizerd.actors.completion import Completion
from authorizerd.actors.errors import UpdateRefusedError
from authorizerd.actors.record_applier import Message, RecordApplier
from authorizerd.actors.update_queue import LogChange, UpdateQueue


class MemoryLog:
    """A log whose appends wait while ``held``, and fail once ``error`` is set."""

    def __init__(self) -> None:
        self.appends: list[list[tuple[LogChange, ...]]] = []
        self.last_offset = 0
        self.released = trio.Event()
        self.released.set()
        self.error: OSError | UpdateRefusedError | None = None

    def hold(self) -> None:
        self.released = trio.Event()

    async def append(
        self, batches: Sequence[tuple[LogChange, ...]], before_sync: Callable[[], None]
    ) -> int:
        if not isinstance(self.error, UpdateRefusedError):
            before_sync()
        with trio.CancelScope(shield=True):
            await self.released.wait()
        if self.error is not None:
            raise self.error
        self.appends.append(list(batches))
        self.last_offset += sum(map(len, batches))
        return self.last_offset

    @property
    def batches(self) -> list[tuple[LogChange, ...]]:
        return list(itertools.chain.from_iterable(self.appends))


class Running:
    """An update queue and its applier. ``acls`` are the published ACLs."""

    def __init__(self, requests_max: int, **settings: Any) -> None:  # noqa: ANN401 - of the queue
        self.log = MemoryLog()
        self.feed, inbox = trio.open_memory_channel[Message](1000)
        self.applier = RecordApplier(inbox)
        ids = itertools.count(1)
        self.queue = UpdateQueue(
            self.log,
            self.feed,
            self.applier.snapshot,
            self.applier.cluster,
            requests_max=requests_max,
            new_id=lambda: next(ids).to_bytes(16, "big"),
            acls_changed_at=lambda: self.applier.acls_changed_at,
            **settings,
        )

    @property
    def acls(self) -> set[Acl]:
        newest = self.applier.snapshot.newest
        return set() if newest is None else set(newest.acls.values())

    async def start(self, nursery: trio.Nursery, *messages: Message) -> None:
        """Run both, and apply ``messages``."""
        await nursery.start(self.applier.run)
        await nursery.start(self.queue.run)
        await send(self.feed, *messages)


async def send(feed: trio.MemorySendChannel[Message], *messages: Message) -> None:
    """Send messages, and wait until all are applied."""
    for message in messages:
        await feed.send(message)
    await wait_all_tasks_blocked()


async def results(completions: Sequence[Completion[Any]]) -> list[Any]:
    """Return each item's value or error."""
    ended: list[Any] = []
    with trio.fail_after(30):
        for completion in completions:
            try:
                ended.append(await completion)
            except Exception as error:  # noqa: BLE001 - the error is the result
                ended.append(error)
    return ended
