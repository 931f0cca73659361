"""Schedule the questions: as recorded, faster or slower, or at given rates.

**Invariant:** a question's time depends only on its number and on its place in the record.
Nothing that happens during the load changes it.

Rates are piecewise linear: ``constant``, ``ramp:FROM:TO:SECONDS``, ``step:RATE:SECONDS,…``. The
last rate continues until the questions end.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Final

import msgspec
from msgspec.structs import replace

from authorizerd.replay.errors import LoadError
from authorizerd.replay.plans import LoadPlan

QUESTIONS_MAX: Final = 200_000_000
US_PER_S: Final = 1_000_000
_RATE_MIN: Final = 1e-3
_RATE_MAX: Final = 1e9
_SECONDS_MAX: Final = 1e7
_ROUNDS_MAX: Final = 1_000_000_000


class Segment(msgspec.Struct, frozen=True):
    """A period of ``seconds`` in which the rate, in questions per second, changes linearly."""

    start_rate: float
    end_rate: float
    seconds: float

    @property
    def questions(self) -> float:
        return (self.start_rate + self.end_rate) / 2 * self.seconds

    def seconds_until(self, questions: float) -> float:
        """Return the seconds within the segment after which ``questions`` have been asked."""
        slope = (self.end_rate - self.start_rate) / self.seconds
        root = math.sqrt(max(0.0, self.start_rate**2 + 2 * slope * questions))
        # The usual form of the root would divide by the slope, which may be 0.
        return 2 * questions / (self.start_rate + root) if questions else 0.0


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """When to ask the questions. Without ``segments``, recorded times are divided by ``speed``.

    The next of all ``rounds`` of the record begins ``period_ms`` of recorded time after the one
    before it. ``not_asked`` counts the events that cannot be asked, by reason.
    """

    events: int
    period_ms: float
    speed: float = 1.0
    segments: tuple[Segment, ...] = ()
    rounds: int = 1
    not_asked: dict[str, int] = {}

    def due_us(self, number: int, elapsed_ms: float) -> int | None:
        """Return when a question is due, in microseconds from the start; None if never.

        Args:
            number: the number of questions before it, in all rounds.
            elapsed_ms: time from the first event of the record to this one, with gaps capped.
        """
        if not self.segments:
            rounds = number // self.events
            return round((rounds * self.period_ms + elapsed_ms) * 1000 / self.speed)
        seconds = self._seconds_until(number)
        return None if seconds is None else round(seconds * US_PER_S)

    def rounds_for(self, seconds: float) -> int:
        """Return the number of rounds that provide questions for ``seconds``."""
        end_us = seconds * US_PER_S

        def is_over(rounds: int) -> bool:
            begin_us = self.due_us(rounds * self.events, 0)
            return begin_us is None or begin_us >= end_us

        return 1 + bisect_left(range(1, _ROUNDS_MAX), True, key=is_over)

    def _seconds_until(self, number: int) -> float | None:
        begun, left = 0.0, float(number)
        for segment in self.segments:
            if left < segment.questions:
                return begun + segment.seconds_until(left)
            begun += segment.seconds
            left -= segment.questions
        last_rate = self.segments[-1].end_rate
        return begun + left / last_rate if last_rate else None


def make_schedule(
    plan: LoadPlan, questions: int, elapsed_ms: int | None, not_asked: dict[str, int]
) -> Schedule:
    """Return the schedule of a record; the next round begins a mean gap after its end.

    Raises:
        LoadError: there are no questions, or too many.
    """
    if elapsed_ms is None or not questions:
        found = not_asked or "there are no events"
        raise LoadError(f"events: {plan.events}: no event can be asked ({found})")
    schedule = Schedule(
        events=questions,
        period_ms=elapsed_ms + max(1.0, elapsed_ms / max(1, questions - 1)),
        speed=plan.speed,
        segments=parse_profile(plan.profile, plan.rate),
        not_asked=not_asked,
    )
    rounds = plan.loop or schedule.rounds_for(plan.ends_s or 0)
    if rounds * questions > QUESTIONS_MAX:
        raise LoadError(
            f"{rounds} rounds of {questions} questions exceed the limit of {QUESTIONS_MAX}"
        )
    return replace(schedule, rounds=rounds)


def parse_profile(text: str, rate: float | None) -> tuple[Segment, ...]:
    """Return the segments of ``--profile`` and ``--rate``; none to follow the recorded times.

    Raises:
        LoadError: the profile is malformed, or ``rate`` contradicts it.
    """
    kind, _, rest = text.partition(":")
    if text == "constant":
        return () if rate is None else (_parse_segment(text, f"{rate}:1", 2),)
    if rate is not None:
        raise LoadError(f"profile {text!r}: contains rates, so remove --rate")
    if kind not in ("ramp", "step"):
        raise LoadError(
            f"profile {text!r}: expected constant, ramp:FROM:TO:SECONDS or step:RATE:SECONDS,…"
        )
    parts, numbers = ([rest], 3) if kind == "ramp" else (rest.split(","), 2)
    segments = tuple(_parse_segment(text, part, numbers) for part in parts)
    if not any(segment.questions for segment in segments):
        raise LoadError(f"profile {text!r}: expected a rate above 0")
    return segments


def _parse_segment(text: str, part: str, wanted: int) -> Segment:
    """Return a segment of the profile ``text``: one or two rates and its seconds."""
    try:
        numbers = [float(number) for number in part.split(":")]
    except ValueError:
        raise LoadError(f"profile {text!r}: expected numbers, found {part!r}") from None
    if len(numbers) != wanted:
        raise LoadError(f"profile {text!r}: expected {wanted} numbers, found {part!r}")
    *rates, seconds = numbers
    if not all(rate == 0 or _RATE_MIN <= rate <= _RATE_MAX for rate in rates):
        raise LoadError(f"profile {text!r}: expected rates of 0, or {_RATE_MIN:g} to {_RATE_MAX:g}")
    if not 0 < seconds <= _SECONDS_MAX:
        raise LoadError(f"profile {text!r}: expected times above 0 and up to {_SECONDS_MAX:g} s")
    return Segment(rates[0], rates[-1], seconds)
