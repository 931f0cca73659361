"""The last segment of a log: append to it, sync it, and continue in the next one.

**Invariant:** a segment is durable before the next one exists, and a segment's name is durable
before anything is in it. So a crash damages only the end of the log. The batches of one append are
in one segment.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from authorizerd.metadata.directory import segment_name
from authorizerd.metadata.errors import LogNotWrittenError
from authorizerd.metadata.log import Progress
from authorizerd.metadata.storage import AppendFile, Storage

SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT))
"""Errors caused by missing resources, which may be temporary. If nothing was written yet, the log
stays usable."""


class SegmentWriter:
    """Write the segments of a log of either origin.

    Attributes:
        path: the segment's path, or the directory's while there is no segment. size: the bytes in
            the segment.
        bytes_written: the bytes written to the log since the start.
    """

    def __init__(self, directory: Path, storage: Storage, *, segment_bytes_max: int) -> None:
        self._directory: Final = directory
        self._storage: Final = storage
        self._bytes_max: Final = segment_bytes_max
        self._file: AppendFile | None = None
        self._is_synced = True
        self.path = directory
        self.size = 0
        self.bytes_written = 0

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def start(self, progress: Progress) -> None:
        """Cut off an unfinished write, and continue where reading has ended.

        Args:
            progress: the result of reading the whole log.

        Raises:
            OSError: the log cannot be written.
        """
        if progress.torn_tail is not None:
            self._storage.truncate(progress.torn_tail.path, progress.torn_tail.position)
        for path in progress.superseded:
            self._storage.remove(path)
        if progress.segment is not None:
            self._file = self._storage.append_to(progress.segment)
            self.path, self.size = progress.segment, progress.segment_bytes
            # A killed process may have written records without syncing them.
            self.sync()
        self._storage.sync_directory(self._directory)

    def append(self, pieces: Sequence[bytes], base_offset: int) -> None:
        """Write batches that begin at ``base_offset``. They are durable after ``sync``.

        Raises:
            LogNotWrittenError: as ``begin``.
            OSError: it is not known what was written.
        """
        size = sum(map(len, pieces))
        if self._file is None or (self.size and self.size + size > self._bytes_max):
            self.begin(base_offset)
        assert self._file is not None, "begun"
        self._is_synced = False
        self._file.append(pieces)
        self.size += size
        self.bytes_written += size

    def sync(self) -> None:
        """Return once everything written is durable. Raise OSError if that is not known."""
        if self._file is not None:
            self._file.sync()
            self._is_synced = True

    def begin(self, base_offset: int) -> None:
        """Continue in a new segment, unless the last one is empty.

        Raises:
            LogNotWrittenError: the file could not be created, and nothing has changed.
            OSError: the last segment, or the new name, may not be durable.
        """
        if self._file is not None and not self.size:
            return
        if not self._is_synced:
            self.sync()
        path = self._directory / segment_name(base_offset)
        with nothing_written():
            # Open this first, so that syncing the new file's name needs no further descriptor.
            directory = self._storage.open_directory(self._directory)
        with closing(directory):
            with nothing_written():
                file = self._storage.append_to(path)
            self.close()
            self.path, self._file, self.size = path, file, 0
            directory.sync()

    def close(self) -> None:
        """Close the segment. Later batches begin a new one."""
        file, self._file = self._file, None
        self._is_synced = True
        if file is not None:
            file.close()


@contextmanager
def nothing_written() -> Iterator[None]:
    """Turn an error of missing resources into LogNotWrittenError."""
    try:
        yield
    except OSError as error:
        if error.errno in SHORTAGES:
            raise LogNotWrittenError(f"the log could not be written: {error}") from error
        raise
