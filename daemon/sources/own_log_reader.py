"""The source that reads the daemon's own log and passes each batch, in order, to the RecordApplier.

**Invariant:** everything passed on is at or below the high water mark, which for a log with one
writer is its end. A worker thread reads the files; the loop decodes them in slices.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Final, Protocol

import trio

from authorizerd.acl.model import ChangeBatch
from authorizerd.actors.record_applier import CaughtUp
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.metadata.batch_file import TornTail
from authorizerd.metadata.log import LogBatch, MetadataLog, Progress
from authorizerd.metadata.replay import Replay

BATCHES_PER_READ: Final = 64
BYTES_PER_READ: Final = 1024 * 1024
"""Small, because the thread's work on it (CRC, headers) and freeing it both block the loop briefly.
A single batch may be larger: a checkpoint's batches have up to 8 MiB.
"""


_logger = logging.getLogger(__name__)


class WrittenLog(Protocol):
    """The writer of a log that has been read."""

    @property
    def last_offset(self) -> int:
        """The last offset that is durable, -1 before ``begin``."""

    async def begin(self, progress: Progress, replay: Replay) -> ChangeBatch:
        """Start writing where reading ended, and return a batch to pass on as well."""


class LocalLogSource:
    """Read a log once, from its newest checkpoint to its end, then start to write it.

    Args:
        written: None if the log is only read.
    """

    def __init__(self, log: MetadataLog, written: WrittenLog | None = None) -> None:
        self._log = log
        self._written = written
        self._replay = Replay()

    status = None

    @property
    def high_watermark(self) -> int:
        """The last offset read or written so far, -1 before the first."""
        written = -1 if self._written is None else self._written.last_offset
        return max(self._log.progress.last_offset, written)

    @property
    def checkpoint_offset(self) -> int:
        """The last offset of the checkpoint that was read, -1 without one."""
        return self._log.progress.checkpoint_offset

    @property
    def bytes_since_checkpoint(self) -> int:
        """The size of what was read after the checkpoint."""
        return self._log.progress.bytes_since_checkpoint

    @property
    def replay(self) -> Replay:
        """The replay of the log, which knows its features and its record types."""
        return self._replay

    @property
    def metadata_version(self) -> int:
        """The level of the feature metadata.version, -1 if the log has not set it so far."""
        return self._replay.metadata_version

    @property
    def torn_tail(self) -> TornTail | None:
        """The unfinished write at the end of the log, known once ``run`` has ended."""
        return self._log.progress.torn_tail

    async def run(self, applier: trio.MemorySendChannel[ChangeBatch | CaughtUp]) -> None:
        """Pass on the whole log, then a marker of its end; close ``applier`` in any case.

        Raises:
            MetadataLogError: the log is unreadable or damaged; nothing after the damage is passed
                on.
            OSError: the log cannot be written.
        """
        async with applier:
            batches = self._log.batches()
            while read := await run_in_thread(read_some, batches):
                for log_batch in read:
                    for step in self._replay.steps(log_batch):
                        if step is None:
                            await trio.lowlevel.checkpoint()
                        else:
                            await applier.send(step)
            for damaged in self._log.progress.damaged_checkpoints:
                _logger.warning(
                    "a damaged checkpoint is skipped; the log still has its content: %s",
                    damaged.error,
                )
            if self._written is not None:
                await applier.send(await self._written.begin(self._log.progress, self._replay))
            await applier.send(CaughtUp(self.high_watermark))


def read_some(batches: Iterator[LogBatch]) -> list[LogBatch]:
    """Return the next batches, empty at the end. Blocks on the files for a short time only."""
    read: list[LogBatch] = []
    size = 0
    for log_batch in islice(batches, BATCHES_PER_READ):
        read.append(log_batch)
        size += len(log_batch.placed.batch.data)
        if size >= BYTES_PER_READ:
            break
    return read
