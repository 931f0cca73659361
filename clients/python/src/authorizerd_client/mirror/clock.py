"""The clock of a mirror: seconds since the machine's boot, including time suspended.

``time.monotonic`` stands still on Linux while the machine is suspended, so a copy would look
younger than it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

Clock: TypeAlias = Callable[[], float]

boot_time: Final[Clock] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)
