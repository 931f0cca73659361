"""Schedule the questions: as recorded, faster or slower, or at given rates.

**Invariant:** a question's time depends only on its number and on its place in the record.
Nothing that happens during the load changes it.

Rates are piecewise linear: ``constant``, ``ramp:FROM:TO:SECONDS``, ``step:RATE:SECONDS,…``. The
last rate continues until the questions end.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from authorizerd.replay.load.errors import LoadError

US_PER_S: Final = 1_000_000
_RATE_MIN: Final = 1e-3
_RATE_MAX: Final = 1e9
_SECONDS_MAX: Final = 1e7


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


class Pacing(msgspec.Struct, frozen=True, kw_only=True):
    """The schedule of a load. Without ``segments``, recorded times are divided by ``speed``.

    The next round of the record begins ``period_ms`` of recorded time after the one before it.
    """

    events: int
    period_ms: float
    speed: float = 1.0
    segments: tuple[Segment, ...] = ()

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
        if not self.segments:
            return max(1, math.ceil(seconds * 1000 * self.speed / self.period_ms))
        return max(1, math.ceil(self._questions_within(seconds) / self.events))

    def _seconds_until(self, number: int) -> float | None:
        begun, left = 0.0, float(number)
        for segment in self.segments:
            if left < segment.questions:
                return begun + segment.seconds_until(left)
            begun += segment.seconds
            left -= segment.questions
        last_rate = self.segments[-1].end_rate
        return begun + left / last_rate if last_rate else None

    def _questions_within(self, seconds: float) -> float:
        asked, left = 0.0, seconds
        for segment in self.segments:
            if left < segment.seconds:
                slope = (segment.end_rate - segment.start_rate) / segment.seconds
                return asked + segment.start_rate * left + slope * left**2 / 2
            asked += segment.questions
            left -= segment.seconds
        return asked + left * self.segments[-1].end_rate


def parse_profile(text: str, rate: float | None) -> tuple[Segment, ...]:
    """Return the segments of ``--profile`` and ``--rate``; none to follow the recorded times.

    Raises:
        LoadError: the profile is malformed, or ``rate`` contradicts it.
    """
    kind, _, rest = text.partition(":")
    if kind == "constant" and not rest:
        return () if rate is None else (_segment(text, rate, rate, 1.0),)
    if rate is not None:
        raise LoadError(f"profile {text!r}: contains rates, so remove --rate")
    if kind == "ramp":
        return _not_idle(text, [_segment(text, *_numbers(text, rest, 3))])
    if kind == "step":
        steps = [_numbers(text, step, 2) for step in rest.split(",")]
        return _not_idle(text, [_segment(text, at, at, seconds) for at, seconds in steps])
    raise LoadError(
        f"profile {text!r}: expected constant, ramp:FROM:TO:SECONDS or step:RATE:SECONDS,…"
    )


def _numbers(text: str, part: str, wanted: int) -> list[float]:
    try:
        numbers = [float(number) for number in part.split(":")]
    except ValueError:
        raise LoadError(f"profile {text!r}: expected numbers, found {part!r}") from None
    if len(numbers) != wanted:
        raise LoadError(f"profile {text!r}: expected {wanted} numbers, found {part!r}")
    return numbers


def _not_idle(text: str, segments: list[Segment]) -> tuple[Segment, ...]:
    if not any(segment.questions for segment in segments):
        raise LoadError(f"profile {text!r}: expected a rate above 0")
    return tuple(segments)


def _segment(text: str, start_rate: float, end_rate: float, seconds: float) -> Segment:
    for rate in (start_rate, end_rate):
        if rate != 0 and not _RATE_MIN <= rate <= _RATE_MAX:
            raise LoadError(
                f"profile {text!r}: expected rates of 0, or {_RATE_MIN:g} to {_RATE_MAX:g}"
            )
    if not 0 < seconds <= _SECONDS_MAX:
        raise LoadError(f"profile {text!r}: expected times above 0 and up to {_SECONDS_MAX:g} s")
    return Segment(start_rate, end_rate, seconds)
