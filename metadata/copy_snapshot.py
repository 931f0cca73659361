"""A snapshot that is being fetched: in a file of the copy, or in memory if there is no disk space.

**Invariant:** nothing reads a snapshot before all of it has been verified.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

from authorizerd.metadata.checkpoint import CheckpointReader
from authorizerd.metadata.checkpoint_writer import part_of
from authorizerd.metadata.directory import Checkpoint
from authorizerd.metadata.log import LogBatch
from authorizerd.metadata.storage import AppendFile, Storage

BYTES_IN_MEMORY_MAX: Final = 256 * 1024 * 1024
"""The maximum size of a snapshot fetched without the disk. A snapshot of 500,000 ACLs has 70 MB."""


class MemoryFile(Storage):
    """One file in memory, which is its own storage. It has every path."""

    def __init__(self, bytes_max: int = BYTES_IN_MEMORY_MAX) -> None:
        super().__init__()
        self._bytes_max = bytes_max
        self._content = BytesIO()

    def append_to(self, path: Path, like: Path | None = None) -> AppendFile:
        return self

    def append(self, pieces: Sequence[bytes]) -> None:
        """Add ``pieces``. Raise OSError if the file would be too large."""
        if self._content.tell() + sum(map(len, pieces)) > self._bytes_max:
            reason = f"expected a snapshot of at most {self._bytes_max} bytes, found more"
            raise OSError(errno.EFBIG, reason)
        self._content.writelines(pieces)

    def size(self, path: Path) -> int:
        return self._content.tell()

    def open(self, path: Path) -> BinaryIO:
        return BytesIO(self._content.getvalue())

    def drop_cache(self, path: Path) -> None:
        """Do nothing: there is no cache."""

    def remove(self, path: Path) -> None:
        """Do nothing: the memory is freed with this object."""

    sync = close = lambda *_: None


class SnapshotFile:
    """A snapshot of a cluster, under a temporary name until it is installed.

    Args:
        target: the checkpoint that it becomes.

    Raises:
        OSError: the file cannot be created.
    """

    def __init__(self, target: Checkpoint, storage: Storage) -> None:
        self.target: Final = target
        self._storage: Final = storage
        self._part: Final = part_of(target.path)
        self.is_on_disk: Final = not isinstance(storage, MemoryFile)
        with suppress(FileNotFoundError):
            storage.remove(self._part)
        self._file: Final = storage.append_to(self._part)
        self.reader: Final = CheckpointReader(replace(target, path=self._part), storage)

    def append(self, data: bytes) -> None:
        """Add the next piece.

        Raises:
            OSError: the disk is full or has failed, or the snapshot does not fit in memory.
        """
        self._file.append([data])

    def verify(self) -> None:
        """Sync the snapshot, and read all of it.

        Raises:
            CorruptLogError: it is incomplete or damaged.
            LogDirectoryError: it cannot be read.
            OSError: the disk failed.
        """
        self._file.sync()
        for _ in self.reader.batches():
            pass

    def batches(self) -> Iterator[LogBatch]:
        """Yield the batches of the verified snapshot."""
        for placed in self.reader.batches():
            yield LogBatch(placed, self.target.end_offset - 1, is_checkpoint=True)

    def close(self) -> None:
        self._file.close()

    def discard(self) -> None:
        """Remove the file, if possible."""
        self._file.close()
        with suppress(OSError):
            self._storage.remove(self._part)
