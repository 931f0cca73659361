"""A snapshot that is being fetched: in a file of the copy, or in memory if there is no disk space.

**Invariant:** nothing reads a snapshot before all of it has been verified.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

from authorizerd.metadata.checkpoint import CheckpointReader
from authorizerd.metadata.copy_files import CopyFiles, part_of
from authorizerd.metadata.directory import Checkpoint
from authorizerd.metadata.log import LogBatch
from authorizerd.metadata.storage import AppendFile, Storage
from authorizerd.protocol.records.voters import Voters

BYTES_IN_MEMORY_MAX: Final = 256 * 1024 * 1024
"""The size of a snapshot that is fetched without the disk. One of 500,000 ACLs has 70 MB."""


class MemoryFile:
    """One file in memory. It has every path."""

    def __init__(self, bytes_max: int = BYTES_IN_MEMORY_MAX) -> None:
        self._bytes_max = bytes_max
        self._content = BytesIO()

    def append(self, data: bytes) -> None:
        """Add ``data``. Raise OSError if the file would be too large."""
        if self._content.tell() + len(data) > self._bytes_max:
            reason = f"expected a snapshot of at most {self._bytes_max} bytes, found more"
            raise OSError(errno.EFBIG, reason)
        self._content.write(data)

    def size(self, path: Path) -> int:
        return self._content.tell()

    def open(self, path: Path) -> BinaryIO:
        return BytesIO(self._content.getvalue())

    def drop_cache(self, path: Path) -> None:
        """Do nothing: there is no cache."""


class SnapshotFile:
    """A snapshot of a cluster: in memory, or in a file from ``use_disk`` on.

    Args:
        target: the checkpoint that it becomes.

    ``voters`` are set by ``install``, unless the snapshot names none.
    """

    def __init__(self, target: Checkpoint, files: CopyFiles, storage: Storage) -> None:
        self.target: Final = target
        self._files: Final = files
        self._storage: Final = storage
        self._memory: Final = MemoryFile()
        self._part: AppendFile | None = None
        self.voters: Voters | None = None

    @property
    def is_on_disk(self) -> bool:
        return self._part is not None

    def use_disk(self) -> None:
        """Write what follows into a file. Raise OSError if it cannot be created."""
        self._part = self._files.new_part(self.target.path)

    def append(self, data: bytes) -> None:
        """Add the next piece.

        Raises:
            OSError: the disk is full or has failed, or the snapshot does not fit in memory.
        """
        if self._part is None:
            self._memory.append(data)
        else:
            self._part.append([data])

    def install(self) -> int:
        """Let the snapshot replace the copy's files, unless it is in memory.

        Returns: its time in milliseconds since 1970.

        Raises:
            CorruptLogError: it is incomplete or damaged. Nothing was replaced.
            LogDirectoryError: it cannot be read.
            OSError: the disk failed.
        """
        path = self.target.path
        if self._part is None:
            last_timestamp_ms = self._verify(path)
            self._files.forget()
            return last_timestamp_ms
        self._part.sync()
        last_timestamp_ms = self._verify(part_of(path))
        self._files.install(path)
        self._files.adopt_checkpoint(self.target.end_offset)
        self._part.close()
        return last_timestamp_ms

    def discard(self) -> None:
        """Remove the file, if there is one and it can be removed."""
        if self._part is not None:
            self._part.close()
            with suppress(OSError):
                self._files.remove_part(self.target.path)

    def batches(self) -> Iterator[LogBatch]:
        """Yield the batches of the snapshot, once it is installed."""
        for placed in self._reader(self.target.path).batches():
            yield LogBatch(placed, self.target.end_offset - 1, is_checkpoint=True)

    def _verify(self, path: Path) -> int:
        """Read all of the snapshot at ``path``, and return its time."""
        reader = self._reader(path)
        for _ in reader.batches():
            pass
        self.voters = reader.voters
        return 0 if reader.header is None else reader.header.last_timestamp_ms

    def _reader(self, path: Path) -> CheckpointReader:
        target = Checkpoint(self.target.end_offset, self.target.epoch, path)
        return CheckpointReader(target, self._memory if self._part is None else self._storage)
