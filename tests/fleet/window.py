"""Which states may be visible at a time, by what clients have sent and were told."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


class Window:
    """Which states may be visible at a time, by what clients have sent and were told.

    Args:
        sent: times, and the first offsets of the batches of what was sent then.
        acknowledged: times, and the last offsets of what must be visible from then on.
        last_offset: the end of the log.
    """

    def __init__(
        self,
        sent: Sequence[tuple[float, int]],
        acknowledged: Sequence[tuple[float, int]],
        last_offset: int,
    ) -> None:
        self._sent = sorted(sent)
        self._acknowledged = sorted(acknowledged)
        self._first = [-1, *accumulate((offset for _, offset in self._acknowledged), max)]
        later = accumulate((offset for _, offset in reversed(self._sent)), min)
        self._beyond = [*reversed([*later]), last_offset + 1]

    def first(self, sent: float) -> int:
        """Return the lowest offset that the answer to a request sent at this time may show."""
        return self._first[bisect_left(self._acknowledged, (sent, -1))]

    def last(self, answered: float) -> int:
        """Return the highest offset that an answer of this time may show."""
        return self._beyond[bisect_left(self._sent, (answered, self._beyond[-1]))] - 1
