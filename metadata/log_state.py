"""The whole state at the end of a log, read from its files while its owner may write to them.

**Invariant:** the state is one that the log had at the end of a batch, outside metadata
transactions, and includes everything that was durable before reading began. The memory grows with
the state, as in the daemon, and never with the length of the log.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.image.cluster import EMPTY_IMAGE, apply_cluster_changes
from authorizerd.metadata.checkpoint import read_checkpoint_time
from authorizerd.metadata.checkpoint_writer import CheckpointState
from authorizerd.metadata.copy_directory import CopyMark, read_mark
from authorizerd.metadata.directory import LogFiles
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.live_files import read_live
from authorizerd.metadata.log import DamagedCheckpoint, LogBatch, MetadataLog
from authorizerd.metadata.meta_properties import MetaProperties, read_meta_properties
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import DISK, Storage


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """The state at the end of a log.

    Attributes:
        content: the state, as a checkpoint contains it.
        next_offset: the offset after the last record, which may be one of an open transaction.
        last_epoch: the epoch of the last record.
        torn_bytes: the size of the unfinished write at the end.
        foreign_types: the record types missing in ``content``; see ``Replay``.
        damaged_checkpoints: the checkpoints that were skipped.
        properties: the cluster and node of the log, if it is known.
        mark: the mark of a copy, None for a log of its own.
    """

    content: CheckpointState
    next_offset: int
    last_epoch: int
    torn_bytes: int
    foreign_types: frozenset[int]
    damaged_checkpoints: tuple[DamagedCheckpoint, ...]
    properties: MetaProperties | None
    mark: CopyMark | None


def read_state(path: Path, storage: Storage = DISK) -> LogState:
    """Return the state of a log directory, or of a checkpoint file. Blocks on the files.

    Raises:
        MetadataLogError: there is no log, or it is damaged.
        ChangeError: its records contradict each other.
    """
    return read_live(path, lambda files: _read(path, files, storage), storage)


def _read(path: Path, files: LogFiles, storage: Storage) -> LogState:
    place = _read_place(path, storage)
    # The log's owner may be writing to it: leave its page cache alone.
    log = MetadataLog(files, storage, from_disk=False)
    reader = _StateReader(storage)
    for log_batch in log.batches():
        reader.add(log_batch)
    if _read_place(path, storage) != place:
        raise LogDirectoryError(
            f"{path}: the directory was given to another cluster while it was read: try again"
        )
    progress = log.progress
    return LogState(
        content=reader.content(),
        next_offset=progress.last_offset + 1,
        last_epoch=progress.last_epoch,
        torn_bytes=progress.torn_tail.size if progress.torn_tail else 0,
        foreign_types=reader.replay.foreign_types,
        damaged_checkpoints=tuple(progress.damaged_checkpoints),
        properties=place[0],
        mark=place[1],
    )


def _read_place(path: Path, storage: Storage) -> tuple[MetaProperties | None, CopyMark | None]:
    """Return a log directory's properties and mark. A checkpoint file has none."""
    if storage.is_file(path):
        return None, None
    return read_meta_properties(path, storage), read_mark(path, storage)


class _StateReader:
    """Apply batches, and record where the state is complete."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._builder = SnapshotBuilder()
        self._cluster = EMPTY_IMAGE
        self._end_offset = self._epoch = 0
        self._time_ms: int | None = None
        self._checkpoint: Path | None = None
        self.replay = Replay()

    def add(self, log_batch: LogBatch) -> None:
        """Apply a batch's visible changes.

        Raises:
            CorruptLogError, ChangeError: a record cannot be read, or contradicts others.
        """
        for step in self.replay.steps(log_batch):
            if step is not None:
                self._builder.apply_changes(step.changes)
                self._cluster = apply_cluster_changes(self._cluster, step.cluster_changes)
        # The records of an open transaction are not visible: use the state before it began.
        if not self.replay.is_transaction_open:
            self._end_offset = log_batch.last_offset + 1
            self._epoch = log_batch.placed.batch.leader_epoch
            self._time_ms = self._time_of(log_batch)

    def _time_of(self, log_batch: LogBatch) -> int | None:
        if not log_batch.is_checkpoint:
            return log_batch.placed.batch.max_timestamp_ms
        if log_batch.placed.path == self._checkpoint:
            return self._time_ms
        self._checkpoint = log_batch.placed.path
        return read_checkpoint_time(self._checkpoint, self._storage)

    def content(self) -> CheckpointState:
        return CheckpointState(
            end_offset=self._end_offset,
            epoch=self._epoch,
            timestamp_ms=self._time_ms or 0,
            cluster=self._cluster,
            acls=self._builder.freeze(self._end_offset - 1).acls,
        )
