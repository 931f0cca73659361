"""A snapshot that is being fetched: in a file of the copy, or in memory if there is no disk space.

**Invariant:** nothing reads a snapshot before all of it has been verified.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

from authorizerd.metadata.batch_file import PlacedBatch
from authorizerd.metadata.checkpoint import CheckpointReader
from authorizerd.metadata.directory import Checkpoint
from authorizerd.metadata.log import LogBatch
from authorizerd.metadata.storage import AppendFile, ReadableFiles

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
    """A snapshot that ends at ``target.end_offset``.

    Args:
        target: the checkpoint that it becomes.
        part: the file in which it is written, None to keep it in memory.
        storage: reads ``part``.
    """

    def __init__(self, target: Checkpoint, part: AppendFile | None, storage: ReadableFiles) -> None:
        self.target: Final = target
        self.file: Final = part
        self._memory = MemoryFile()
        self._files = storage if part is not None else self._memory

    def append(self, data: bytes) -> None:
        """Add the next piece.

        Raises:
            OSError: the disk is full or has failed, or the snapshot does not fit in memory.
        """
        if self.file is None:
            self._memory.append(data)
        else:
            self.file.append([data])

    def verify(self, path: Path) -> int:
        """Read all of the snapshot at ``path``; return its time in milliseconds since 1970.

        Raises:
            CorruptLogError: it is incomplete or damaged.
            LogDirectoryError: it cannot be read.
        """
        reader = self._reader(path)
        for _ in reader.batches():
            pass
        return 0 if reader.header is None else reader.header.last_timestamp_ms

    def batches(self, path: Path) -> Iterator[LogBatch]:
        """Yield the batches of the snapshot at ``path``, which has been verified."""
        placed: PlacedBatch
        for placed in self._reader(path).batches():
            yield LogBatch(placed, self.target.end_offset - 1, is_checkpoint=True)

    def _reader(self, path: Path) -> CheckpointReader:
        target = Checkpoint(self.target.end_offset, self.target.epoch, path)
        return CheckpointReader(target, self._files)
