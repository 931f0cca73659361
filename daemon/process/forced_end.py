"""Force the daemon to end if something hangs.

**Invariant:** after ``begin``, the process ends in time, even if a disk, a plugin or an
uncancellable thread hangs. A kill at any time leaves a valid log, so no acknowledged change is
lost. Only ``close`` stops the timer: by then everything that could hang has ended.
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

from authorizerd.daemon.logging.queue import THREAD_NAME as LOG_WRITER
from authorizerd.daemon.logging.setup import flush_log

ENDING_SECONDS: Final = 15
"""Time limit of the shutdown, in addition to the limits for connections and workers."""
_EXIT_FAULT: Final = 1
"""The exit code of any fault that ends the daemon."""
KERNEL_SECONDS: Final = 5
"""Further delay until SIGALRM kills the process, in case the timer's thread cannot run."""

_IDLE_MODULES: Final = ("_thread_cache.py", "forced_end.py")

_logger = logging.getLogger("authorizerd")


class ForcedEnd:
    """A timer that ends the process."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._phase = "ending the tasks"

    def enter(self, phase: str) -> None:
        """Note which phase of the shutdown begins. If the timer fires, the log names this phase."""
        self._phase = phase

    def begin(self, seconds: int) -> None:
        """End the process after ``seconds`` at the latest; only the first call counts."""
        if self._timer is not None:
            return
        self._timer = threading.Timer(seconds, self._give_up, (seconds,))
        self._timer.daemon = True  # the process must not wait for this thread at its end
        self._timer.start()
        signal.setitimer(signal.ITIMER_REAL, seconds + KERNEL_SECONDS)

    def close(self) -> None:
        """Stop the timer: the daemon has ended in time."""
        if self._timer is not None:
            self._timer.cancel()
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _give_up(self, seconds: int) -> None:
        _logger.critical(
            "the daemon has not ended within %d s, and is killed: %s hangs, at %s",
            seconds,
            self._phase,
            ", ".join(_find_busy_code()),
        )
        flush_log()
        # Not ``sys.exit``: that would wait for the thread that hangs.
        os._exit(_EXIT_FAULT)


def _find_busy_code() -> Iterator[str]:
    """Yield the current code location of each thread that may have work."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        module = PurePath(frame.f_code.co_filename).name
        name = names.get(ident, "unknown")
        if module not in _IDLE_MODULES and name != LOG_WRITER:
            yield f"{module}:{frame.f_lineno} {frame.f_code.co_name} ({name})"
