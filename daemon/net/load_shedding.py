"""How much work the turn of the loop that is under way has done: where it is too much, we are
asked for more than we can do.

Law: it is work that counts, the CPU time of the loop's thread, and not time that goes by: a machine
that has stopped us for a moment is no reason to refuse anybody.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

PAUSE_SECONDS: Final = 0.1
"""How long a connection that was refused for overload is not read from.

Long enough that a thousand of them, refused again and again, take a fraction of a core; short
enough that one which asks seldom, and was refused for the others' sake, hardly notices.
"""


class TurnClock(trio.abc.Instrument):
    """Args:
    turn_ms_max: what one turn may take before it is too much.
    """

    def __init__(self, turn_ms_max: float) -> None:
        self._turn_ns_max = turn_ms_max * 1e6
        self._began_ns = time.thread_time_ns()

    def after_io_wait(self, timeout: float) -> None:
        self._began_ns = time.thread_time_ns()

    @property
    def is_overdue(self) -> bool:
        """Say whether what is ready now has waited for more work than a turn may do."""
        return time.thread_time_ns() - self._began_ns > self._turn_ns_max

    @contextmanager
    def running(self) -> Iterator[None]:
        """Look on at the loop of this task."""
        trio.lowlevel.add_instrument(self)
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(self)


class Admission:
    """Whether one connection's next request is taken, and whether more of it is looked at now.

    ``is_put_off`` is set with a refusal; whoever has let the pause go by unsets it.
    """

    __slots__ = ("_clock", "_was_refused", "is_put_off")

    def __init__(self, clock: TurnClock) -> None:
        self._clock = clock
        self._was_refused = False
        self.is_put_off = False

    def admits(self, *, has_sent_more: bool) -> bool:
        """Say whether there is time for a request, with more of the connection waiting or not.

        Who waits for an answer before asking again is let off the first time.
        """
        is_refused = self._clock.is_overdue
        if is_refused:
            self.is_put_off = self._was_refused or has_sent_more
        self._was_refused = is_refused
        return not is_refused
