"""Pack the questions of a lane into frames, in its own process: repeat them, time them, write them.

A lane's frames are in one file: for each, a line of its sizes, its body and its recorded answers.

**Invariant:** equal questions give equal files, and their digest shows whether two plans are equal.
Memory does not grow with the record or the rounds; each round repeats the same rows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from authorizerd.replay.load.plan.pacing import US_PER_S, Schedule
from authorizerd.replay.load.surfaces import SURFACES
from authorizerd.replay.plans import LoadPlan

if TYPE_CHECKING:
    import pyarrow as pa

LINGER_US: Final = 1000
FRAME_BYTES_MAX: Final = 100_000
"""Maximum size of a frame's questions, below the daemon's default limit."""
_COLUMNS: Final = ("number", "elapsed_ms", "allowed", "question")


class TimedQuestion(msgspec.Struct, frozen=True, gc=False):
    """An encoded question, the time when it is due, and the recorded answer."""

    due_us: int
    allowed: bool
    question: bytes


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A request of several questions; ``recorded`` has one byte for each: 1 allowed, 0 denied."""

    number: int
    due_us: int
    body: bytes
    recorded: bytes


class LaneDigest(msgspec.Struct, frozen=True):
    """The size of one lane of a plan, and the hash of its frames."""

    lane: int
    digest: str
    frames: int = 0
    questions: int = 0
    last_due_us: int = 0


def pack_lane(
    plan: LoadPlan, schedule: Schedule, lane: int, batches: Iterable[pa.RecordBatch], file: BinaryIO
) -> LaneDigest:
    """Write the frames of a lane to ``file``, and return its digest. Blocks.

    Args:
        batches: the lane's questions, with the columns ``number, elapsed_ms, allowed, question``.

    Raises:
        OSError: a temporary file cannot be written.
    """
    # In a closed loop, all questions are due at 0, so only ``batch`` and size end a frame.
    timed = _time_questions(plan, schedule, repeat_batches(batches, schedule.rounds))
    return write_frames(lane, frames_of(timed, plan.surface, plan.batch, LINGER_US), file)


def temporary_file() -> BinaryIO:
    """Return a new file in Spark's first folder for temporary data; closing it removes it.

    Raises:
        OSError: it cannot be created.
    """
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return TemporaryFile(dir=folder or None)


def write_batches(batches: Iterable[pa.RecordBatch], file: BinaryIO) -> None:
    """Write batches with the same columns to a new file."""
    from pyarrow import ipc  # here, because the report of a load needs only the types above

    writer = None
    for batch in batches:
        writer = writer or ipc.new_stream(file, batch.schema)
        writer.write_batch(batch)
    if writer is not None:
        writer.close()


def read_batches(file: BinaryIO) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file, from its beginning."""
    from pyarrow import ipc

    file.seek(0, os.SEEK_END)
    if file.tell():
        file.seek(0)
        yield from ipc.open_stream(file)


def repeat_batches(
    batches: Iterable[pa.RecordBatch], rounds: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Write the batches to a temporary file; yield them in each round, with its number from 0."""
    with temporary_file() as file:
        write_batches(batches, file)
        for number in range(rounds):
            for batch in read_batches(file):
                yield number, batch


def _time_questions(
    plan: LoadPlan, schedule: Schedule, batches: Iterable[tuple[int, pa.RecordBatch]]
) -> Iterator[TimedQuestion]:
    """Yield the questions of a lane that are due before the load's end."""
    end_us = None if plan.ends_s is None else plan.ends_s * US_PER_S
    for round_number, batch in batches:
        before = round_number * schedule.events
        for number, elapsed_ms, allowed, question in zip(
            *(batch.column(name).to_pylist() for name in _COLUMNS), strict=True
        ):
            due_us = schedule.due_us(before + number, elapsed_ms) if plan.is_open else 0
            # Due times never decrease within a lane, so all later questions are too late as well.
            if due_us is None or (end_us is not None and due_us >= end_us):
                return
            yield TimedQuestion(due_us, allowed, question)


def frames_of(
    questions: Iterable[TimedQuestion], surface: str, batch: int, linger_us: int
) -> Iterator[Frame]:
    """Yield frames of at most ``batch`` questions, all due less than ``linger_us`` apart.

    A frame is due with its first question. The others are sent early, by less than ``linger_us``:
    if the frame waited for its last question, latencies would include that wait.
    """
    encode_body = SURFACES[surface].encode_body
    waiting: list[TimedQuestion] = []
    size = number = 0
    for question in chain(questions, [None]):
        if waiting and (
            question is None
            or len(waiting) >= batch
            or question.due_us - waiting[0].due_us >= linger_us
            or size + len(question.question) > FRAME_BYTES_MAX
        ):
            body = encode_body(number, [each.question for each in waiting])
            recorded = bytes(each.allowed for each in waiting)
            yield Frame(number, waiting[0].due_us, body, recorded)
            number += 1
            waiting, size = [], 0
        if question is not None:
            waiting.append(question)
            size += len(question.question)


def write_frames(lane: int, frames: Iterable[Frame], file: BinaryIO) -> LaneDigest:
    """Write the frames of a lane to ``file``, and return its digest.

    Raises:
        OSError: the file cannot be written.
    """
    digest = hashlib.sha256()
    count = questions = last_due_us = 0
    for count, frame in enumerate(frames, 1):  # noqa: B007 - the last one is the number of frames
        head = f"{frame.number} {frame.due_us} {len(frame.body)} {len(frame.recorded)}\n"
        written = head.encode() + frame.body + frame.recorded
        digest.update(written)
        file.write(written)
        questions += len(frame.recorded)
        last_due_us = frame.due_us
    return LaneDigest(lane, digest.hexdigest(), count, questions, last_due_us)


def read_frames(file: BinaryIO) -> Iterator[Frame]:
    """Yield the frames of a file, from its beginning."""
    file.seek(0)
    for head in iter(file.readline, b""):
        number, due_us, body, recorded = map(int, head.split())
        yield Frame(number, due_us, file.read(body), file.read(recorded))


def plan_hash(lanes: Iterable[LaneDigest]) -> str:
    """Return the hash of a whole plan; the order of ``lanes`` does not matter."""
    ordered = sorted(lanes, key=lambda lane: lane.lane)
    lines = (f"{lane.lane} {lane.frames} {lane.digest}\n" for lane in ordered)
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"
