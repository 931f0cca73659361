"""A worker that gets many ACLs and then large changes from a daemon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.model import AclRemoved, Change, ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.record_applier import Message, RecordApplier
from authorizerd.daemon.process.gc_control import automatic_collection_off
from authorizerd.daemon.workers.feed_source import FeedSource, WorkerActions
from authorizerd.protocol.worker_changes import encode_changes
from authorizerd.protocol.worker_feed import Files, Loaded, encode_message
from tests.loop.acl_sets import ACLS, literals_of_one_principal
from tests.loop.meter import IS_CLIENT, Meter
from tests.loop.players import ENOUGH_S, Played
from tests.support.log_files import acl_id, added
from tests.support.sizes import size

COUNT: Final = ACLS // size(5, 1)
CHANGES: Final = 10_000


class _Nobody(WorkerActions):
    """A follower that ignores the daemon's orders; only ACLs and changes take effect."""

    def apply_settings(self, texts: Mapping[str, str]) -> None: ...

    async def apply_files(self, files: Files) -> None: ...

    async def listen(self) -> None: ...

    async def drain(self) -> None: ...

    def counters(self) -> dict[str, int]:
        return {}


async def play_feed(meters: list[Meter]) -> list[Played]:
    """Run a worker's source and applier; return their longest stretches."""
    ours, theirs = map(trio.SocketStream, trio.socket.socketpair())
    feed, inbox = trio.open_memory_channel[Message](16)
    applier = RecordApplier(inbox)
    source = FeedSource(theirs)
    played: list[Played] = []
    with automatic_collection_off():
        async with ours, theirs, trio.open_nursery() as nursery:
            nursery.start_soon(applier.run)
            nursery.start_soon(source.run, feed, applier.applied, _Nobody())
            IS_CLIENT.set(True)
            for name, offset, data in _orders():
                for meter in meters:
                    meter.start()
                with trio.fail_after(ENOUGH_S):
                    await ours.send_all(data)
                    await applier.snapshot.wait_until(partial(_is_of, offset))
                    await wait_all_tasks_blocked()
                for meter in meters:
                    meter.stop()
                longest = {meter.unit: meter.longest for meter in meters}
                played.append(Played(f"worker: {name}", len(data), 0, longest))
            nursery.cancel_scope.cancel()
    return played


def _is_of(offset: int, newest: AclSnapshot | None) -> bool:
    return newest is not None and newest.offset >= offset


def _orders() -> Iterator[tuple[str, int, bytes]]:
    """Yield the daemon's messages with ACLs and changes, and the offset of each."""
    acls = enumerate(literals_of_one_principal(COUNT))
    batches: list[tuple[str, list[Change]]] = [
        (f"{COUNT} ACLs", [added(number, acl) for number, acl in acls]),
        (f"{CHANGES} new ACLs", [added(COUNT + number) for number in range(CHANGES)]),
        (f"{CHANGES} removed", [AclRemoved(acl_id(COUNT + number)) for number in range(CHANGES)]),
    ]
    offset = 0
    for number, (name, changes) in enumerate(batches, 1):
        offset += len(changes)
        batch = ChangeBatch(offset, tuple(changes), is_end=number > 1)
        data = b"".join(encode_changes(number, batch))
        if number == 1:
            data += encode_message(Loaded(number, offset))
        yield name, offset, data
