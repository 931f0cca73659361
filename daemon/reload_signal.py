"""SIGHUP before the daemon can obey it.

**Invariant:** it never ends the daemon. From the first thing that ``serve`` does until the daemon
receives signals the kernel keeps it, and it is obeyed then.

Nothing that takes time to import is imported here: until this has run SIGHUP ends the process.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence


def hold_reload_signal(words: Sequence[str]) -> None:
    """Have the kernel keep SIGHUP from now on, if ``words`` start the daemon."""
    if words[:1] == ["serve"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP,))


def release_reload_signal() -> None:
    """Let the daemon receive what has been kept, and what comes."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))
