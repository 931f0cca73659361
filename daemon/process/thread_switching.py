"""Limit how long and how often other threads keep the GIL from the event loop."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

SWITCH_INTERVAL_S: Final = 0.0005
"""Maximum time that a worker thread may block the loop; Python's default of 5 ms is too long."""


def switch_threads_soon() -> None:
    """Apply the interval to this process."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)


WORK_S: Final = 0.002
"""How long a thread works before it sleeps."""
REST_S_MAX: Final = 0.02


class Pace:
    """Make a long-running thread rest as long as it works.

    While it works, the loop gets the GIL back only after ``SWITCH_INTERVAL_S``, several times per
    request, and even later if the kernel has preempted the thread.

    Args:
        clock: returns the seconds that the calling thread has worked. With elapsed time, it would
            sleep for longer on a busy machine.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock: Final = clock
        self._sleep: Final = sleep
        self._began: float | None = None

    def rest_if_due(self) -> None:
        """Sleep if the thread has worked for long enough. Call this after each short step."""
        if self._began is None:  # not earlier: each thread has its own clock
            self._began = self._clock()
        worked = self._clock() - self._began
        if worked >= WORK_S:
            self._sleep(min(worked, REST_S_MAX))
            self._began = self._clock()
