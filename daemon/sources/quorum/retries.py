"""How long to wait before the next try: longer each time, with jitter, so that daemons spread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FIRST_SECONDS: Final = 0.05
SECONDS_MAX: Final = 1.0
JITTER: Final = 0.2
DOUBLINGS_MAX: Final = 10

ELECTION_SECONDS: Final = 0.1
"""The pause between two questions to a node that answers, but does not know the new leader yet."""


class Retries:
    """Count the tries since the last success.

    Args:
        random: returns a number from 0 to 1.
    """

    def __init__(self, random: Callable[[], float]) -> None:
        self._random: Final = random
        self.count = 0

    def succeed(self) -> None:
        self.count = 0

    def next_delay(self) -> float:
        """Return the seconds to wait before one more try."""
        delay = min(FIRST_SECONDS * (1 << min(self.count, DOUBLINGS_MAX)), SECONDS_MAX)
        self.count += 1
        return self._spread(delay)

    def election_delay(self) -> float:
        """Return the seconds to wait for news of an election. They do not grow."""
        return self._spread(ELECTION_SECONDS)

    def _spread(self, seconds: float) -> float:
        return seconds * (1 + JITTER * (2 * self._random() - 1))
