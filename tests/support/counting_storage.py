"""A disk that counts what is read."""

from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import BinaryIO

from authorizerd.metadata.storage import Storage


class CountingStorage(Storage):
    """Count the reads of opened files, and their bytes.

    Attributes:
        reads: the number of calls of ``read``; seeking is not counted.
        bytes_read: what they returned.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads = self.bytes_read = 0

    def open(self, path: Path) -> BinaryIO:
        file = super().open(path)
        assert isinstance(file, BufferedReader)
        return _CountedFile(file.detach(), self)


class _CountedFile(BufferedReader):
    def __init__(self, raw: RawIOBase, storage: CountingStorage) -> None:
        super().__init__(raw)
        self._storage = storage

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self._storage.reads += 1
        self._storage.bytes_read += len(data)
        return data
