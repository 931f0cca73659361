"""Limit how fast a Kafka listener accepts connections.

**Invariant:** a connection above the limit is delayed, never refused. Each listening socket delays
one connection at a time; the others wait in its queue. So listeners that share a limit take turns,
and a flood on one listener delays connections to another by only a few turns.

Source: KIP-612; Kafka 4.3 ConnectionQuotas.waitForConnectionSlot. The burst is as large as Kafka's.
After the burst, connections are accepted at the full rate, whereas Kafka accepts one per second
until the burst has left its windows.
"""

from __future__ import annotations

from typing import Final


class CreationRate:
    """A token bucket: each connection takes a token, and ``per_second`` tokens are added.

    Args:
        burst_s: the size of the bucket: the tokens that are added in this many seconds.
        now: the current time in seconds, on the clock that ``reserve`` uses.
    """

    def __init__(self, per_second: int, burst_s: int, now: float) -> None:
        self._burst_s: Final = burst_s
        self._tokens = float(per_second * burst_s)
        self._at = now
        self.per_second = per_second

    def change(self, per_second: int, now: float) -> None:
        """Replace the rate. Tokens already taken stay taken."""
        self._refill(now)
        self.per_second = per_second
        self._tokens = min(self._tokens, float(per_second * self._burst_s))

    def reserve(self, now: float) -> float:
        """Take a token for one connection, and return the delay in seconds until it may be served.

        Several connections may wait at once. They are served in the order of their reservations.
        """
        self._refill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self.per_second)

    def _refill(self, now: float) -> None:
        added = (now - self._at) * self.per_second
        self._tokens = min(self._tokens + added, float(self.per_second * self._burst_s))
        self._at = now


class ListenerRates:
    """The limits of one listener: its own, and the one that all listeners share."""

    def __init__(self, own: CreationRate, shared: CreationRate) -> None:
        self._own: Final = own
        self._shared: Final = shared

    def change(self, own: int, shared: int, now: float) -> None:
        """Replace both rates."""
        self._own.change(own, now)
        self._shared.change(shared, now)

    def reserve(self, now: float) -> float:
        """Return the delay in seconds until a connection may be served; it counts for both."""
        return max(self._own.reserve(now), self._shared.reserve(now))
