"""The time of the next attempt to connect, after failed attempts."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

DELAY_SECONDS_MIN: Final = 0.05
DELAY_SECONDS_MAX: Final = 5.0


class Backoff:
    """Compute when to try again: the delay doubles with each failure, up to a limit.

    All times are seconds of one clock, which the caller chooses.

    Attributes:
        next_attempt: the time from which an attempt may be made.
        failures: how many attempts have failed since the last success.

    Args:
        jitter: returns 0 to 1. Half of a delay depends on it, so that the clients of a daemon that
            restarts do not all return at the same moment.
    """

    def __init__(self, jitter: Callable[[], float] = random.random) -> None:
        self._jitter = jitter
        self.next_attempt = float("-inf")
        self.failures = 0

    def fail(self, now: float) -> None:
        """Record an attempt that failed at ``now``."""
        # The exponent is limited because a float cannot hold 2 ** 1024.
        doubled = DELAY_SECONDS_MIN * 2.0 ** min(self.failures, 30)
        self.failures += 1
        self.next_attempt = now + min(DELAY_SECONDS_MAX, doubled) * (1 + self._jitter()) / 2

    def succeed(self) -> None:
        """Record a successful attempt: the next one may follow at once."""
        self.next_attempt = float("-inf")
        self.failures = 0
