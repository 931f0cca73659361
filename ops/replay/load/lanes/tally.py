"""Count a lane's questions, latencies, and the answers that differ from the record.

**Invariant:** every question that was sent is counted once: as answered, an error or unanswered.
Latencies and rates exclude the warm-up; counts and comparisons include it.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from authorizerd.protocol.decisions.stream import ALLOWED, DENIED, NOT_READY
from authorizerd.replay.load.lanes.histogram import Histogram
from authorizerd.replay.load.lanes.surfaces import NOT_READY_ERRORS, Answer
from authorizerd.replay.load.plan.frames import Frame, LaneDigest
from authorizerd.replay.load.plan.questions import question_at
from authorizerd.replay.plans import LoadPlan

NOT_READY_QUESTION: Final = "not ready"
NOT_VALID: Final = "not a valid question"
NS_PER_S: Final = 1_000_000_000
COUNTS: Final = (
    "sent", "answered", "not_ready", "unanswered", "dropped", "late", "warm_up", "mismatches"
)  # fmt: skip
"""The fields of a ``LaneResult`` that are sums over its questions."""


class Sent(msgspec.Struct, frozen=True, gc=False):
    """A frame in flight."""

    frame: Frame
    due_ns: int
    sent_ns: int


class Mismatch(msgspec.Struct, frozen=True):
    """A question whose answer, by the ACLs at ``offset``, differs from the recorded one."""

    question: Annotated[list[object], msgspec.Meta(min_length=5, max_length=5)]
    recorded: bool
    answered: bool
    offset: int
    at_ms: float


class Second(msgspec.Struct, array_like=True):
    """One second of the load: the questions due in it, and the questions answered in it.

    ``latency`` is the corrected latency of the questions that were due.
    """

    offered: int = 0
    served: int = 0
    latency: Histogram = msgspec.field(default_factory=Histogram)


class LaneResult(msgspec.Struct, kw_only=True):
    """The result of one task; times count from the load's start."""

    planned: LaneDigest
    start_s: float = 0.0
    """Start of the load, in seconds since 1970; the same for all lanes."""
    start_skew_ms: float = 0.0
    """Delay from the agreed start to the lane's own start, by the lane's clock."""
    refused: str | None = None
    """Why the lane sent nothing; None if the load began."""
    sent: int = 0
    answered: int = 0
    errors: dict[str, int] = {}
    not_ready: int = 0
    unanswered: int = 0
    dropped: int = 0
    late: int = 0
    warm_up: int = 0
    mismatches: int = 0
    first_mismatches: list[Mismatch] = []
    first_offset: int = -1
    last_offset: int = -1
    corrected: Histogram = msgspec.field(default_factory=Histogram)
    service: Histogram = msgspec.field(default_factory=Histogram)
    send_lag: Histogram = msgspec.field(default_factory=Histogram)
    timeline: dict[int, Second] = {}
    """By the number of the second."""
    finished_ns: int = 0
    ended: str | None = None
    """Why the lane ended early; None if it did not."""


class Tally:
    """Adds the outcomes of one lane's frames up in ``result``."""

    def __init__(self, planned: LaneDigest, plan: LoadPlan) -> None:
        self.result = LaneResult(planned=planned)
        self._surface = plan.surface
        self._warm_up_ns = int(plan.warm_up_s * 1e9)
        self._listed_max = plan.mismatches_listed_max

    def record_sent(self, sent: Sent, held_up_ns: int) -> None:
        """Add a sent frame; the target held it up for ``held_up_ns`` after it was due."""
        questions = len(sent.frame.recorded)
        self.result.sent += questions
        if held_up_ns:
            self.result.late += questions
        if self._offer(sent.due_ns, questions):
            self.result.send_lag.record(sent.sent_ns - sent.due_ns - held_up_ns, questions)

    def record_dropped(self, frame: Frame, now_ns: int) -> None:
        """Add a frame that is never sent; its latency is the time that it has waited."""
        questions, due_ns = len(frame.recorded), frame.due_us * 1000
        self.result.dropped += questions
        if self._offer(due_ns, questions):
            self._add_wait(due_ns, now_ns, questions)

    def record_unanswered(self, sent: Sent, now_ns: int) -> None:
        """Add a frame that got no answer; its latency is the time that it has waited."""
        questions = len(sent.frame.recorded)
        self.result.unanswered += questions
        if sent.due_ns >= self._warm_up_ns:
            self._add_wait(sent.due_ns, now_ns, questions)

    def record_answer(self, sent: Sent, answer: Answer, now_ns: int) -> None:
        """Add the answer to a frame: one decision per question, unless it is an error.

        An error also counts towards the latencies: without it, a target that takes long to fail
        would look fast.
        """
        questions = served = len(sent.frame.recorded)
        if answer.error is not None:
            self._add_error(answer.error, questions)
            served = 0
        else:
            if self.result.first_offset < 0:
                self.result.first_offset = answer.offset
            self.result.last_offset = answer.offset
            # Compare whole frames first: usually nothing differs.
            if answer.decisions != sent.frame.recorded:
                served -= self._compare(sent.frame, answer, now_ns)
        self.result.answered += served
        if sent.due_ns < self._warm_up_ns:
            return
        self._add_wait(sent.due_ns, now_ns, questions)
        self.result.service.record(now_ns - sent.sent_ns, questions)
        self._second(now_ns).served += served

    def _offer(self, due_ns: int, questions: int) -> bool:
        """Count questions that are due; return False during the warm-up."""
        if due_ns < self._warm_up_ns:
            self.result.warm_up += questions
            return False
        self._second(due_ns).offered += questions
        return True

    def _compare(self, frame: Frame, answer: Answer, now_ns: int) -> int:
        """Count differences from the record; return the number of answers without a decision."""
        wrong = 0
        for position, (recorded, decided) in enumerate(
            zip(frame.recorded, answer.decisions, strict=True)
        ):
            if decided == recorded:
                continue
            if decided in (ALLOWED, DENIED):
                self._add_mismatch(frame, position, answer, now_ns)
                continue
            wrong += 1
            self._add_error(NOT_READY_QUESTION if decided == NOT_READY else NOT_VALID, 1)
        return wrong

    def _add_mismatch(self, frame: Frame, position: int, answer: Answer, now_ns: int) -> None:
        self.result.mismatches += 1
        if len(self.result.first_mismatches) < self._listed_max:
            self.result.first_mismatches.append(
                Mismatch(
                    question=question_at(self._surface, frame.body, position),
                    recorded=frame.recorded[position] == ALLOWED,
                    answered=answer.decisions[position] == ALLOWED,
                    offset=answer.offset,
                    at_ms=now_ns / 1e6,
                )
            )

    def _add_error(self, error: str, questions: int) -> None:
        self.result.errors[error] = self.result.errors.get(error, 0) + questions
        if error in NOT_READY_ERRORS or error == NOT_READY_QUESTION:
            self.result.not_ready += questions

    def _add_wait(self, due_ns: int, now_ns: int, questions: int) -> None:
        self.result.corrected.record(now_ns - due_ns, questions)
        self._second(due_ns).latency.record(now_ns - due_ns, questions)

    def _second(self, at_ns: int) -> Second:
        number = at_ns // NS_PER_S
        found = self.result.timeline.get(number)
        if found is None:
            found = self.result.timeline[number] = Second()
        return found
