"""Block SIGHUP until the daemon can handle it.

**Invariant:** SIGHUP never ends the daemon. From the first step of ``serve`` until the daemon
receives signals, SIGHUP is blocked; then the daemon handles it.

This module imports only what loads fast, because SIGHUP ends the process until ``hold_sighup`` has
run.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence


def hold_sighup(words: Sequence[str]) -> None:
    """Block SIGHUP from now on if ``words`` start the daemon."""
    if words[:1] == ["serve"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP,))


def release_sighup() -> None:
    """Unblock SIGHUP: the daemon receives a pending signal and all later ones."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))
