"""The record batches in an answer to a Fetch.

Source: Kafka documentation, "Record Batch"; KIP-74 (a fetched batch may be cut off).
"""

from __future__ import annotations

from collections.abc import Iterator

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import (
    LENGTH_SIZE,
    RecordBatch,
    batch_size,
    decode_batch,
)


def read_fetched_batches(records: bytes | bytearray) -> Iterator[RecordBatch]:
    """Yield the complete batches in ``records``, which must not change. The last may be cut off.

    Raises:
        DecodeError: a batch is damaged, or even the first one is incomplete.
    """
    view = memoryview(records)
    position = 0
    while position + LENGTH_SIZE <= len(view):
        end = position + batch_size(bytes(view[position : position + LENGTH_SIZE]))
        if end > len(view):
            break
        yield decode_batch(bytes(view[position:end]))
        position = end
    if records and not position:
        raise DecodeError(f"the first batch is larger than the {len(records)} bytes fetched", 8)
