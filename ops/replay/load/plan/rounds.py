"""Repeat the questions of a lane without keeping them in memory.

**Invariant:** every round yields the same rows, in the same order.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile

import pyarrow as pa


def repeat_batches(
    batches: Iterable[pa.RecordBatch], rounds: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each batch with the number of its round, from 0.

    The first round also writes the batches to a temporary file, which later rounds read. Blocks.

    Raises:
        OSError: the file cannot be written or read.
    """
    if rounds == 1:
        yield from ((0, batch) for batch in batches)
        return
    with TemporaryFile(dir=_folder()) as file:
        writer = None
        for batch in batches:
            writer = writer or pa.ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
            yield 0, batch
        if writer is None:
            return
        writer.close()
        for number in range(1, rounds):
            file.seek(0)
            for batch in pa.ipc.open_stream(file):
                yield number, batch


def _folder() -> str | None:
    """Return Spark's first folder for temporary data; None for the default of Python."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
