"""How long to wait before the next try: longer each time, with jitter, so that daemons spread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FIRST_SECONDS: Final = 0.05
SECONDS_MAX: Final = 1.0
JITTER: Final = 0.2
DOUBLINGS_MAX: Final = 10


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
        return delay * (1 + JITTER * (2 * self._random() - 1))
