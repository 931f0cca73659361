"""Make the frames of one lane, in its task: repeat its questions, time them, and write them.

**Invariant:** memory does not grow with the record or the rounds; each round repeats the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile
from typing import BinaryIO

import pyarrow as pa

from authorizerd.replay.load.plan.frames import (
    LaneDigest,
    TimedQuestion,
    frames_of,
    write_frames,
)
from authorizerd.replay.load.plan.pacing import US_PER_S, Pacing
from authorizerd.replay.plans import LoadPlan


def pack_lane(
    plan: LoadPlan,
    pacing: Pacing,
    rounds: int,
    lane: int,
    batches: Iterable[pa.RecordBatch],
    file: BinaryIO,
) -> LaneDigest:
    """Write the frames of a lane to ``file``, and return its digest. Blocks.

    Args:
        batches: the lane's questions, with the columns ``number, elapsed_ms, allowed, question``.

    Raises:
        OSError: a temporary file cannot be written.
    """
    # In a closed loop, all questions are due at 0, so only ``batch`` and size end a frame.
    linger_us = round(plan.linger_ms * 1000) if plan.is_open else US_PER_S
    timed = _timed(plan, pacing, repeat_batches(batches, rounds))
    return write_frames(lane, frames_of(timed, plan.surface, plan.batch, linger_us), file)


def temporary_file() -> BinaryIO:
    """Return a new file in Spark's first folder for temporary data; closing it removes it.

    Raises:
        OSError: it cannot be created.
    """
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return TemporaryFile(dir=folder or None)


def repeat_batches(
    batches: Iterable[pa.RecordBatch], rounds: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each batch with the number of its round, from 0.

    The first round also writes the batches to a temporary file, which later rounds read.
    """
    if rounds == 1:
        yield from ((0, batch) for batch in batches)
        return
    with temporary_file() as file:
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


def _timed(
    plan: LoadPlan, pacing: Pacing, batches: Iterable[tuple[int, pa.RecordBatch]]
) -> Iterator[TimedQuestion]:
    """Yield the questions of a lane that are due before the load's end."""
    end_us = None if plan.ends_s is None else plan.ends_s * US_PER_S
    columns = ("number", "elapsed_ms", "allowed", "question")
    for round_number, batch in batches:
        before = round_number * pacing.events
        for number, elapsed_ms, allowed, question in zip(
            *(batch.column(name).to_pylist() for name in columns), strict=True
        ):
            due_us = pacing.due_us(before + number, elapsed_ms) if plan.is_open else 0
            # Due times never decrease within a lane, so all later questions are too late as well.
            if due_us is None or (end_us is not None and due_us >= end_us):
                return
            yield TimedQuestion(due_us, allowed, question)
