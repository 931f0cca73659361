"""Handle SIGHUP before the daemon can obey it.

**Invariant:** SIGHUP never ends the daemon. From the first step of ``serve`` until the daemon
receives signals, the kernel holds SIGHUP back; then the daemon obeys it.

This module imports only fast modules, because until it has run SIGHUP ends the process.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence


def hold_reload_signal(words: Sequence[str]) -> None:
    """Block SIGHUP from now on if ``words`` start the daemon."""
    if words[:1] == ["serve"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP,))


def release_reload_signal() -> None:
    """Unblock SIGHUP: the daemon receives a held signal and all later ones."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))
