"""A copy of a followed cluster's metadata log, so that a restart needs only the end of the log.

**Invariant:** the files hold a state that the cluster has committed, or are recognized as
unusable. Only committed batches are written, so nothing is ever truncated except what a crash left
unfinished. A snapshot replaces older files only once it is verified and durable.

Appends are not synced: whatever a crash loses is fetched again. If the disk fails or is full, the
copy stays behind: what follows is not saved until a later checkpoint of the newest state makes the
copy complete again. The daemon goes on meanwhile.

A checkpoint of ours has only the records that the daemon keeps (``KEPT_RECORDS``). For a copy that
is enough, as nobody else reads it; a version of the daemon that keeps more begins a new copy.

Source: KIP-595, KIP-630.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final

from authorizerd.metadata.batch_file import PlacedBatch
from authorizerd.metadata.checkpoint_writer import (
    CheckpointState,
    removed_on_error,
    write_part,
)
from authorizerd.metadata.copy_directory import MARK_NAME, SET_ASIDE_NAME, CopyMark, read_mark
from authorizerd.metadata.copy_files import CopyFiles, part_of
from authorizerd.metadata.copy_recovery import CopyContent, check_follows
from authorizerd.metadata.copy_snapshot import SnapshotFile
from authorizerd.metadata.directory import Checkpoint, checkpoint_name
from authorizerd.metadata.errors import CopyConflictError, LogDirectoryError, MetadataLogError
from authorizerd.metadata.log import LogBatch, MetadataLog
from authorizerd.metadata.storage import Storage
from authorizerd.protocol.records.batch import BatchMark, RecordBatch
from authorizerd.protocol.records.voters import Voters

RETRY_SECONDS: Final = 60.0
"""The time after which the copy is tried again if the disk was full or failed."""

_logger = logging.getLogger(__name__)


class LogCopy:
    """One copy. The caller holds the directory's lock. Every call blocks on the disk.

    Calls may come from several threads. Only ``write_checkpoint`` runs beside other calls.

    Args:
        log_dir: the directory, which is marked as a copy.
        segment_bytes_max: the size above which the log continues in a new file.
        clock: the seconds of a clock that never goes back.
    """

    def __init__(
        self,
        log_dir: Path,
        *,
        node_id: int,
        storage: Storage,
        segment_bytes_max: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log_dir: Final = log_dir
        self._storage: Final = storage
        self._files: Final = CopyFiles(
            log_dir, storage, node_id=node_id, segment_bytes_max=segment_bytes_max
        )
        self._clock: Final = clock
        self._lock: Final = Lock()
        self._content = CopyContent()
        self._cluster_id: str | None = None
        self._snapshot: SnapshotFile | None = None
        self._fault = ""
        self._retry_at = 0.0
        self._is_unknown = False
        self._replacements = 0
        self._begun, self._begun_replacements = 0, -1
        self._content_before = CopyContent()

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster whose log this is; empty if unknown, None before any contact."""
        return self._cluster_id

    @property
    def last_offset(self) -> int:
        """The offset up to which everything was passed to the copy, -1 before the first."""
        return self._content.next_offset - 1

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 before the first."""
        return self._content.epochs.last

    @property
    def last_batch(self) -> BatchMark | None:
        """What identifies the last batch, None if the copy has only a checkpoint, or nothing."""
        return self._content.last

    @property
    def last_timestamp_ms(self) -> int:
        """The time of the last batch, in milliseconds since 1970."""
        return self._content.last_timestamp_ms

    @property
    def voters(self) -> Voters | None:
        """The cluster's voters by the newest record that names them, None if there is none."""
        return self._content.voters

    @property
    def fault(self) -> str:
        """Why the files lack the newest records, empty if they have them."""
        return self._fault

    def find_epoch(self, offset: int) -> int:
        """Return the epoch of the record at ``offset``, which no older checkpoint covers."""
        return self._content.epochs.find(offset)

    # Reading.

    def open(self) -> None:
        """Read the whole copy, and cut what a crash left unfinished.

        A copy that cannot be trusted is set aside, and a new one begins, with a warning. If the
        disk fails, the copy is empty and has a ``fault``.

        Raises:
            LogDirectoryError: the directory is not marked as a copy.
        """
        mark = read_mark(self._log_dir, self._storage)
        if mark is None:
            raise LogDirectoryError(f"{self._log_dir}: expected {MARK_NAME}, which marks a copy")
        with self._lock:
            try:
                try:
                    self._content, self._cluster_id = self._files.recover(mark)
                except MetadataLogError as error:
                    if isinstance(error.__cause__, OSError):
                        raise error.__cause__ from error
                    self._cluster_id = self._begin_anew(mark, error)
            except OSError as error:
                self._content, self._cluster_id, self._is_unknown = CopyContent(), None, True
                self._suspend(error)

    def batches(self) -> Iterator[LogBatch]:
        """Yield the batches that ``open`` found: a checkpoint's, then the log's.

        Raises:
            MetadataLogError: a file was damaged since.
        """
        if self._content.is_empty:
            return iter(())
        return MetadataLog.open(self._log_dir, self._storage).batches()

    def adopt_cluster(self, cluster_id: str) -> None:
        """Tie an empty copy to the cluster; check that any other copy belongs to it.

        Args:
            cluster_id: empty if it is not known. An id that is learnt later is adopted then.

        Raises:
            CopyConflictError: the copy is of another cluster.
        """
        with self._lock:
            if self._cluster_id and not cluster_id:
                return
            is_tied = self._cluster_id and not self._content.is_empty
            if is_tied and self._cluster_id != cluster_id:
                raise CopyConflictError(
                    f"{self._log_dir} is a copy of cluster {self._cluster_id}, but the servers "
                    f"belong to cluster {cluster_id}: correct the servers, or stop the daemon and "
                    "run `authorizerd reset-copy` to follow the other cluster"
                )
            if self._cluster_id != cluster_id:
                self._cluster_id = cluster_id
                if not self._fault:
                    with self._suspending():
                        self._files.write_properties(cluster_id)

    # Writing.

    def append(self, batches: Sequence[RecordBatch]) -> None:
        """Add committed batches. If the disk fails, only their offsets are kept.

        Raises:
            CorruptLogError: a batch does not follow the one before it. Nothing was added.
        """
        with self._lock:
            self._check_begun()
            next_offset, epoch = self._content.next_offset, self._content.epochs.last
            for batch in batches:
                placed = PlacedBatch(batch, self._files.directory, 0)
                check_follows(placed, next_offset, epoch)
                next_offset, epoch = batch.last_offset + 1, batch.leader_epoch
            if batches and (not self._fault or self._files.is_resuming):
                with self._suspending():
                    pieces = [batch.data for batch in batches]
                    self._files.write(pieces, self._content.next_offset)
            for batch in batches:
                self._content.follow(batch)

    def clear(self) -> None:
        """Remove the copy, so that a new one can begin with any cluster.

        Raises:
            OSError: a file could not be removed.
        """
        with self._lock:
            self._abandon_snapshot()
            self._content, self._cluster_id = CopyContent(), None
            self._is_unknown = True  # until all is removed: nothing may be added to old files
            with self._suspending(reraise=True):
                self._replacements += 1
                self._files.forget()
                self._files.clear()
            self._fault, self._is_unknown = "", False

    def close(self) -> None:
        """Close the files. Later calls are not allowed."""
        with self._lock, suppress(OSError):
            self._abandon_snapshot()
            self._files.close(is_synced=True)

    # Snapshots of the cluster.

    def begin_snapshot(self, end_offset: int, epoch: int) -> None:
        """Begin to fetch a snapshot; abandon another that was begun.

        Raises:
            CopyConflictError: it ends at or below the end of the copy, although the copy has only
                committed records.
        """
        with self._lock:
            self._check_begun()
            self._abandon_snapshot()
            end = self._content.next_offset
            if end and end_offset <= end:
                raise CopyConflictError(
                    f"the cluster offers a snapshot that ends at offset {end_offset}, but "
                    f"{self._log_dir} already has all records up to offset {end - 1}"
                )
            path = self._files.directory / checkpoint_name(end_offset, epoch)
            target = Checkpoint(end_offset, epoch, path)
            self._snapshot = SnapshotFile(target, self._files, self._storage)
            if not self._fault:
                with self._suspending():
                    self._snapshot.use_disk()

    def write_snapshot(self, data: bytes) -> None:
        """Add the next piece of the snapshot.

        Raises:
            OSError: the disk failed, or the snapshot is too large for the memory. Begin again: the
                next attempt does without the disk.
        """
        with self._lock:
            assert self._snapshot is not None, "begun"
            with self._suspending(reraise=True):
                self._snapshot.append(data)

    def finish_snapshot(self) -> Iterator[LogBatch]:
        """Replace the copy by the snapshot, and yield the snapshot's batches.

        Raises:
            CorruptLogError: the snapshot is incomplete or damaged, and was abandoned.
            LogDirectoryError, OSError: the disk failed. Begin again, as above.
        """
        with self._lock:
            snapshot = self._snapshot
            assert snapshot is not None, "begun"
            try:
                with self._suspending(reraise=True):
                    last_timestamp_ms = snapshot.install()
            except BaseException:
                self._abandon_snapshot()
                raise
            self._snapshot = None
            if snapshot.is_on_disk:
                self._fault = ""
            content = CopyContent(snapshot.target.end_offset, last_timestamp_ms, is_empty=False)
            content.epochs.begin(content.next_offset - 1, snapshot.target.epoch)
            content.voters = snapshot.voters or self._content.voters
            self._content_before, self._content = self._content, content
            self._replacements += 1
            return snapshot.batches()

    def revoke_snapshot(self, error: MetadataLogError) -> None:
        """Go on from before the last snapshot, without the disk: it could not be read back."""
        with self._lock:
            self._content, self._is_unknown = self._content_before, True
            self._suspend(error)

    def abandon_snapshot(self) -> None:
        """Remove the snapshot that was begun, if any."""
        with self._lock:
            self._abandon_snapshot()

    # Checkpoints of our own.

    def is_checkpoint_due(self, bytes_max: int) -> bool:
        """Return True if a checkpoint should replace the log, or make it complete again.

        Args:
            bytes_max: the size above which the log is replaced.
        """
        if self._snapshot is not None or self._cluster_id is None:
            return False
        if self._fault:
            return self._clock() >= self._retry_at
        return self._files.log_bytes > bytes_max

    def begin_checkpoint(self) -> int:
        """Continue the log in a new file, and return the offset at which it begins.

        A checkpoint that ends there or later replaces all older files.

        Raises:
            OSError: the disk failed.
        """
        with self._lock:
            self._check_begun()
            with self._suspending(reraise=True):
                base = self._content.next_offset
                if self._fault:
                    assert self._cluster_id is not None, "adopted"
                    self._files.resume(
                        base, is_unknown=self._is_unknown, cluster_id=self._cluster_id
                    )
                    self._is_unknown = False
                else:
                    self._files.begin_segment(base)
            self._begun, self._begun_replacements = base, self._replacements
            return base

    def write_checkpoint(
        self, state: CheckpointState, rest: Callable[[], None] = lambda: None
    ) -> bool:
        """Replace everything below the state's end by a checkpoint. Other calls go on meanwhile.

        Args:
            state: the state at a batch's end, outside metadata transactions. It must not end
                before the offset that ``begin_checkpoint`` returned.
            rest: called after each batch.

        Returns: False if the copy was cleared, replaced or suspended meanwhile.

        Raises:
            OSError: the disk failed. The files are as before.
        """
        assert state.end_offset >= self._begun, "records would be missing between the two"
        path = self._files.directory / checkpoint_name(state.end_offset, state.epoch)
        try:
            self._files.remove_part(path)
            with removed_on_error(part_of(path), self._storage):
                write_part(part_of(path), state, self._storage, rest)
                with self._lock:
                    if self._replacements != self._begun_replacements:
                        self._files.remove_part(path)
                        return False
                    self._files.install(path)
                    self._complete(state.end_offset)
        except OSError as error:
            with self._lock:
                if self._replacements == self._begun_replacements and self._fault:
                    self._suspend(error)
            raise
        return True

    def _complete(self, end_offset: int) -> None:
        self._files.complete(end_offset)
        self._content.epochs.forget_before(end_offset - 1)
        self._content.is_empty = False
        if self._fault:
            self._fault = ""
            _logger.info("%s: the copy is complete again", self._log_dir)

    def _abandon_snapshot(self) -> None:
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            snapshot.discard()

    def _begin_anew(self, mark: CopyMark, reason: MetadataLogError) -> str | None:
        _logger.warning(
            "the copy of the cluster's metadata cannot be trusted, and a new one begins; its files "
            "are kept in %s: %s", self._log_dir / SET_ASIDE_NAME, reason,
        )  # fmt: skip
        return self._files.begin_anew(mark)

    def _check_begun(self) -> None:
        assert self._cluster_id is not None, "the cluster is adopted first"

    @contextmanager
    def _suspending(self, *, reraise: bool = False) -> Iterator[None]:
        """Go on without the copy if the disk fails in the block."""
        try:
            yield
        except (OSError, LogDirectoryError) as error:
            self._suspend(error)
            if reraise:
                raise

    def _suspend(self, error: Exception) -> None:
        self._files.forget()
        self._replacements += 1
        self._retry_at = self._clock() + RETRY_SECONDS
        self._fault = str(error)
        _logger.warning(
            "%s: the copy of the cluster's metadata cannot be written, and lacks what follows; it "
            "is tried again in %d s: %s", self._log_dir, RETRY_SECONDS, error,
        )  # fmt: skip
