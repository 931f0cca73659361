"""Pack the questions of a lane into frames, each due when its first question is.

A lane's frames are in one file: for each, a line of its sizes, its body and its recorded answers.

**Invariant:** equal questions give equal files, and their digest shows whether two plans are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from authorizerd.replay.load.plan.questions import ENCODE_BODY, FRAME_BYTES_MAX


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


class LaneDigest(msgspec.Struct, frozen=True, kw_only=True):
    """The size of one lane of a plan, and the hash of its frames."""

    lane: int
    digest: str
    frames: int = 0
    questions: int = 0
    last_due_us: int = 0


def frames_of(
    questions: Iterable[TimedQuestion], surface: str, batch: int, linger_us: int
) -> Iterator[Frame]:
    """Yield frames of at most ``batch`` questions, all due less than ``linger_us`` apart.

    A frame is due with its first question. The others are sent early, by less than ``linger_us``:
    if the frame waited for its last question, latencies would include that wait.
    """
    waiting: list[TimedQuestion] = []
    size = number = 0
    for question in questions:
        if waiting and (
            len(waiting) >= batch
            or question.due_us - waiting[0].due_us >= linger_us
            or size + len(question.question) > FRAME_BYTES_MAX
        ):
            yield _frame(number, waiting, surface)
            number += 1
            waiting, size = [], 0
        waiting.append(question)
        size += len(question.question)
    if waiting:
        yield _frame(number, waiting, surface)


def _frame(number: int, questions: list[TimedQuestion], surface: str) -> Frame:
    body = ENCODE_BODY[surface](number, [question.question for question in questions])
    recorded = bytes(question.allowed for question in questions)
    return Frame(number, questions[0].due_us, body, recorded)


def write_frames(lane: int, frames: Iterable[Frame], file: BinaryIO) -> LaneDigest:
    """Write the frames of a lane to ``file``, and return its digest.

    Raises:
        OSError: the file cannot be written.
    """
    digest = hashlib.sha256()
    count = questions = last_due_us = 0
    for frame in frames:
        head = f"{frame.number} {frame.due_us} {len(frame.body)} {len(frame.recorded)}\n"
        written = head.encode() + frame.body + frame.recorded
        digest.update(written)
        file.write(written)
        count += 1
        questions += len(frame.recorded)
        last_due_us = frame.due_us
    return LaneDigest(
        lane=lane,
        digest=digest.hexdigest(),
        frames=count,
        questions=questions,
        last_due_us=last_due_us,
    )


def read_frames(file: BinaryIO) -> Iterator[Frame]:
    """Yield the frames of a file, from its beginning."""
    file.seek(0)
    for head in iter(file.readline, b""):
        number, due_us, body, recorded = map(int, head.split())
        yield Frame(number, due_us, file.read(body), file.read(recorded))


def plan_hash(lanes: Iterable[LaneDigest]) -> str:
    """Return the hash of a whole plan; the order of ``lanes`` does not matter."""
    lines = [
        f"{lane.lane} {lane.frames} {lane.digest}\n"
        for lane in sorted(lanes, key=lambda lane: lane.lane)
    ]
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"
