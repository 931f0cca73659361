"""Barriers: wait until everything that was committed when the wait began is applied.

**Invariant:** a barrier passes only once the leader has reported a high watermark in a Fetch sent
after the barrier was added, and everything below it was passed on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from authorizerd.daemon.sources.quorum.fetched_log import FetchedLog
from authorizerd.daemon.sources.quorum.messages import ReleaseBarriers
from authorizerd.kafka_client.address import Address


@dataclass(frozen=True, slots=True)
class Goal:
    """A high watermark (exclusive) that a leader reported, and the leader's epoch."""

    high_watermark: int
    leader_epoch: int

    def is_reached(self, log: FetchedLog) -> bool:
        """Return True once everything committed when the leader answered has been passed on.

        A leader knows what its predecessors committed only once the first record of its own epoch
        is committed. A high watermark below that record may be too old.
        """
        is_below = log.committed_end < self.high_watermark
        return not is_below and log.committed_epoch >= self.leader_epoch


class Barriers:
    """Number barriers, and match them with answers."""

    def __init__(self) -> None:
        self._added = 0
        self._answered = 0
        self._goals: Final[deque[tuple[ReleaseBarriers, Goal]]] = deque()

    @property
    def are_waiting(self) -> bool:
        """True if a barrier needs a Fetch."""
        return self._added > self._answered

    def add(self) -> int:
        """Return the ticket of a new barrier."""
        self._added += 1
        return self._added

    @property
    def newest(self) -> int:
        """The ticket of the newest barrier. A Fetch sent now counts for it."""
        return self._added

    def answer(self, ticket: int, goal: Goal, leader: Address) -> None:
        """Note the answer of ``leader`` to a Fetch.

        Args:
            ticket: ``newest`` when the Fetch was sent.
        """
        if ticket > self._answered:
            self._answered = ticket
            self._goals.append((ReleaseBarriers(ticket, leader), goal))

    def reach(self, log: FetchedLog) -> ReleaseBarriers | None:
        """Return the release of all barriers that pass now, or None if no more pass."""
        reached = None
        while self._goals and self._goals[0][1].is_reached(log):
            reached = self._goals.popleft()[0]
        return reached
