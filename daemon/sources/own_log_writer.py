"""The log that the daemon owns: one thread appends to it, another writes checkpoints.

**Invariant:** the loop never waits for a disk. Appends run one after the other in a worker thread.
Another worker thread writes checkpoints from an immutable snapshot, so that they stall neither
decisions nor appends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import trio

from authorizerd.acl.model import ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.errors import UpdateRefusedError
from authorizerd.actors.published import View
from authorizerd.actors.update_queue import LogChange
from authorizerd.daemon.process.thread_switching import Pace
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.daemon.process.utc_time import now_ms
from authorizerd.image.changes import FeatureLevel
from authorizerd.image.cluster import ClusterImage
from authorizerd.metadata.checkpoint_writer import CheckpointState, retire, write_checkpoint
from authorizerd.metadata.directory import find_files
from authorizerd.metadata.errors import LogNotWrittenError, MetadataLogError
from authorizerd.metadata.log import Progress
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import Storage
from authorizerd.metadata.writer import LogWriter

CHECK_SECONDS: Final = 1.0
"""Interval at which the daemon checks whether a checkpoint is due."""

RETRY_SECONDS: Final = 60.0
"""Delay after a failed checkpoint: each try may fill the disk that the log needs."""

_logger = logging.getLogger(__name__)


class OwnLog:
    """The ``ChangeLog`` of the UpdateQueue; call ``begin`` first, once the log has been read.

    Attributes:
        last_offset: the last offset that is durable, -1 before ``begin``.
    """

    def __init__(self, writer: LogWriter, *, node_id: int) -> None:
        self._writer = writer
        self._node_id = node_id
        self._limiter = trio.CapacityLimiter(1)
        self.last_offset = -1

    async def begin(self, progress: Progress, replay: Replay) -> ChangeBatch:
        """Begin an epoch; return the log's features as a batch.

        Raises:
            OSError, LogNotWrittenError: the log cannot be written.
        """

        def start() -> None:
            self._writer.start(progress, replay, node_id=self._node_id)

        await run_in_thread(start, limiter=self._limiter)
        features = tuple(FeatureLevel(*feature) for feature in self._writer.features.items())
        self.last_offset = self._writer.last_offset
        return ChangeBatch(self.last_offset, cluster_changes=features)

    async def append(
        self,
        batches: Sequence[tuple[LogChange, ...]],
        before_sync: Callable[[], None] = lambda: None,
    ) -> int:
        """Write each item as one batch, sync once, and return the last offset.

        The loop calls ``before_sync`` once everything is written, while the thread syncs it.

        A cancelled append still finishes, so the log is never closed while a thread writes to it.

        Raises:
            UpdateRefusedError: nothing was written, for example because no descriptor was free.
            OSError: it is unknown which of the batches are durable.
        """
        begin = partial(trio.lowlevel.current_trio_token().run_sync_soon, before_sync)
        append = self._writer.append
        try:
            written = await run_in_thread(append, batches, begin, limiter=self._limiter)
        except LogNotWrittenError as error:
            _logger.error("updates are refused, and can be tried again: %s", error)
            raise UpdateRefusedError(f"{error}; nothing was changed, try again") from error
        self.last_offset = written
        return written


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPolicy:
    """When a checkpoint is due, and how many files are kept. -1 and 0 mean the same as in the
    settings."""

    bytes_between: int
    interval_ms: int
    retention_bytes: int
    retention_ms: int


@dataclass(slots=True)
class CheckpointStatistics:
    """``last_end_offset`` is -1 before the first checkpoint; failed ones are retried later."""

    written: int = 0
    failures: int = 0
    last_end_offset: int = -1


class Checkpointer:
    """Write checkpoints when they are due, and retire the files that they replace.

    No checkpoint is written if the log holds record types that the daemon does not store (such as
    a broker's registration), because the checkpoint would lose them.

    Args:
        cluster: the cluster's image, published together with ``snapshot``.
        bytes_read: returns how many bytes of log were read at the start, without checkpoints.
    """

    def __init__(
        self,
        log_dir: Path,
        writer: LogWriter,
        snapshot: View[AclSnapshot | None],
        cluster: View[ClusterImage],
        policy: CheckpointPolicy,
        *,
        replay: Replay,
        storage: Storage,
        bytes_read: Callable[[], int],
    ) -> None:
        self._log_dir = log_dir
        self._writer = writer
        self._snapshot = snapshot
        self._cluster = cluster
        self._policy = policy
        self._replay = replay
        self._storage = storage
        self._bytes_read = bytes_read
        self._bytes_at_checkpoint = 0
        self._is_retirement_due = False
        self.statistics: Final = CheckpointStatistics()

    async def run(self) -> None:
        """Check every second whether a checkpoint is due; retry a failed one after a minute."""
        await self._snapshot.wait_until(lambda newest: newest is not None)
        foreign = self._replay.foreign_types
        if foreign:
            _logger.warning(
                "no checkpoints are written: the log holds records of types %s, which they would "
                "lose",
                ", ".join(map(str, sorted(foreign))),
            )
            return
        last = trio.current_time()
        # Bytes read at the start count too, or a daemon that often restarts writes no checkpoint.
        self._bytes_at_checkpoint = -self._bytes_read()
        while True:
            await trio.sleep(CHECK_SECONDS)
            failures = self.statistics.failures
            if self._is_retirement_due:
                await self._retire()
            if self._is_due(last) and self._has_changed():
                await self._write(self._state())
                last = trio.current_time()
            if self.statistics.failures > failures:
                await trio.sleep(RETRY_SECONDS)

    def _has_changed(self) -> bool:
        newest = self._snapshot.newest
        # The end offset is exclusive, so an equal offset is already a new record.
        return newest is not None and newest.offset >= self.statistics.last_end_offset

    def _state(self) -> CheckpointState:
        """Return the content of a checkpoint.

        It refers to the snapshot's ACLs, not to the snapshot itself: freeing a snapshot late blocks
        the loop, the longer the more has changed.
        """
        snapshot = self._snapshot.newest
        assert snapshot is not None, "a loaded snapshot never becomes None"
        return CheckpointState(
            end_offset=snapshot.offset + 1,
            epoch=self._writer.epoch,
            timestamp_ms=self._writer.last_timestamp_ms,
            cluster=self._cluster.newest,
            acls=snapshot.acls,
        )

    def _is_due(self, last: float) -> bool:
        bytes_since = self._writer.bytes_written - self._bytes_at_checkpoint
        if bytes_since >= self._policy.bytes_between:
            return True
        interval_s = self._policy.interval_ms / 1000
        return bool(interval_s) and trio.current_time() - last >= interval_s

    async def _write(self, state: CheckpointState) -> None:
        bytes_written = self._writer.bytes_written  # appends continue meanwhile
        try:
            path = await run_in_thread(
                write_checkpoint, self._log_dir, state, self._storage, Pace().rest_if_due
            )
            self._bytes_at_checkpoint = bytes_written
            self.statistics.written += 1
            self.statistics.last_end_offset = state.end_offset
            _logger.info("checkpoint written: %s, %d ACLs", path.name, len(state.acls))
        except OSError as error:
            self.statistics.failures += 1
            _logger.error("checkpoint at offset %d: %s", state.end_offset, error)
        else:
            await self._retire()

    async def _retire(self) -> None:
        # Set this first, so that a failed retirement is retried.
        self._is_retirement_due = True
        try:
            await run_in_thread(self._retire_files)
            self._is_retirement_due = False
        except (OSError, MetadataLogError) as error:
            self.statistics.failures += 1
            _logger.error("superseded log files cannot be removed: %s", error)

    def _retire_files(self) -> None:
        bytes_max, keep_ms = self._policy.retention_bytes, self._policy.retention_ms
        retire(
            find_files(self._log_dir, self._storage),
            bytes_max=bytes_max if bytes_max >= 0 else 2**63,
            oldest_ms=now_ms() - keep_ms if keep_ms >= 0 else 0,
            storage=self._storage,
        )
