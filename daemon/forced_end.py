"""The end of the daemon, forced where something hangs.

**Invariant:** once ``begin`` was called the process ends in time, whatever hangs: a disk, a
plug-in, a thread that nobody can cancel. The log is whole after any kill, so nothing acknowledged
is lost.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from daemon.log_output import flush_log

ENDING_SECONDS: Final = 15
"""How long an end may take beside what it waits for connections and workers."""
_EXIT_FAULT: Final = 1
"""As of any fault that ends the daemon."""
KERNEL_SECONDS: Final = 5
"""How much later the kernel kills the process, if not even the thread here can run."""

_IDLE_MODULES: Final = ("_thread_cache.py", "log_queue.py", "forced_end.py")

_logger = logging.getLogger("authorizerd")


class ForcedEnd:
    """``phase`` is what the end is at, for the log."""

    def __init__(self) -> None:
        self._seconds: int | None = None
        self.phase = "ending the tasks"

    def begin(self, seconds: int) -> None:
        """Have the process end in ``seconds`` at the latest; only the first call counts.

        There is no way back: the caller goes on to end the process.
        """
        if self._seconds is not None:
            return
        self._seconds = seconds
        timer = threading.Timer(seconds, self._give_up)
        timer.daemon = True
        timer.start()
        signal.setitimer(signal.ITIMER_REAL, seconds + KERNEL_SECONDS)

    def _give_up(self) -> None:
        _logger.critical(
            "the daemon has not ended within %d s, and is killed: %s hangs, at %s",
            self._seconds,
            self.phase,
            ", ".join(_places()),
        )
        flush_log()
        os._exit(_EXIT_FAULT)


def _places() -> Iterator[str]:
    """Yield where each thread stands that may have something to do."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        module = PurePath(frame.f_code.co_filename).name
        if module not in _IDLE_MODULES:
            place = f"{module}:{frame.f_lineno} {frame.f_code.co_name}"
            yield f"{place} ({names.get(ident, 'unknown')})"
