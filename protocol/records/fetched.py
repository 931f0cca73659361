"""The record batches in an answer to a Fetch.

Source: Kafka documentation, "Record Batch"; KIP-74 (a fetched batch may be cut off).
"""

from __future__ import annotations

from typing import Final

from authorizerd.acl.steps import Steps
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import (
    LENGTH_SIZE,
    RecordBatch,
    batch_size,
    decode_batch,
)

BYTES_PER_STEP: Final = 64 << 10
BATCHES_PER_STEP: Final = 128


def read_fetched_batches(records: bytes | bytearray) -> Steps[list[RecordBatch]]:
    """Return, in steps, the complete batches in ``records``. A last one may be cut off.

    Raises:
        DecodeError: a batch is damaged, or not even the first one is complete.
    """
    view = memoryview(records)
    batches: list[RecordBatch] = []
    position = step_end = 0
    while position + LENGTH_SIZE <= len(view):
        end = position + batch_size(bytes(view[position : position + LENGTH_SIZE]))
        if end > len(view):
            break
        batches.append(decode_batch(bytes(view[position:end])))
        position = end
        if position >= step_end or len(batches) % BATCHES_PER_STEP == 0:
            step_end = position + BYTES_PER_STEP
            yield
    if records and not batches:
        raise DecodeError(f"the first batch has more than the {len(records)} bytes fetched", 8)
    return batches
