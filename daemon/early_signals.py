"""Handle SIGHUP and SIGINT until the daemon can obey them.

**Invariant:** SIGHUP never ends the daemon. From the first step of ``serve`` until the daemon
receives signals, the kernel holds SIGHUP back; the daemon obeys it afterwards. During that time,
SIGINT ends the process as SIGTERM does, without a traceback.

This module imports only what loads fast, because SIGHUP ends the process until ``hold_sighup`` has
run.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence


def hold_sighup(words: Sequence[str]) -> None:
    """Block SIGHUP from now on if ``words`` start the daemon, and let SIGINT end it at once."""
    if words[:1] == ["serve"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP,))
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def release_sighup() -> None:
    """Unblock SIGHUP: the daemon receives a held signal and all later ones."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))
