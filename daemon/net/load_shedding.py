"""Load shedding: refuse requests that others have kept waiting for too long.

**Invariant:** a request that arrives while no earlier one of its connection is unanswered is never
refused. So a client that waits for each answer is never refused, however many such clients there
are. Only work counts, measured as the CPU time of the loop's thread. Elapsed time does not count,
because the machine may pause the process for a moment, which is no reason to refuse requests.
"""

from __future__ import annotations

import time
from typing import Final

from authorizerd.daemon.net.turns import Turns

PAUSE_SECONDS: Final = 0.1
"""Time for which a deferred connection is not read.

Long enough that a thousand such connections take only a fraction of a core, however often they are
refused.
"""


class Admission:
    """Decide when one connection goes on, and whether its next request is admitted.

    A refusal sets ``is_deferred``; ``Connection.pause`` clears it. ``has_backlog`` is True after
    the client has sent more than one request at once, or a part of one: its next bytes may then
    have to wait, too.

    Args:
        turn_ms_max: how many milliseconds of other work a pipelined request may wait for.
    """

    __slots__ = (
        "_began_ns",
        "_is_late",
        "_turn_ns_max",
        "_turns",
        "has_backlog",
        "is_deferred",
    )

    def __init__(self, turns: Turns, turn_ms_max: float) -> None:
        self._turns = turns
        self._turn_ns_max = turn_ms_max * 1e6
        self._began_ns = 0
        self._is_late = False
        self.is_deferred = False
        self.has_backlog = False

    @property
    def is_in_slice(self) -> bool:
        """True from the beginning of a slice until everything received has been answered."""
        return self._began_ns > 0

    @property
    def is_contended(self) -> bool:
        """True if other connections wait for a later turn than the next one."""
        return self._turns.waiting > 0

    def share(self, each_ns: int) -> int:
        """Return how many requests the connection may answer before it waits again, at least 1.

        Args:
            each_ns: about how long one takes.
        """
        return max(1, self._turns.slice_ns // each_ns) if self._began_ns else 1

    def begin_slice(self) -> bool:
        """Return True if the connection may go on without waiting: once, before it has waited."""
        if self._began_ns or not self._turns.begin_slice():
            return False
        self._began_ns = time.perf_counter_ns()
        return True

    async def wait(self) -> None:
        """Wait until the connection may go on. This always yields to other tasks."""
        took_ns = time.perf_counter_ns() - self._began_ns if self._began_ns else 0
        self._began_ns = 0
        waited_ns = await self._turns.wait(took_ns)
        self._is_late = waited_ns > self._turn_ns_max
        self._began_ns = time.perf_counter_ns()

    async def enter(self) -> None:
        """Wait, if necessary, before requests that have just been received."""
        if not self.begin_slice():
            await self.wait()
        # Nothing before these requests is unanswered, so the first one is not refused.
        self._is_late = False

    def leave(self, *, has_backlog: bool) -> None:
        """Note that everything received has been answered, or is incomplete."""
        self._began_ns = 0
        self._is_late = False
        self.has_backlog = has_backlog

    def admits(self) -> bool:
        """Return True if the next request is admitted; otherwise, defer the connection.

        Pipelined requests would be refused one by one, each at the cost of parsing it.
        """
        if not self._is_late:
            return True
        self._is_late = False
        self.is_deferred = True
        return False
