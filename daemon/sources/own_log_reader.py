"""The source that reads the daemon's own log and passes each batch, in order, to the RecordApplier.

**Invariant:** everything passed on is below the high watermark, which is the log's end with a
single writer. A worker thread reads the files; the loop decodes them in slices.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

import trio

from authorizerd.acl.model import Change, ChangeBatch
from authorizerd.actors.record_applier import CaughtUp, Message
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.daemon.sources.own_log_writer import OwnLog
from authorizerd.image.changes import ClusterChange
from authorizerd.metadata.log import LogBatch, MetadataLog
from authorizerd.metadata.replay import Replay

BATCHES_PER_READ: Final = 64
BYTES_PER_READ: Final = 1024 * 1024
"""Small, because the thread's work on it (CRC, headers) and freeing it both block the loop briefly.
A single batch may be larger: a checkpoint's batches have up to 8 MiB.
"""
CHANGES_PER_PART: Final = 256
"""The number of differences that are sent at once."""

T = TypeVar("T")

_logger = logging.getLogger(__name__)


class LocalLogSource:
    """Read a log once, from its newest checkpoint to its end, then start to write it.

    Args:
        written: None if the log is only read.

    Attributes:
        progress: how much has been read.
        replay: the replay of the log, which knows its features and its record types.
    """

    def __init__(self, log: MetadataLog, written: OwnLog | None = None) -> None:
        self._log = log
        self._written = written
        self.progress: Final = log.progress
        self.replay: Final = Replay()

    status = None

    @property
    def high_watermark(self) -> int:
        """The last offset read or written so far, -1 before the first."""
        written = -1 if self._written is None else self._written.last_offset
        return max(self.progress.last_offset, written)

    @property
    def metadata_version(self) -> int:
        """The level of the feature metadata.version, -1 if the log has not set it yet."""
        return self.replay.metadata_version

    async def run(self, applier: trio.MemorySendChannel[ChangeBatch | CaughtUp]) -> None:
        """Pass on the whole log, then a marker of its end; close ``applier`` in any case.

        Raises:
            MetadataLogError: the log is unreadable or damaged; nothing after the damage is passed
                on.
            OSError: the log cannot be written.
        """
        async with applier:
            await pass_on(self._log.batches(), self.replay, applier.send)
            for damaged in self.progress.damaged_checkpoints:
                _logger.warning(
                    "a damaged checkpoint is skipped; the log still has its content: %s",
                    damaged.error,
                )
            if self._written is not None:
                await applier.send(await self._written.begin(self.progress, self.replay))
            await applier.send(CaughtUp(self.high_watermark))


async def pass_on(
    batches: Iterator[LogBatch],
    replay: Replay,
    send: Callable[[ChangeBatch], Awaitable[None]],
) -> None:
    """Decode batches of files, and send their visible changes. A thread reads the files.

    Raises:
        MetadataLogError: a file is damaged. Nothing after the damage was sent.
    """
    while read := await run_in_thread(read_some, batches):
        for log_batch in read:
            for step in replay.steps(log_batch):
                if step is None:
                    await trio.lowlevel.checkpoint()
                else:
                    await send(step)


def read_some(batches: Iterator[LogBatch]) -> list[LogBatch]:
    """Return the next batches, empty at the end. Blocks on the files only briefly."""
    read: list[LogBatch] = []
    size = 0
    for log_batch in islice(batches, BATCHES_PER_READ):
        read.append(log_batch)
        size += len(log_batch.placed.batch.data)
        if size >= BYTES_PER_READ:
            break
    return read


async def send_parts(
    applier: trio.MemorySendChannel[Message],
    last_offset: int,
    changes: Sequence[Change],
    cluster_changes: Sequence[ClusterChange],
) -> None:
    """Send changes in parts, so that they become visible together."""
    for part in _parts(changes):
        await applier.send(ChangeBatch(last_offset, part, is_end=False))
    for cluster_part in _parts(cluster_changes):
        await applier.send(ChangeBatch(last_offset, (), False, cluster_part))
    await applier.send(ChangeBatch(last_offset))


def _parts(changes: Sequence[T]) -> Iterator[tuple[T, ...]]:
    for start in range(0, len(changes), CHANGES_PER_PART):
        yield tuple(changes[start : start + CHANGES_PER_PART])
