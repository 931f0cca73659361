"""Count a lane's questions, latencies, and the answers that differ from the record.

**Invariant:** every question that was sent is counted once: as answered, an error or unanswered.
Latencies and rates exclude the warm-up; counts and comparisons include it. A percentile of a
histogram is never below the exact one, exceeds it by less than the share ``RELATIVE_ERROR``, and
does not depend on how the samples were distributed over merged histograms.

Source: the buckets of HdrHistogram: 128 for each power of two, and one for each ns below 256 ns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from authorizerd.protocol.decisions.stream import ALLOWED, DENIED, NOT_READY
from authorizerd.replay.load.plan.frames import Frame, LaneDigest
from authorizerd.replay.load.surfaces import NOT_READY_ERRORS, SURFACES, Answer
from authorizerd.replay.plans import LoadPlan

_LINEAR_BITS: Final = 7
_LINEAR: Final = 1 << _LINEAR_BITS

RELATIVE_ERROR: Final = 1 / _LINEAR
"""Maximum error of a percentile, as a share of the exact value."""
NOT_READY_QUESTION: Final = "not ready"
NOT_VALID: Final = "not a valid question"
NS_PER_S: Final = 1_000_000_000
OUTAGES_LISTED_MAX: Final = 1000


def bucket_of(value_ns: int) -> int:
    """Return the bucket of a duration; a negative duration is in bucket 0."""
    if value_ns <= 0:
        return 0
    shift = value_ns.bit_length() - _LINEAR_BITS - 1
    return value_ns if shift <= 0 else (shift << _LINEAR_BITS) + (value_ns >> shift)


def last_of(bucket: int) -> int:
    """Return the largest duration of ``bucket``, in nanoseconds."""
    shift = max(0, (bucket >> _LINEAR_BITS) - 1)
    return ((bucket - (shift << _LINEAR_BITS) + 1) << shift) - 1


class Histogram(msgspec.Struct, array_like=True):
    """Counts by bucket, and the exact largest sample."""

    counts: dict[int, int] = {}
    max_ns: int = 0

    @property
    def samples(self) -> int:
        return sum(self.counts.values())

    def record(self, value_ns: int, count: int = 1) -> None:
        """Add ``count`` samples of one duration."""
        bucket = bucket_of(value_ns)
        self.counts[bucket] = self.counts.get(bucket, 0) + count
        if value_ns > self.max_ns:
            self.max_ns = value_ns

    def merge(self, other: Histogram) -> None:
        """Add the samples of ``other``."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.max_ns = max(self.max_ns, other.max_ns)

    def percentile_ns(self, percent: float) -> int | None:
        """Return a duration that ``percent`` of the samples do not exceed; None without samples.

        Source: the nearest rank, so that 100 is the largest sample.
        """
        left = self.samples * percent / 100
        for bucket, count in sorted(self.counts.items()):
            left -= count
            if left <= 1e-9:  # the rank is a whole number, apart from rounding errors
                return min(last_of(bucket), self.max_ns)
        return self.max_ns if self.counts else None


def merge_all(histograms: Iterable[Histogram]) -> Histogram:
    """Return the histogram of all samples."""
    total = Histogram()
    for histogram in histograms:
        total.merge(histogram)
    return total


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


class Outage(msgspec.Struct, frozen=True):
    """A time without a connection, in seconds from the load's start.

    ``lost`` counts the questions whose answers were lost with the connection.
    """

    lane: int
    begin_s: float
    seconds: float
    lost: int
    reason: str


class Second(msgspec.Struct, array_like=True):
    """One second of the load: the questions due in it, and the questions answered in it.

    ``latency`` is the corrected latency of the questions that were due.
    """

    offered: int = 0
    served: int = 0
    latency: Histogram = msgspec.field(default_factory=Histogram)


class Counts(msgspec.Struct, kw_only=True):
    """Numbers of questions, and of ``reconnects``.

    ``warm_up`` counts those that latencies and rates exclude, ``lost`` those whose answers were
    lost with a connection, which were asked again.
    """

    sent: int = 0
    answered: int = 0
    not_ready: int = 0
    unanswered: int = 0
    dropped: int = 0
    late: int = 0
    warm_up: int = 0
    mismatches: int = 0
    reconnects: int = 0
    lost: int = 0


class LaneResult(Counts, kw_only=True):
    """The result of one task; times count from the load's start."""

    planned: LaneDigest
    start_s: float = 0.0
    """Start of the load, in seconds since 1970; the same for all lanes."""
    start_skew_ms: float = 0.0
    """Delay from the agreed start to the lane's own start, by the lane's clock."""
    refused: str | None = None
    """Why the lane sent nothing; None if the load began."""
    errors: dict[str, int] = {}
    first_mismatches: list[Mismatch] = []
    outages: list[Outage] = []
    """The first ``OUTAGES_LISTED_MAX``."""
    longest_outage_s: float = 0.0
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
        self._question_at = SURFACES[plan.surface].question_at
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

    def record_outage(self, begin_ns: int, end_ns: int, lost: int, reason: str) -> None:
        """Add a time without a connection, whose questions in flight are asked again."""
        result, seconds = self.result, (end_ns - begin_ns) / 1e9
        result.reconnects += 1
        result.lost += lost
        result.longest_outage_s = max(result.longest_outage_s, seconds)
        if len(result.outages) < OUTAGES_LISTED_MAX:
            outage = Outage(result.planned.lane, begin_ns / 1e9, seconds, lost, reason)
            result.outages.append(outage)

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
                    question=self._question_at(frame.body, position),
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
        number, timeline = at_ns // NS_PER_S, self.result.timeline
        if number not in timeline:
            timeline[number] = Second()
        return timeline[number]
