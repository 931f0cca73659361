"""The files of a copy: its last segment, and the steps that replace older files.

**Invariant:** at any moment, a crash leaves files from which ``examine_copy`` takes a state that
the cluster has committed. So a file gets the name under which it is read only after it, and all
that must precede it, is durable.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from authorizerd.metadata.checkpoint_writer import PART_SUFFIX
from authorizerd.metadata.copy_directory import CopyMark, remove_copy, set_aside, write_mark
from authorizerd.metadata.copy_recovery import CopyContent, examine_copy
from authorizerd.metadata.directory import (
    METADATA_TOPIC_DIRECTORY,
    check_names,
    segment_name,
    sort_files,
)
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.meta_properties import NAME as PROPERTIES_NAME
from authorizerd.metadata.meta_properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from authorizerd.metadata.replay import KEPT_RECORDS
from authorizerd.metadata.storage import AppendFile, Storage

_logger = logging.getLogger(__name__)


class CopyFiles:
    """The files of one copy. Every method raises OSError if the disk fails.

    ``log_bytes`` is the size of the log's segments. ``is_resuming`` is True while the last segment
    has a name under which nothing reads it, because older records are missing before it.
    """

    def __init__(
        self, log_dir: Path, storage: Storage, *, node_id: int, segment_bytes_max: int
    ) -> None:
        self.directory: Final = log_dir / METADATA_TOPIC_DIRECTORY
        self._log_dir: Final = log_dir
        self._storage: Final = storage
        self._node_id: Final = node_id
        self._segment_bytes_max: Final = segment_bytes_max
        self._segments: dict[int, int] = {}
        self._file: AppendFile | None = None
        self.is_resuming = False

    @property
    def log_bytes(self) -> int:
        return sum(self._segments.values())

    # The whole copy.

    def recover(self, mark: CopyMark) -> tuple[CopyContent, str | None]:
        """Read the whole copy, and cut what a crash left unfinished.

        Returns: the content, and the id of the cluster, which only an empty copy may lack.

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
        content = examine_copy(self.directory, self._storage)
        if not content.is_empty and properties is None:
            raise LogDirectoryError(f"{self._log_dir}: the id of the copied cluster is missing")
        if not content.is_empty and mark.kept_records != KEPT_RECORDS:
            raise LogDirectoryError(
                f"{self._log_dir}: a version of the daemon that keeps other records wrote the copy"
            )
        if content.cut is not None:
            _logger.warning(
                "%s: %d bytes are cut from the end of the copy, and fetched again: %s",
                content.cut.path, content.cut.size, content.cut.reason,
            )  # fmt: skip
            self._storage.truncate(content.cut.path, content.cut.position)
        for path in content.superseded:
            self._storage.remove(path)
        self._storage.sync_directory(self.directory)
        if mark.kept_records != KEPT_RECORDS:
            write_mark(self._log_dir, replace(mark, kept_records=KEPT_RECORDS), self._storage)
        self._segments = content.segments
        if self._segments:
            self._file = self._storage.append_to(self._segment_path(max(self._segments)))
        return content, None if properties is None else properties.cluster_id

    def begin_anew(self, mark: CopyMark) -> str | None:
        """Set the log aside, and return the id of the copy's cluster, if it is known."""
        set_aside(self._log_dir, self._storage)
        try:
            properties = read_meta_properties(self._log_dir, self._storage)
        except LogDirectoryError:
            self._storage.remove(self._log_dir / PROPERTIES_NAME)
            properties = None
        write_mark(self._log_dir, replace(mark, kept_records=KEPT_RECORDS), self._storage)
        self.make_directory()
        return None if properties is None else properties.cluster_id

    def clear(self) -> None:
        """Remove all files except for the mark."""
        for _ in remove_copy(self._log_dir, self._storage):
            pass
        self.make_directory()

    def make_directory(self) -> None:
        if not self._storage.exists(self.directory):
            self._storage.make_directory(self.directory)
        self._storage.sync_directory(self._log_dir)

    def write_properties(self, cluster_id: str) -> None:
        """Tie the copy to a cluster."""
        properties = MetaProperties(cluster_id, self._node_id, "")
        try:
            write_meta_properties(self._log_dir, properties, self._storage)
        except LogDirectoryError as error:
            raise OSError(str(error)) from error

    # The log.

    def write(self, pieces: list[bytes], base_offset: int) -> None:
        """Write batches that begin at ``base_offset`` into one segment. Nothing is synced."""
        size = sum(map(len, pieces))
        if self._file is None or (
            not self.is_resuming and self._last_bytes() + size > self._segment_bytes_max
        ):
            self.begin_segment(base_offset)
        assert self._file is not None, "begun"
        self._file.append(pieces)
        self._segments[max(self._segments)] += size

    def _last_bytes(self) -> int:
        return self._segments[max(self._segments)]

    def begin_segment(self, base_offset: int) -> None:
        """Continue in a new segment. Sync the one before it: only the last may lose its end."""
        if self._file is not None:
            if not self._last_bytes():
                return
            self._file.sync()
            self.close()
        self._file = self._storage.append_to(self._segment_path(base_offset))
        self._segments[base_offset] = 0
        self._storage.sync_directory(self.directory)

    def resume(self, base_offset: int, *, is_unknown: bool, cluster_id: str) -> None:
        """Write what follows into a file that nothing reads before a checkpoint precedes it.

        Args:
            is_unknown: the files could not be read, so they are set aside.
        """
        self.close()
        if is_unknown:
            set_aside(self._log_dir, self._storage)
        self.make_directory()
        self.write_properties(cluster_id)
        self._file = self.new_part(self._segment_path(base_offset))
        self._segments = {base_offset: 0}
        self.is_resuming = True

    def complete(self, end_offset: int) -> None:
        """Remove what a checkpoint that ends at ``end_offset`` and is in place has replaced."""
        if self.is_resuming:
            self.install(self._segment_path(max(self._segments)))
            self.is_resuming = False
        bases = [base for base in self._segments if base <= end_offset]
        for base in bases[:-1]:
            del self._segments[base]
        self.remove_before(end_offset, bases[-1] if bases else end_offset)

    def adopt_checkpoint(self, end_offset: int) -> None:
        """Let a fetched checkpoint that is in place replace all other files."""
        self.close()
        self._segments = {}
        self.remove_before(end_offset, end_offset)

    def close(self, *, is_synced: bool = False) -> None:
        """Close the last segment; remove it if it is one that nothing reads."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                if is_synced:
                    file.sync()
            finally:
                file.close()
        if self.is_resuming:
            self.is_resuming = False
            with suppress(OSError):
                self._storage.remove(part_of(self._segment_path(max(self._segments))))

    def forget(self) -> None:
        """Close the last segment. What follows is not written before ``resume``."""
        self.close()
        self._segments = {}

    def _segment_path(self, base_offset: int) -> Path:
        return self.directory / segment_name(base_offset)

    # Files that get their name later.

    def new_part(self, path: Path) -> AppendFile:
        """Create the file that ``install`` renames to ``path``."""
        self.remove_part(path)
        return self._storage.append_to(part_of(path))

    def remove_part(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            self._storage.remove(part_of(path))

    def install(self, path: Path) -> None:
        """Give a durable file its name, durably."""
        self._storage.rename(part_of(path), path)
        self._storage.sync_directory(self.directory)

    def remove_before(self, end_offset: int, base_offset: int) -> None:
        """Remove checkpoints that end before ``end_offset``, and segments that begin before
        ``base_offset``.

        Files that cannot be removed are left to the next start.
        """
        try:
            paths = [self.directory / name for name in self._storage.names(self.directory)]
            files = sort_files(paths)
            for checkpoint in files.checkpoints:
                if checkpoint.end_offset < end_offset:
                    self._storage.remove(checkpoint.path)
            for segment in files.segments:
                if segment.base_offset < base_offset:
                    self._storage.remove(segment.path)
            self._storage.sync_directory(self.directory)
        except OSError as error:
            _logger.warning("superseded files of the copy cannot be removed: %s", error)


def part_of(path: Path) -> Path:
    """Return the name of a file until it is complete and durable."""
    return path.with_name(path.name + PART_SUFFIX)
