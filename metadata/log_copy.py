"""A copy of a followed cluster's metadata log, so that a restart needs only the end of the log.

**Invariant:** the files hold a state that the cluster has committed, or are recognized as
unusable. Only committed batches are written, so nothing is ever truncated except what a crash left
unfinished. A snapshot replaces older files only once it is verified and durable.

Appends are not synced: whatever a crash loses is fetched again. If the disk fails or is full, the
copy stays behind until a later checkpoint of the newest state makes it complete again. Meanwhile
the daemon continues. While that checkpoint is written, it holds later batches in memory.

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
from threading import RLock
from typing import Final

from authorizerd.metadata.checkpoint_writer import (
    CheckpointState,
    part_of,
    removed_on_error,
    write_part,
)
from authorizerd.metadata.copy_directory import SET_ASIDE_NAME
from authorizerd.metadata.copy_files import CopyFiles
from authorizerd.metadata.copy_snapshot import MemoryFile, SnapshotFile
from authorizerd.metadata.directory import Checkpoint, checkpoint_name
from authorizerd.metadata.errors import CopyConflictError, LogDirectoryError, MetadataLogError
from authorizerd.metadata.log import LogBatch, MetadataLog
from authorizerd.metadata.log_end import LogEnd
from authorizerd.metadata.storage import Storage
from authorizerd.protocol.records.batch import RecordBatch

RETRY_SECONDS: Final = 60.0
"""The time after which writing the copy is retried if the disk was full or failed."""

HELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Maximum size of the batches held while a checkpoint makes the copy complete again."""

_logger = logging.getLogger(__name__)


class LogCopy:
    """One copy. The caller holds the directory's lock. Every call blocks on the disk.

    Calls may come from several threads. Only ``write_checkpoint`` runs beside other calls.

    Args:
        log_dir: the directory, which is marked as a copy.
        segment_bytes_max: the size above which the log continues in a new file.
        clock: the seconds of a clock that never goes back.

    Attributes:
        cluster_id: the id of the cluster whose log this is; empty if it is not known, None before
            any contact.
        end: the end of everything that was passed to the copy, also while it cannot be written.
        fault: why the files lack the newest records, empty if they have them.
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
        self._lock: Final = RLock()
        self.end = LogEnd()
        self.cluster_id: str | None = None
        self._snapshot: SnapshotFile | None = None
        self._held: list[bytes] | None = None
        self.fault = ""
        self._retry_at = 0.0
        self._is_unknown = False
        self._replacements = 0
        self._begun, self._begun_replacements = 0, -1

    @property
    def last_offset(self) -> int:
        """The offset up to which everything was passed to the copy, -1 before the first."""
        return self.end.next_offset - 1

    def open(self) -> None:
        """Read the whole copy, and cut off an unfinished write.

        A copy that cannot be trusted is set aside, and a new one begins, with a warning. If the
        disk fails, the copy is empty and has a ``fault``.

        Raises:
            LogDirectoryError: the directory is not marked as a copy.
        """
        with self._lock:
            self._files.read_mark()
            try:
                self.end, self.cluster_id = self._files.recover()
            except OSError as error:
                self._lose(error)
            except MetadataLogError as error:
                if isinstance(error.__cause__, OSError):
                    self._lose(error.__cause__)
                else:
                    self.begin_anew(error)

    def begin_anew(self, reason: MetadataLogError) -> None:
        """Set the files aside, with a warning. A new copy may be of any cluster."""
        _logger.warning(
            "the copy of the cluster's metadata cannot be trusted, and a new one begins; its files "
            "are kept in %s: %s", self._log_dir / SET_ASIDE_NAME, reason,
        )  # fmt: skip
        with self._lock:
            self.abandon_snapshot()
            self._replacements += 1
            self.end, self._held = LogEnd(), None
            try:
                self.cluster_id = self._files.begin_anew()
                self.fault, self._is_unknown = "", False
            except OSError as error:
                self._lose(error)

    def _lose(self, error: OSError) -> None:
        """Continue without the files, whose content is not known. They are set aside later."""
        self.end, self.cluster_id, self._is_unknown = LogEnd(), None, True
        self._suspend(error)

    def batches(self) -> Iterator[LogBatch]:
        """Yield the batches that ``open`` found. Raise MetadataLogError if a file was damaged."""
        if self.end.is_empty:
            return iter(())
        return MetadataLog.open(self._log_dir, self._storage).batches()

    def adopt_cluster(self, cluster_id: str) -> None:
        """Tie an empty copy to the cluster; check that any other copy belongs to it.

        Args:
            cluster_id: empty if it is not known. An id that is learned later is adopted then.

        Raises:
            CopyConflictError: the copy is of another cluster.
        """
        with self._lock:
            if self.cluster_id and not cluster_id:
                return
            is_tied = self.cluster_id and not self.end.is_empty
            if is_tied and self.cluster_id != cluster_id:
                raise CopyConflictError(
                    f"{self._log_dir} is a copy of cluster {self.cluster_id}, but the servers "
                    f"belong to cluster {cluster_id}: correct the servers, or stop the daemon and "
                    "run `authorizerd reset-copy` to follow the other cluster"
                )
            if self.cluster_id != cluster_id:
                self.cluster_id = cluster_id
                if not self.fault:
                    with self._suspending():
                        self._files.write_properties(cluster_id)

    def append(self, batches: Sequence[RecordBatch]) -> None:
        """Add committed batches. If the disk fails, only their offsets are kept.

        Raises:
            CorruptLogError: a batch does not follow the one before it. Nothing was added.
        """
        with self._lock:
            assert self.cluster_id is not None, "the cluster is adopted first"
            self.end.check(batches, self._files.directory)
            pieces = [batch.data for batch in batches]
            if self._held is not None:
                self._held += pieces
                if sum(map(len, self._held)) > HELD_BYTES_MAX:
                    self._suspend(OSError(f"over {HELD_BYTES_MAX} bytes wait for a checkpoint"))
            elif batches and not self.fault:
                with self._suspending():
                    self._files.segments.append(pieces, self.end.next_offset)
            for batch in batches:
                self.end.follow(batch)

    def close(self) -> None:
        """Close the files. Later calls are not allowed."""
        with self._lock, suppress(OSError):
            self.abandon_snapshot()
            self._files.segments.sync()
            self._files.segments.close()

    # Snapshots of the cluster.

    def begin_snapshot(self, end_offset: int, epoch: int) -> None:
        """Begin to fetch a snapshot; abandon any earlier one.

        Raises:
            CopyConflictError: it ends at or below the end of the copy, although the copy has only
                committed records.
        """
        with self._lock:
            assert self.cluster_id is not None, "the cluster is adopted first"
            self.abandon_snapshot()
            end = self.end.next_offset
            if end and end_offset <= end:
                raise CopyConflictError(
                    f"the cluster offers a snapshot that ends at offset {end_offset}, but "
                    f"{self._log_dir} already has all records up to offset {end - 1}"
                )
            path = self._files.directory / checkpoint_name(end_offset, epoch)
            target = Checkpoint(end_offset, epoch, path)
            if not self.fault:
                with self._suspending():
                    self._snapshot = SnapshotFile(target, self._storage)
            if self._snapshot is None:
                self._snapshot = SnapshotFile(target, MemoryFile())

    @property
    def snapshot(self) -> SnapshotFile:
        """The snapshot being fetched. If it fails, call ``abandon_snapshot``."""
        assert self._snapshot is not None, "begun"
        return self._snapshot

    def install_snapshot(self) -> None:
        """Replace the copy by the verified snapshot."""
        with self._lock:
            snapshot, self._snapshot = self.snapshot, None
            self._replacements += 1
            self._held = None
            with self._suspending():
                snapshot.close()
                if snapshot.is_on_disk:
                    self._files.adopt(snapshot.target.path, snapshot.target.end_offset)
                    self._complete()
                elif not self.fault:
                    raise OSError("the last snapshot was fetched without the disk")
            self.end = LogEnd.of_checkpoint(snapshot.reader, self.end.voters)

    def abandon_snapshot(self, error: Exception | None = None) -> None:
        """Remove the snapshot being fetched. After an ``error`` of the disk, stop using it."""
        with self._lock:
            snapshot, self._snapshot = self._snapshot, None
            if snapshot is not None:
                snapshot.discard()
            if isinstance(error, OSError | LogDirectoryError):
                self._suspend(error)

    # Checkpoints of our own.

    def is_checkpoint_due(self, bytes_max: int) -> bool:
        """Return True if a checkpoint should replace a log above this size, or complete it."""
        if self._snapshot is not None or self.cluster_id is None:
            return False
        if self.fault:
            return self._clock() >= self._retry_at
        return self._files.bytes_since_checkpoint > bytes_max

    def begin_checkpoint(self) -> int:
        """Continue the log in a new file, and return the offset at which it begins.

        A checkpoint that ends there or later replaces all older files. Raise OSError if the disk
        failed.
        """
        with self._lock:
            assert self.cluster_id is not None, "the cluster is adopted first"
            base = self.end.next_offset
            try:
                if self.fault:
                    self._files.resume(is_unknown=self._is_unknown, cluster_id=self.cluster_id)
                    self._is_unknown, self._held = False, []
                else:
                    self._files.begin_segment(base)
            except (OSError, LogDirectoryError) as error:
                self._suspend(error)
                raise OSError(str(error)) from error
            self._begun, self._begun_replacements = base, self._replacements
            return base

    def write_checkpoint(
        self, state: CheckpointState, rest: Callable[[], None] = lambda: None
    ) -> bool:
        """Replace everything below the state's end by a checkpoint. Meanwhile, other calls
        continue.

        Args:
            state: the state at a batch's end, outside metadata transactions, at or after the offset
                from ``begin_checkpoint``.
            rest: called after each batch.

        Returns: False if the copy was replaced or suspended meanwhile.

        Raises:
            OSError: the disk failed. The files are as before.
        """
        assert state.end_offset >= self._begun, "records would be missing between the two"
        path = self._files.directory / checkpoint_name(state.end_offset, state.epoch)
        part = part_of(path)
        try:
            with suppress(FileNotFoundError):
                self._storage.remove(part)
            with removed_on_error(part, self._storage):
                write_part(part, state, self._storage, rest)
                with self._lock:
                    if self._replacements != self._begun_replacements:
                        with suppress(FileNotFoundError):
                            self._storage.remove(part)
                        return False
                    self._files.install(path, state.end_offset, self._held or (), self._begun)
                    self._held = None
                    self.end.epochs.forget_before(state.end_offset - 1)
                    self._complete()
        except OSError as error:
            with self._lock:
                if self._replacements == self._begun_replacements and self.fault:
                    self._suspend(error)
            raise
        return True

    def _complete(self) -> None:
        self.end.is_empty = False
        if self.fault:
            self.fault = ""
            _logger.info("%s: the copy is complete again", self._log_dir)

    @contextmanager
    def _suspending(self) -> Iterator[None]:
        """Continue without the copy if the disk fails in the block."""
        try:
            yield
        except (OSError, LogDirectoryError) as error:
            self._suspend(error)

    def _suspend(self, error: Exception) -> None:
        self._held = None
        self._replacements += 1
        with suppress(OSError):
            self._files.segments.close()
        self._retry_at = self._clock() + RETRY_SECONDS
        self.fault = str(error)
        _logger.warning(
            "%s: the copy of the cluster's metadata cannot be written, and lacks what follows; it "
            "is tried again in %d s: %s", self._log_dir, RETRY_SECONDS, error,
        )  # fmt: skip
