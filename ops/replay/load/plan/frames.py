"""Pack the questions of a lane into frames, each due when its first question is.

**Invariant:** equal questions give equal frames, and a digest shows whether two plans are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

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


class LaneDigest(msgspec.Struct, frozen=True, kw_only=True):
    """The size of one lane of a plan, and the hash of its frames."""

    lane: int
    digest: str
    frames: int
    questions: int
    last_due_us: int


class LaneHash:
    """Computes the digest of a lane from its frames, in order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._frames = self._questions = self._last_due_us = 0

    def add(self, frame: Frame) -> None:
        head = f"{frame.number} {frame.due_us} {len(frame.body)} {len(frame.recorded)}\n"
        self._hash.update(head.encode() + frame.body + frame.recorded)
        self._frames += 1
        self._questions += len(frame.recorded)
        self._last_due_us = frame.due_us

    def digest(self, lane: int) -> LaneDigest:
        return LaneDigest(
            lane=lane,
            digest=self._hash.hexdigest(),
            frames=self._frames,
            questions=self._questions,
            last_due_us=self._last_due_us,
        )


def plan_hash(lanes: Iterable[LaneDigest]) -> str:
    """Return the hash of a whole plan; the order of ``lanes`` does not matter."""
    lines = [
        f"{lane.lane} {lane.frames} {lane.digest}\n"
        for lane in sorted(lanes, key=lambda lane: lane.lane)
    ]
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"
