"""The copy of the listings: a log in Kafka's format, with our own records and offsets.

**Invariant:** the differences of one listing become visible together, also after a crash: those
that exceed a batch are framed as a metadata transaction. The log also keeps the quorum's high
watermark, in a config record that serves no other purpose. Without such a record, no listing was
ever accepted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import trio

from authorizerd.acl.model import Change, ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import View
from authorizerd.actors.record_applier import CaughtUp, Message, Reset
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.daemon.sources.own_log_reader import pass_on, send_parts
from authorizerd.image.changes import ClusterChange, ConfigChanged
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.metadata.log_copy import LogCopy
from authorizerd.metadata.replay import Replay
from authorizerd.protocol.records.batch import RecordBatch, decode_batch, encode_batch
from authorizerd.protocol.records.control import leader_change
from authorizerd.protocol.records.metadata import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    MetadataRecord,
    encode_value,
)

RECORDS_PER_BATCH: Final = 2048
BYTES_PER_BATCH: Final = 1024 * 1024

_EPOCH: Final = 1
_MARK_TYPE: Final = 0
"""Kafka's ConfigResource.Type.UNKNOWN, which no client can request."""
_MARK_NAME: Final = "authorizerd.source"
_MARK_KEY: Final = "high.watermark"

_logger = logging.getLogger(__name__)


class ListingCopy:
    """Read the copy at the start, then append differences.

    Args:
        log: the copy's files; they are not open yet.
        applied: the state that the applier has applied.

    Attributes:
        high_watermark: the quorum's after the last listing that changed anything, -1 if it was
            unknown, None before the first accepted listing.
    """

    def __init__(
        self,
        log: LogCopy,
        applied: View[AclSnapshot | None],
        *,
        node_id: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._log = log
        self._applied = applied
        self._node_id = node_id
        self._now_ms = now_ms
        self._is_transaction_open = False
        self.high_watermark: int | None = None

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster whose ACLs the copy has, None if it has none."""
        return self._log.cluster_id if self._log.last_offset >= 0 else None

    @property
    def last_offset(self) -> int:
        return self._log.last_offset

    def is_complete(self, offset: int) -> bool:
        """Return True if no transaction is open at ``offset``, so the state there is complete."""
        return offset <= self.last_offset and not self._is_transaction_open

    async def read(self, applier: trio.MemorySendChannel[Message]) -> None:
        """Open the copy, and pass on all that is in it. A damaged copy is replaced by a new one.

        Raises:
            LogDirectoryError: the directory is not marked as a copy.
        """
        await run_in_thread(self._log.open)
        try:
            await self._pass_on(applier)
        except MetadataLogError as error:
            await run_in_thread(self._log.begin_anew, error)
            self.high_watermark, self._is_transaction_open = None, False
            await applier.send(Reset())

    async def _pass_on(self, applier: trio.MemorySendChannel[Message]) -> None:
        replay = Replay()

        async def send(batch: ChangeBatch) -> None:
            self._note_mark(batch)
            await applier.send(batch)

        await pass_on(await run_in_thread(self._log.batches), replay, send)
        self._is_transaction_open = replay.is_transaction_open

    def _note_mark(self, batch: ChangeBatch) -> None:
        for change in batch.cluster_changes:
            if isinstance(change, ConfigChanged) and change.key == _MARK_KEY and change.value:
                self.high_watermark = int(change.value)

    async def append(
        self,
        cluster_id: str,
        changes: Sequence[Change],
        high_watermark: int,
        applier: trio.MemorySendChannel[Message],
        releases: Sequence[ClusterChange] = (),
    ) -> None:
        """Save the differences of one listing, pass them on, and wait until they are applied.

        The brokers' ``releases`` become visible with them, but are not saved: they may be wrong at
        the next start.

        After the first listing, also report that the applier has caught up.

        If the disk fails, the copy stays behind, and the daemon continues.

        Raises:
            CopyConflictError: the copy belongs to another cluster.
        """
        mark = ConfigChanged(_MARK_TYPE, _MARK_NAME, _MARK_KEY, str(high_watermark))

        def save() -> int:
            self._log.adopt_cluster(cluster_id)
            self._log.append(list(self._encode(mark, changes)))
            return self._log.last_offset

        offset = await run_in_thread(save)
        is_first = self.high_watermark is None
        self._is_transaction_open = False
        self.high_watermark = high_watermark
        await send_parts(applier, offset, changes, (mark, *releases))
        if is_first:
            await applier.send(CaughtUp(offset))
        await self._applied.wait_until(
            lambda newest: newest is not None and newest.offset >= offset
        )

    def _encode(self, mark: MetadataRecord, changes: Sequence[Change]) -> Iterator[RecordBatch]:
        offset = self._log.last_offset + 1
        if not self._log.end.epochs.last:
            first = [leader_change(self._node_id)]
            yield decode_batch(encode_batch(offset, _EPOCH, self._now_ms(), first, is_control=True))
            offset += 1
        groups = list(_group(mark, changes))
        if len(groups) > 1:
            groups = [[_BEGIN], *groups, [_END]]
        if self._is_transaction_open:
            groups.insert(0, [_ABORT])
        for values in groups:
            records = [(None, value) for value in values]
            yield decode_batch(encode_batch(offset, _EPOCH, self._now_ms(), records))
            offset += len(values)


_BEGIN: Final = encode_value(BeginTransaction("listing"))
_END: Final = encode_value(EndTransaction())
_ABORT: Final = encode_value(AbortTransaction("a crash cut it off"))


def _group(mark: MetadataRecord, changes: Sequence[Change]) -> Iterator[list[bytes]]:
    """Yield the encoded records in groups, each for one batch."""
    group, size = [encode_value(mark)], 0
    for change in changes:
        value = encode_value(change)
        if len(group) >= RECORDS_PER_BATCH or size + len(value) > BYTES_PER_BATCH:
            yield group
            group, size = [], 0
        group.append(value)
        size += len(value)
    yield group
