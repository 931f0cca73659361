"""The memory budget of one endpoint, for the requests and answers of all its connections.

**Invariant:** all connections together stay under the endpoint's bound, which only a single answer
may exceed. Memory is reserved for received bytes, not for announced ones. A reservation never
waits: it succeeds or fails at once, so connections that hold memory never wait for each other.

Source: Kafka's queued.max.request.bytes, which makes its listeners wait instead (KIP-72).
"""

from __future__ import annotations

from typing import Final

from authorizerd.config.bounds import FREE_BYTES


class MemoryBudget:
    """The memory that one endpoint's connections may hold, and what they currently hold."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max: Final = bytes_max
        self.bytes_held = 0


class Reservation:
    """The memory that one connection reserves; its first ``free_bytes`` are free."""

    __slots__ = ("_budget", "_reserved", "free_bytes", "size")

    def __init__(self, budget: MemoryBudget, free_bytes: int = FREE_BYTES) -> None:
        self._budget = budget
        self.free_bytes = free_bytes
        self._reserved = 0
        self.size = 0

    @property
    def exceeds_free_bytes(self) -> bool:
        """True if the connection has reserved memory beyond its free bytes."""
        return self._reserved > 0

    def reserve(self, size: int) -> bool:
        """Return True and hold ``size`` bytes from now on, if the budget allows it.

        Otherwise return False, and keep the bytes held before. Holding fewer bytes always succeeds.
        """
        if size <= self.free_bytes and not self._reserved:  # the usual case, kept fast
            self.size = size
            return True
        return self._hold(size, self._budget.bytes_max)

    def reserve_answer(self, size: int) -> bool:
        """Return True and hold ``size`` more bytes, if any budget is left.

        One answer may exceed the bound: otherwise an answer larger than the whole budget could
        never be sent.
        """
        total = self.size + size
        if total <= self.free_bytes and not self._reserved:
            self.size = total
            return True
        return self._hold(total, self._budget.bytes_max + size)

    def _hold(self, size: int, bytes_max: int) -> bool:
        reserved = max(0, size - self.free_bytes)
        more = reserved - self._reserved
        if more:
            budget = self._budget
            if more > 0 and budget.bytes_held + more > bytes_max:
                return False
            budget.bytes_held += more
            self._reserved = reserved
        self.size = size
        return True
