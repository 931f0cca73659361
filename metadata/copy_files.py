"""The files of a copy: how a start recovers them, and the steps that replace older files.

**Invariant:** at any moment, a crash leaves files from which a start takes a state that the cluster
has committed. So a file gets the name under which it is read only after it, and all that must
precede it, is durable.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

from authorizerd.metadata.checkpoint_writer import PART_SUFFIX, part_of
from authorizerd.metadata.copy_directory import MARK_NAME, read_mark, set_aside, write_mark
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, check_names, sort_files
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.log import MetadataLog, Origin, Progress
from authorizerd.metadata.log_end import LogEnd
from authorizerd.metadata.meta_properties import NAME as PROPERTIES_NAME
from authorizerd.metadata.meta_properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from authorizerd.metadata.replay import KEPT_RECORDS
from authorizerd.metadata.storage import Storage

_logger = logging.getLogger(__name__)


class CopyFiles:
    """The files of one copy, except for its last segment. Each method may raise OSError."""

    def __init__(self, log_dir: Path, storage: Storage, *, node_id: int) -> None:
        self.directory: Final = log_dir / METADATA_TOPIC_DIRECTORY
        self._log_dir: Final = log_dir
        self._storage: Final = storage
        self._node_id: Final = node_id

    def read_mark(self) -> None:
        """Read the mark, which the other methods need.

        Raises:
            LogDirectoryError: the directory is not marked as a copy.
        """
        mark = read_mark(self._log_dir, self._storage)
        if mark is None:
            raise LogDirectoryError(f"{self._log_dir}: expected {MARK_NAME}, which marks a copy")
        self._mark = mark

    def read(self) -> tuple[LogEnd, Progress, str | None]:
        """Read the whole copy.

        Returns: the end of the log, what ``SegmentWriter.start`` must know, and the id of the
            cluster, which only an empty copy may lack.

        Raises:
            MetadataLogError: the copy cannot be trusted, or (with an OSError as the cause) a file
                cannot be read.
        """
        self.make_directory()
        for name in self._storage.names(self.directory):
            if name.endswith(PART_SUFFIX):
                self._storage.remove(self.directory / name)
        check_names(self._log_dir, self._storage)
        properties = read_meta_properties(self._log_dir, self._storage)
        end, progress = recover_followed(self.directory, self._storage)
        if not end.is_empty and properties is None:
            raise LogDirectoryError(f"{self._log_dir}: the id of the copied cluster is missing")
        if not end.is_empty and self._mark.kept_records != KEPT_RECORDS:
            raise LogDirectoryError(
                f"{self._log_dir}: a version of the daemon that keeps other records wrote the copy"
            )
        if progress.torn_tail is not None:
            _logger.warning(
                "%s: %d bytes are cut from the end of the copy, and fetched again: %s",
                progress.torn_tail.path, progress.torn_tail.size, progress.torn_tail.reason,
            )  # fmt: skip
        if self._mark.kept_records != KEPT_RECORDS:
            self._update_mark()
        return end, progress, None if properties is None else properties.cluster_id

    def begin_anew(self) -> str | None:
        """Set the log aside, and return the id of the copy's cluster, if it is known."""
        set_aside(self._log_dir, self._storage)
        try:
            properties = read_meta_properties(self._log_dir, self._storage)
        except LogDirectoryError:
            self._storage.remove(self._log_dir / PROPERTIES_NAME)
            properties = None
        self._update_mark()
        self.make_directory()
        return None if properties is None else properties.cluster_id

    def _update_mark(self) -> None:
        """Note that this version writes the checkpoints from now on."""
        mark = replace(self._mark, kept_records=KEPT_RECORDS)
        write_mark(self._log_dir, mark, self._storage)

    def resume(self, *, is_unknown: bool, cluster_id: str) -> None:
        """Prepare a directory that could not be written for a checkpoint.

        Args:
            is_unknown: the files could not be read, so they are set aside.
        """
        if is_unknown:
            set_aside(self._log_dir, self._storage)
        self.make_directory()
        self.write_properties(cluster_id)

    def make_directory(self) -> None:
        if not self._storage.exists(self.directory):
            self._storage.make_directory(self.directory)
        self._storage.sync_directory(self._log_dir)

    def write_properties(self, cluster_id: str) -> None:
        """Tie the copy to a cluster."""
        properties = MetaProperties(cluster_id, self._node_id, "")
        write_meta_properties(self._log_dir, properties, self._storage)

    def install(self, checkpoint: Path) -> None:
        """Give a durable checkpoint its name, durably."""
        self._storage.rename(part_of(checkpoint), checkpoint)
        self._storage.sync_directory(self.directory)

    def remove_superseded(self, end_offset: int, *, has_log: bool) -> None:
        """Remove what a checkpoint that ends at ``end_offset`` and is in place has replaced.

        Files that cannot be removed are left to the next start.

        Args:
            has_log: False if even the last segment ends before it.
        """
        try:
            files = sort_files(
                self.directory / name for name in self._storage.names(self.directory)
            )
            for checkpoint in files.checkpoints:
                if checkpoint.end_offset < end_offset:
                    self._storage.remove(checkpoint.path)
            below = [each for each in files.segments if each.base_offset <= end_offset]
            for segment in below[:-1] if has_log else below:
                self._storage.remove(segment.path)
            self._storage.sync_directory(self.directory)
        except OSError as error:
            _logger.warning("superseded files of the copy cannot be removed: %s", error)


def recover_followed(directory: Path, storage: Storage) -> tuple[LogEnd, Progress]:
    """Read the log of a copy, and return its end and what to cut. Blocks on the files.

    Raises:
        CorruptLogError: the copy cannot be trusted.
        LogDirectoryError: a file cannot be read.
        OSError: the directory cannot be read.
    """
    files = sort_files(directory / name for name in storage.names(directory))
    log = MetadataLog(files, storage, origin=Origin.FOLLOWED)
    checkpoint = log.find_checkpoint()
    end = LogEnd() if checkpoint is None else LogEnd.of_checkpoint(checkpoint)
    for log_batch in log.batches_after_checkpoint():
        end.follow(log_batch.placed.batch)
    log.progress.superseded += (each.path for each in files.checkpoints[:-1])
    return end, log.progress
