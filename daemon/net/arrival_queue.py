"""Arrivals that have sent enough to be served, in a fair order.

**Invariant:** networks take turns, however many arrivals each has. Of one network, the newest comes
first: if more arrive than can be served, the others would wait too long in any order.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from authorizerd.daemon.net.arrival import Arrival


class ArrivalQueue:
    """A queue of arrivals; all operations take constant time."""

    def __init__(self) -> None:
        self._networks: Final[OrderedDict[str | None, dict[Arrival, None]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._networks)

    def add(self, arrival: Arrival) -> None:
        self._networks.setdefault(arrival.network, {})[arrival] = None

    def discard(self, arrival: Arrival) -> None:
        """Remove an arrival, if it is there."""
        waiting = self._networks.get(arrival.network)
        if waiting is not None:
            waiting.pop(arrival, None)
            if not waiting:
                del self._networks[arrival.network]

    def pop(self) -> Arrival:
        """Remove and return the next arrival."""
        network, waiting = self._networks.popitem(last=False)
        arrival, _ = waiting.popitem()
        if waiting:
            self._networks[network] = waiting  # behind all others
        return arrival
