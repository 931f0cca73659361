"""A disk that counts what is read."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from authorizerd.metadata.storage import DiskStorage


class CountingStorage(DiskStorage):
    """Count the reads of opened files, and their bytes.

    Attributes:
        reads: the number of calls; seeking is not counted.
        bytes_read: what they returned.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads = self.bytes_read = 0

    def open(self, path: Path) -> BinaryIO:
        file = super().open(path)
        read = file.read

        class Counted:
            """The file, as far as readers of batches use it."""

            seek, close = staticmethod(file.seek), staticmethod(file.close)

            @staticmethod
            def read(size: int = -1) -> bytes:
                data = read(size)
                self.reads += 1
                self.bytes_read += len(data)
                return data

        return Counted()  # type: ignore[return-value] # it has what is used
