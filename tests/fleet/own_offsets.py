"""Which states of a cluster the offsets mean that a daemon has chosen itself.

A follower of brokers numbers the listings that it puts in force. The judge does not know these
numbers. But each one means one state, and a later one no earlier state.

**Invariant:** an offset keeps every state that explains all answers so far, so a fault is only
reported if no choice of states explains them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator


class OwnOffsets:
    """The states, as offsets of the cluster's log, that each of the daemon's offsets may mean."""

    def __init__(self) -> None:
        self._possible: dict[int, list[int]] = {}

    def narrow(
        self, offset: int, states: Iterable[int], explains: Callable[[int], bool]
    ) -> list[int]:
        """Keep the states of an offset that are among ``states`` and explain one more answer.

        Return them. If there are none, the answer is a fault, and the offset keeps what it had.

        Args:
            states: in ascending order.
        """
        before = self._possible.get(offset)
        if before is not None:
            allowed = set(states)
            states = (each for each in before if each in allowed)
        possible = [each for each in states if explains(each)]
        if possible:
            self._possible[offset] = possible
        return possible

    def order(self) -> Iterator[str]:
        """Drop the states before those of lower offsets; yield a text for each offset without any.

        Such an offset is forgotten.
        """
        earliest, shown_by = -1, -1
        for offset in sorted(self._possible):
            possible = self._possible[offset]
            later = possible[bisect_left(possible, earliest) :]
            if later:
                self._possible[offset] = later
                if later[0] > earliest:
                    earliest, shown_by = later[0], offset
                continue
            del self._possible[offset]
            yield (
                f"the daemon's offset {offset} shows the state at {possible[-1]} or before, but its"
                f" offset {shown_by} shows the one at {earliest} or later"
            )

    def forget_from(self, begin: int) -> Iterator[str]:
        """Forget the states from ``begin`` on, which the log has lost; yield what they explained.

        An offset without another state is forgotten.
        """
        for offset, possible in [*self._possible.items()]:
            kept = possible[: bisect_left(possible, begin)]
            if kept:
                self._possible[offset] = kept
                continue
            del self._possible[offset]
            yield (
                f"offset {begin} is lost, but the daemon's offset {offset} shows the state at"
                f" {possible[0]} or later"
            )
