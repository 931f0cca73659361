"""Batches found in a file that is damaged, past what cannot be read.

Law: a batch that is found is whole, by its length and its CRC. Whether it belongs where it stands
is for an inspection to say.
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


def readable_batches(path: Path, start: int, storage: Storage) -> Iterator[RecordBatch | int]:
    """Yield the batches from ``start`` on; for what cannot be read, how many bytes it is.

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
    """Return the size that the batch at ``position`` announces, 0 where none can be."""
    file.seek(position)
    start = file.read(LENGTH_SIZE)
    if len(start) < LENGTH_SIZE:
        return 0
    try:
        return batch_size(start)
    except DecodeError:
        return 0


def find_batch(storage: Storage, path: Path, start: int, base_offset: int) -> int | None:
    """Return where, from ``start`` on, a whole batch of ``base_offset`` begins; None: nowhere.

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
