"""Schedule the questions: as recorded, faster or slower, or at a given rate.

**Invariant:** a question's time depends only on its number and on its place in the record.
Nothing that happens during the load changes it.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

US_PER_S: Final = 1_000_000


class Pacing(msgspec.Struct, frozen=True, kw_only=True):
    """The schedule of a load. Without a ``rate``, recorded times are divided by ``speed``.

    ``rate`` is in questions per second. The next round of the record begins ``period_ms`` of
    recorded time after the one before it.
    """

    events: int
    period_ms: float
    speed: float = 1.0
    rate: float | None = None

    def due_us(self, number: int, elapsed_ms: float) -> int:
        """Return when a question is due, in microseconds from the start.

        Args:
            number: the number of questions before it, in all rounds.
            elapsed_ms: time from the first event of the record to this one, with gaps capped.
        """
        if self.rate is not None:
            return round(number / self.rate * US_PER_S)
        rounds = number // self.events
        return round((rounds * self.period_ms + elapsed_ms) * 1000 / self.speed)

    def rounds_for(self, seconds: float) -> int:
        """Return the number of rounds that provide questions for ``seconds``."""
        recorded_s = self.period_ms / 1000 / self.speed
        round_s = recorded_s if self.rate is None else self.events / self.rate
        return max(1, math.ceil(seconds / round_s))
