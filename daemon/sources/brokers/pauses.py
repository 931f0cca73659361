"""How long to pause between requests: after a listing, after a failure, or for a barrier."""

from __future__ import annotations

from random import Random
from typing import Final

from authorizerd.daemon.sources.brokers.messages import Listed

JITTER: Final = 0.1
"""The fraction by which a pause varies, up or down."""
PAUSE_PER_LISTING: Final = 10.0
"""A pause is at least this many times as long as the preceding request, so slow requests are rarer.
"""
EAGER_SECONDS_MIN: Final = 0.05
RETRY_SECONDS_MIN: Final = 0.1
RETRY_SECONDS_MAX: Final = 10.0


class Pauses:
    """Compute pauses. ``pause_max`` limits them, unless the broker asks for more.

    Args:
        poll: the usual pause, in seconds.
    """

    def __init__(self, poll: float, pause_max: float, random: Random) -> None:
        self._poll = poll
        self._pause_max = max(poll, pause_max)
        self._random = random
        self._failures = 0
        self._eager = EAGER_SECONDS_MIN

    def after_listing(self, listed: Listed, *, is_awaited: bool) -> float:
        """Return the pause after a listing.

        Args:
            is_awaited: True if a barrier waits for the next one. Pauses then begin short, and
                double until the next barrier.
        """
        pause = min(max(self._poll, PAUSE_PER_LISTING * listed.seconds), self._pause_max)
        if listed.throttle_seconds:
            pause = 2 * max(pause, listed.throttle_seconds)
        pause *= self._random.uniform(1 - JITTER, 1 + JITTER)
        if is_awaited:
            pause = min(pause, max(self._eager, self.before_eager(listed)))
            self._eager *= 2
        else:
            self._eager = EAGER_SECONDS_MIN
        return pause

    def before_eager(self, listed: Listed) -> float:
        """Return the shortest pause after a listing: at most half of the time goes to requests."""
        return max(EAGER_SECONDS_MIN, listed.seconds, listed.throttle_seconds)

    def become_eager(self) -> None:
        """Start with a short pause again, since a new barrier waits."""
        self._eager = EAGER_SECONDS_MIN

    def after_failure(self) -> float:
        """Return the pause after a failure, which doubles until ``succeed``."""
        pause = min(RETRY_SECONDS_MIN * 2.0 ** min(self._failures, 16), RETRY_SECONDS_MAX)
        self._failures += 1
        return pause * self._random.uniform(1 - JITTER, 1 + JITTER)

    def succeed(self) -> None:
        """Start with short pauses after the next failure."""
        self._failures = 0
