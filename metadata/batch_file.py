"""Read one file of record batches in order, and recognize its torn end.

**Invariant:** a crash may cut off the last batch of a log. Such a torn tail is distinguished from
damage. A tail is torn in these cases:

- Fewer bytes are left than the batch announces, unless its CRC matches the bytes that are there.
- Only zeros follow, up to the end of the file.
- A whole sector inside an invalid batch is zeros: the file's size was written, but not its data.
- The first sector of the batch was never written: after the end of the previous batch, it still has
  the zeros from before. No sync can have made a batch durable without that sector, so neither this
  batch nor anything after it was acknowledged.

Anything else is corruption: a complete batch with a bad CRC may be an acknowledged DENY.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import msgspec

from authorizerd.metadata.errors import CorruptLogError, LogDirectoryError, naming
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import (
    LENGTH_SIZE,
    RecordBatch,
    batch_size,
    decode_batch,
    sealed_size,
)

SECTOR_SIZE: Final = 512
LAST_PIECE_MIN: Final = 64
"""A file's partial last sector counts as a sector of zeros only if it has this many bytes."""

PIECE_BYTES: Final = 1 << 20
"""How much is read at once. After each read, the reading thread must take the interpreter back from
the event loop: thousands of small reads would stop the loop for long."""


class PlacedBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch and the position in a file where it begins."""

    batch: RecordBatch
    path: Path
    position: int


@dataclass(frozen=True, slots=True)
class TornTail:
    """An unfinished write at the end of the log: ``size`` bytes from ``position``, which are
    ignored.
    """

    path: Path
    position: int
    size: int
    reason: str


class BatchFile:
    """A file of batches, opened for reading only.

    ``torn_tail`` is set once reading reaches a torn tail.
    """

    def __init__(
        self,
        path: Path,
        next_offset: int,
        storage: Storage = DISK,
        *,
        from_disk: bool = False,
        position: int = 0,
    ) -> None:
        """Open ``path``. Until the first batch, errors name ``next_offset``.

        Args:
            from_disk: bypass the kernel's page cache (``Storage.drop_cache``).
            position: where the first batch begins.

        Raises:
            LogDirectoryError: the file cannot be opened.
        """
        self.path = path
        self.torn_tail: TornTail | None = None
        self._next_offset = next_offset
        self._position = position
        self._piece, self._piece_position = b"", 0
        with naming(path):
            if from_disk:
                storage.drop_cache(path)
            self._size = storage.size(path)
            self._file = storage.open(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def position(self) -> int:
        """The position where the next batch begins."""
        return self._position

    def read(self, *, may_be_torn: bool) -> PlacedBatch | None:
        """Return the next batch, or None at the end of the file.

        Args:
            may_be_torn: this file is the end of a log that was not shut down cleanly, so a torn
                tail is not corruption.

        Raises:
            CorruptLogError: the bytes are neither a valid batch nor an allowed torn tail.
            LogDirectoryError: the file cannot be read.
        """
        try:
            return self._read(may_be_torn)
        except OSError as error:
            raise LogDirectoryError(f"{self.path}: {error.strerror or error}") from error

    def _read(self, may_be_torn: bool) -> PlacedBatch | None:
        start = self._position
        left = self._size - start
        if not left:
            return None
        data = self._bytes_at(start, min(left, LENGTH_SIZE))
        try:
            torn = self._torn_start(data, left)
            if torn is None:
                data = self._bytes_at(start, batch_size(data))
                batch = decode_batch(data)
        except DecodeError as error:
            if not self._is_torn_write(data):
                raise self._corrupt(error.reason, error.position) from error
            torn = "a batch with a sector of zeros"
        if torn is not None:
            self._end_at_torn_tail(torn, may_be_torn)
            return None
        self._position += len(data)
        self._next_offset = batch.last_offset + 1
        return PlacedBatch(batch, self.path, start)

    def _bytes_at(self, position: int, size: int) -> bytes:
        start = position - self._piece_position
        if not 0 <= start <= len(self._piece) - size:
            left = self._size - position
            self._file.seek(position)
            self._piece = self._file.read(max(size, min(PIECE_BYTES, left)))
            self._piece_position, start = position, 0
            if len(self._piece) < min(size, left):
                # This is not a torn tail: the unreadable part may have been acknowledged.
                end = position + len(self._piece)
                raise LogDirectoryError(
                    f"{self.path}: reading ends at byte {end}, but the file had {self._size} bytes"
                    " when it was opened: see whether it was cut, or the disk fails"
                )
        return self._piece[start : start + size]

    def _torn_start(self, start: bytes, left: int) -> str | None:
        """Return why the last ``left`` bytes of the file cannot be a whole batch, or None if they
        can.

        Raises:
            DecodeError: ``start`` announces an impossible length.
        """
        if not start.strip(b"\0") and self._only_zeros_from(self._position):
            return "only zeros to the end of the file"
        if len(start) == LENGTH_SIZE and not any(start) and self._is_sector_stale():
            return "a batch whose first sector was never written"
        if len(start) < LENGTH_SIZE:
            return f"{left} bytes, less than a batch needs"
        size = batch_size(start)
        if size <= left:
            return None
        sealed = sealed_size(self._bytes_at(self._position, left))
        if sealed is not None:
            # The fault is in the length, which is the last four bytes of ``start``.
            raise DecodeError(f"a batch of {sealed} bytes announces {size}", LENGTH_SIZE - 4)
        return f"a batch of {size} bytes of which {left} exist"

    def _is_sector_stale(self) -> bool:
        """Return True if everything from here to the end of the sector is zeros.

        The sector still contains the end of the previous batch, so it was not lost: nothing has
        written to it since the log ended here. Fewer zeros than a batch's length field would prove
        nothing.
        """
        size = -self._position % SECTOR_SIZE
        return size >= LENGTH_SIZE and not any(self._bytes_at(self._position, size))

    def _end_at_torn_tail(self, reason: str, may_be_torn: bool) -> None:
        """Stop reading here, at a torn tail."""
        if not may_be_torn:
            raise self._corrupt(
                f"{reason}; only the end of a log that was not shut down cleanly may be unfinished"
            )
        self.cut(self._position, reason)

    def cut(self, position: int, reason: str) -> None:
        """End the file at ``position``: what follows is a torn tail."""
        self.torn_tail = TornTail(self.path, position, self._size - position, reason)
        self._size = self._position = position

    def _corrupt(self, reason: str, position: int = 0) -> CorruptLogError:
        return CorruptLogError(self.path, self._position + position, self._next_offset, reason)

    def _only_zeros_from(self, position: int) -> bool:
        return not any(
            self._bytes_at(start, min(PIECE_BYTES, self._size - start)).strip(b"\0")
            for start in range(position, self._size, PIECE_BYTES)
        )

    def _is_torn_write(self, data: bytes) -> bool:
        """Return True if ``data``, an invalid batch, contains a sector of zeros followed only by
        zeros.

        If the batch ends with more zeros than a record can, the zeros after it count as part of its
        last sector. Otherwise those zeros come from a later write, before which this batch had been
        written completely.
        """
        end = self._position + len(data)
        if not self._only_zeros_from(end):
            return False
        zeros = len(data) - len(data.rstrip(b"\0"))
        if zeros >= LAST_PIECE_MIN or len(data) == LENGTH_SIZE:
            data += bytes(min(self._size - end, SECTOR_SIZE))
        for start in range(-self._position % SECTOR_SIZE, len(data), SECTOR_SIZE):
            sector = data[start : start + SECTOR_SIZE]
            if len(sector) >= LAST_PIECE_MIN and not sector.strip(b"\0"):
                return True
        return False
