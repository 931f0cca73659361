"""What came of a lane's questions: counts, latencies, and the answers that were not as recorded.

**Invariant:** every question that was sent ends in exactly one of answered, errors and unanswered.
Figures of time leave the warm-up out; counts and comparisons do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from authorizerd.protocol.decisions.stream import ALLOWED, DENIED, NOT_READY
from authorizerd.replay.load.frames import Frame
from authorizerd.replay.load.histogram import Histogram
from authorizerd.replay.load.questions import question_at
from authorizerd.replay.load.surfaces import NOT_READY_ERRORS, Answer

if TYPE_CHECKING:
    from authorizerd.replay.load.lane import Sent

NOT_VALID: Final = "not a valid question"
NS_PER_S: Final = 1_000_000_000


class Mismatch(msgspec.Struct, frozen=True):
    """A question that was answered otherwise than recorded, by the ACLs at ``offset``."""

    question: list[object]
    recorded: bool
    answered: bool
    offset: int
    at_ms: float


class Second(msgspec.Struct):
    """One second of the load: what was due in it, what was answered in it, and their latency.

    ``latency`` holds (bucket, questions) of what was due in it, by corrected latency.
    """

    second: int
    offered: int = 0
    served: int = 0
    latency: list[tuple[int, int]] = []
    max_ns: int = 0


class HistogramRows(msgspec.Struct, frozen=True):
    rows: list[tuple[int, int]]
    max_ns: int

    @classmethod
    def of(cls, histogram: Histogram) -> HistogramRows:
        return cls(histogram.rows(), histogram.max_ns)

    def histogram(self) -> Histogram:
        return Histogram(dict(self.rows), self.max_ns)


class LaneResult(msgspec.Struct, kw_only=True):
    """What a task gives back; times are from the load's start."""

    lane: int
    start_s: float = 0.0
    """When the load started: seconds since 1970, the same for all lanes."""
    start_skew_ms: float = 0.0
    """How long after the agreed start this lane's clock said that it had begun."""
    refused: str | None = None
    """Why nothing was sent; None: the load was begun."""
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
    corrected: HistogramRows = HistogramRows([], 0)
    service: HistogramRows = HistogramRows([], 0)
    send_lag: HistogramRows = HistogramRows([], 0)
    timeline: list[Second] = []
    finished_ns: int = 0
    ended: str | None = None
    ended_ns: int | None = None


class Tally:
    def __init__(self, lane: int, surface: str, warm_up_ns: int, listed_max: int) -> None:
        self._surface = surface
        self._warm_up_ns = warm_up_ns
        self._listed_max = listed_max
        self._result = LaneResult(lane=lane)
        self._corrected = Histogram()
        self._service = Histogram()
        self._send_lag = Histogram()
        self._seconds: dict[int, tuple[Second, Histogram]] = {}
        self.finished_ns = 0

    def sent(self, sent: Sent, held_up_ns: int) -> None:
        """Take a frame that was sent, ``held_up_ns`` of the time since its due for the target."""
        questions = len(sent.frame.recorded)
        self._result.sent += questions
        if held_up_ns:
            self._result.late += questions
        if self._is_warm_up(sent.due_ns):
            self._result.warm_up += questions
            return
        self._send_lag.record(sent.sent_ns - sent.due_ns - held_up_ns, questions)
        self._second(sent.due_ns)[0].offered += questions

    def dropped(self, frame: Frame, now_ns: int) -> None:
        """Take a frame that was never sent: it counts with the time it had waited."""
        questions, due_ns = len(frame.recorded), frame.due_us * 1000
        self._result.dropped += questions
        if self._is_warm_up(due_ns):
            self._result.warm_up += questions
            return
        self._second(due_ns)[0].offered += questions
        self._late_for_good(due_ns, now_ns, questions)

    def unanswered(self, sent: Sent, now_ns: int) -> None:
        """Take a frame whose answer never came: it counts with the time it had waited."""
        questions = len(sent.frame.recorded)
        self._result.unanswered += questions
        if not self._is_warm_up(sent.due_ns):
            self._late_for_good(sent.due_ns, now_ns, questions)

    def answered(self, sent: Sent, answer: Answer, now_ns: int) -> None:
        """Take what answers a frame; a decision a question, unless there is an error."""
        questions = len(sent.frame.recorded)
        if answer.error is not None:
            self._add_error(answer.error, questions)
            if answer.error in NOT_READY_ERRORS:
                self._result.not_ready += questions
            return
        self._take_offset(answer.offset)
        wrong = 0
        if answer.decisions != sent.frame.recorded:
            wrong = self._compare(sent.frame, answer, now_ns)
        self._result.answered += questions - wrong
        if self._is_warm_up(sent.due_ns):
            return
        self._corrected.record(now_ns - sent.due_ns, questions)
        self._service.record(now_ns - sent.sent_ns, questions)
        self._second(sent.due_ns)[1].record(now_ns - sent.due_ns, questions)
        self._second(now_ns)[0].served += questions - wrong

    def ended(self, reason: str, now_ns: int) -> None:
        """Note what ended the lane before its time."""
        self._result.ended = reason
        self._result.ended_ns = now_ns

    def result(self, *, start_s: float, start_skew_ms: float) -> LaneResult:
        """Return all of it."""
        for second, latency in self._seconds.values():
            second.latency, second.max_ns = latency.rows(), latency.max_ns
        return msgspec.structs.replace(
            self._result,
            start_s=start_s,
            start_skew_ms=start_skew_ms,
            corrected=HistogramRows.of(self._corrected),
            service=HistogramRows.of(self._service),
            send_lag=HistogramRows.of(self._send_lag),
            timeline=[self._seconds[number][0] for number in sorted(self._seconds)],
            finished_ns=self.finished_ns,
        )

    def _compare(self, frame: Frame, answer: Answer, now_ns: int) -> int:
        """Count what is not as recorded; return how many are no decisions at all."""
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
            if decided == NOT_READY:
                self._result.not_ready += 1
            self._add_error("not ready" if decided == NOT_READY else NOT_VALID, 1)
        return wrong

    def _add_mismatch(self, frame: Frame, position: int, answer: Answer, now_ns: int) -> None:
        self._result.mismatches += 1
        if len(self._result.first_mismatches) < self._listed_max:
            self._result.first_mismatches.append(
                Mismatch(
                    question=question_at(self._surface, frame.body, position),
                    recorded=frame.recorded[position] == ALLOWED,
                    answered=answer.decisions[position] == ALLOWED,
                    offset=answer.offset,
                    at_ms=now_ns / 1e6,
                )
            )

    def _add_error(self, error: str, questions: int) -> None:
        self._result.errors[error] = self._result.errors.get(error, 0) + questions

    def _take_offset(self, offset: int) -> None:
        if self._result.first_offset < 0:
            self._result.first_offset = offset
        self._result.last_offset = offset

    def _late_for_good(self, due_ns: int, now_ns: int, questions: int) -> None:
        self._corrected.record(now_ns - due_ns, questions)
        self._second(due_ns)[1].record(now_ns - due_ns, questions)

    def _is_warm_up(self, due_ns: int) -> bool:
        return due_ns < self._warm_up_ns

    def _second(self, at_ns: int) -> tuple[Second, Histogram]:
        number = at_ns // NS_PER_S
        found = self._seconds.get(number)
        if found is None:
            found = self._seconds[number] = (Second(int(number)), Histogram())
        return found
