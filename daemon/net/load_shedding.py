"""Load shedding: refuse requests once a turn of the event loop has done more work than it may.

**Invariant:** only work counts, measured as the CPU time of the loop's thread. Elapsed time does
not count, because the machine may pause the process for a moment, which is no reason to refuse
requests.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

PAUSE_SECONDS: Final = 0.1
"""Time for which a deferred connection is not read.

Long enough that a thousand such connections take only a fraction of a core, however often they are
refused; short enough for a client that asks rarely and was refused because of other clients.
"""


class LoadShedder(trio.abc.Instrument):
    """Measure the work of the current turn of the event loop.

    Args:
        turn_ms_max: how many milliseconds of work one turn may do.
    """

    def __init__(self, turn_ms_max: float) -> None:
        self._turn_ns_max = turn_ms_max * 1e6
        self._began_ns = time.thread_time_ns()

    def after_io_wait(self, timeout: float) -> None:
        self._began_ns = time.thread_time_ns()

    @property
    def is_overloaded(self) -> bool:
        """True if this turn has already done more work than it may."""
        return time.thread_time_ns() - self._began_ns > self._turn_ns_max

    @contextmanager
    def running(self) -> Iterator[None]:
        """Observe the event loop of this task until the block ends."""
        trio.lowlevel.add_instrument(self)
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(self)


class Admission:
    """Decide whether one connection's next request is admitted or deferred.

    A refusal may set ``is_deferred``; ``Connection.pause`` clears it.
    """

    __slots__ = ("_load_shedder", "_was_refused", "is_deferred")

    def __init__(self, load_shedder: LoadShedder) -> None:
        self._load_shedder = load_shedder
        self._was_refused = False
        self.is_deferred = False

    def admits(self, *, has_sent_more: bool) -> bool:
        """Return True if the next request is admitted.

        A client that waits for each answer before it asks again is not deferred on its first
        refusal.

        Args:
            has_sent_more: True if bytes of later requests have already been received.
        """
        is_refused = self._load_shedder.is_overloaded
        if is_refused:
            # Pipelined requests would be refused one by one, each at the cost of parsing it.
            self.is_deferred = self._was_refused or has_sent_more
        self._was_refused = is_refused
        return not is_refused
