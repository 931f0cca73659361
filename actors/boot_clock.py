"""The clock of deadlines: seconds since the machine's boot, including time suspended.

Python's ``time.monotonic`` and trio's clock stand still on Linux while the machine is suspended, so
a state would look younger than it is. All processes of a machine read the same clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Returns seconds. Tests use trio's clock, which they can control."""

boot_time: Final[Clock] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)
