"""How soon another thread gives up the interpreter to the event loop."""

from __future__ import annotations

import sys
from typing import Final

SWITCH_INTERVAL_S: Final = 0.0005
"""Maximum time that a worker thread may block the loop; Python's default of 5 ms is too long."""


def switch_threads_soon() -> None:
    """Apply the interval to this process."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
