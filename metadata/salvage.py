"""Find batches in a damaged file, past the bytes that cannot be read.

**Invariant:** every batch found is complete by its length and its CRC. The inspection decides
whether it is in the right place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, Final

from authorizerd.metadata.storage import Storage
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import LENGTH_SIZE, RecordBatch, batch_size, decode_batch

WINDOW_SIZE: Final = 1 << 20


def scan_batches(path: Path, start: int, storage: Storage) -> Iterator[RecordBatch | int]:
    """Yield the batches from ``start`` on, and the number of bytes of each unreadable range.

    Raises:
        OSError: the file cannot be read.
    """
    size, position = storage.size(path), start
    with closing(storage.open(path)) as file:
        while position < size:
            length = _announced(file, position)
            if not 0 < length <= size - position:
                yield size - position
                return
            file.seek(position)
            data = file.read(length)
            try:
                yield decode_batch(data)
            except DecodeError:
                yield length
            position += length


def _announced(file: BinaryIO, position: int) -> int:
    """Return the size that the batch at ``position`` announces, or 0 if the size is impossible."""
    file.seek(position)
    start = file.read(LENGTH_SIZE)
    if len(start) < LENGTH_SIZE:
        return 0
    try:
        return batch_size(start)
    except DecodeError:
        return 0


def find_batch(storage: Storage, path: Path, start: int, base_offset: int) -> int | None:
    """Return the first position from ``start`` where a whole batch of ``base_offset`` begins, or
    None.

    Raises:
        OSError: the file cannot be read.
    """
    needle = base_offset.to_bytes(8, "big")
    size = storage.size(path)
    position = start
    with closing(storage.open(path)) as file:
        while size - position >= LENGTH_SIZE:
            file.seek(position)
            window = file.read(WINDOW_SIZE)
            at = window.find(needle)
            if at < 0:
                position += max(len(window) - len(needle) + 1, 1)
            elif _is_batch(file, position + at, size):
                return position + at
            else:
                position += at + 1
    return None


def _is_batch(file: BinaryIO, position: int, size: int) -> bool:
    length = _announced(file, position)
    if not 0 < length <= size - position:
        return False
    file.seek(position)
    try:
        decode_batch(file.read(length))
    except DecodeError:
        return False
    return True
