"""The files of a copy: recover them at a start, and replace older files step by step.

**Invariant:** after a crash at any moment, a start finds a state that the cluster has committed. So
a file gets its final name only after the file, and everything that must precede it, is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from authorizerd.metadata.checkpoint_writer import PART_SUFFIX, part_of, remove_superseded
from authorizerd.metadata.copy_directory import (
    MARK_NAME,
    CopyMark,
    read_mark,
    set_aside,
    write_mark,
)
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, check_names
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.log_end import LogEnd
from authorizerd.metadata.meta_properties import NAME as PROPERTIES_NAME
from authorizerd.metadata.meta_properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from authorizerd.metadata.replay import KEPT_RECORDS
from authorizerd.metadata.segments import SegmentWriter
from authorizerd.metadata.storage import Storage

_logger = logging.getLogger(__name__)


class CopyFiles:
    """The files of one copy. Each method may raise OSError, or LogDirectoryError for a small file.

    Call ``read_mark`` first.
    """

    def __init__(
        self, log_dir: Path, storage: Storage, *, node_id: int, segment_bytes_max: int
    ) -> None:
        self.directory: Final = log_dir / METADATA_TOPIC_DIRECTORY
        self.segments: Final = SegmentWriter(
            self.directory, storage, segment_bytes_max=segment_bytes_max
        )
        self._log_dir: Final = log_dir
        self._storage: Final = storage
        self._node_id: Final = node_id
        self._mark = CopyMark("")
        self._bytes_begun = self._bytes_at_checkpoint = 0

    @property
    def bytes_since_checkpoint(self) -> int:
        return self.segments.bytes_written - self._bytes_at_checkpoint

    def read_mark(self) -> None:
        """Read the mark of a copy.

        Raises:
            LogDirectoryError: it is not marked.
        """
        mark = read_mark(self._log_dir, self._storage)
        if mark is None:
            raise LogDirectoryError(f"{self._log_dir}: expected {MARK_NAME}, which marks a copy")
        self._mark = mark

    def recover(self) -> tuple[LogEnd, str | None]:
        """Read the whole copy, cut off an unfinished write, and open the last segment.

        Returns: the end of the log, and the id of the cluster, which only an empty copy may lack.

        Raises:
            MetadataLogError: the copy cannot be trusted, or (with an OSError as the cause) a file
                cannot be read.
        """
        log_dir, storage = self._log_dir, self._storage
        self._make_directory()
        for name in storage.names(self.directory):
            if name.endswith(PART_SUFFIX):
                storage.remove(self.directory / name)
        check_names(log_dir, storage)
        properties = read_meta_properties(log_dir, storage)
        end, progress = LogEnd.recover(self.directory, storage)
        is_ours = self._mark.kept_records == KEPT_RECORDS
        if not end.is_empty and properties is None:
            raise LogDirectoryError(f"{log_dir}: the id of the copied cluster is missing")
        if not end.is_empty and not is_ours:
            raise LogDirectoryError(
                f"{log_dir}: a version of the daemon that keeps other records wrote the copy"
            )
        if progress.torn_tail is not None:
            _logger.warning(
                "%s: %d bytes are cut from the end of the copy, and fetched again: %s",
                progress.torn_tail.path, progress.torn_tail.size, progress.torn_tail.reason,
            )  # fmt: skip
        self.segments.start(progress)
        self._bytes_at_checkpoint = -progress.bytes_since_checkpoint
        if not is_ours:
            self._update_mark()
        return end, None if properties is None else properties.cluster_id

    def begin_anew(self) -> str | None:
        """Set the log aside, and return the id of the copy's cluster, if it is known."""
        self.segments.close()
        set_aside(self._log_dir, self._storage)
        try:
            properties = read_meta_properties(self._log_dir, self._storage)
        except LogDirectoryError:
            self._storage.remove(self._log_dir / PROPERTIES_NAME)
            properties = None
        self._update_mark()
        self._make_directory()
        return None if properties is None else properties.cluster_id

    def _update_mark(self) -> None:
        """Note that this version writes the checkpoints from now on."""
        mark = replace(self._mark, kept_records=KEPT_RECORDS)
        write_mark(self._log_dir, mark, self._storage)

    def _make_directory(self) -> None:
        if not self._storage.exists(self.directory):
            self._storage.make_directory(self.directory)
        self._storage.sync_directory(self._log_dir)

    def write_properties(self, cluster_id: str) -> None:
        """Tie the copy to a cluster."""
        properties = MetaProperties(cluster_id, self._node_id, "")
        write_meta_properties(self._log_dir, properties, self._storage)

    def begin_segment(self, base_offset: int) -> None:
        """Continue the log in a new segment, below which a checkpoint replaces everything."""
        self.segments.begin(base_offset)
        self._bytes_begun = self.segments.bytes_written

    def resume(self, *, is_unknown: bool, cluster_id: str) -> None:
        """Prepare files that could not be written, so that a checkpoint can follow.

        Args:
            is_unknown: they could not be read, so they are set aside.
        """
        if is_unknown:
            set_aside(self._log_dir, self._storage)
        self._make_directory()
        self.write_properties(cluster_id)
        self._bytes_begun = self.segments.bytes_written

    def adopt(self, checkpoint: Path, end_offset: int) -> None:
        """Replace all files by a durable checkpoint of the cluster."""
        self.segments.close()
        self._bytes_begun = self.segments.bytes_written
        self.install(checkpoint, end_offset)

    def install(
        self, checkpoint: Path, end_offset: int, held: Sequence[bytes] = (), base_offset: int = 0
    ) -> None:
        """Give a durable checkpoint its name, durably, and remove what it replaces.

        Files that cannot be removed are left to the next start.

        Args:
            held: batches from ``base_offset`` on, with which the log continues after it.
        """
        self._storage.rename(part_of(checkpoint), checkpoint)
        self._storage.sync_directory(self.directory)
        self._bytes_at_checkpoint = self._bytes_begun
        if held:
            self.segments.append(held, base_offset)
        try:
            has_log = self.segments.is_open
            remove_superseded(self.directory, end_offset, self._storage, has_log=has_log)
        except OSError as error:
            _logger.warning("superseded files of the copy cannot be removed: %s", error)
