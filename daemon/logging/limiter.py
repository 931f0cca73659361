"""A bound on what is logged: a flood of one kind of line would hold the loop at a full pipe."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Final

LINES_PER_SECOND_MAX: Final = 10


class LogLimit(logging.Filter):
    """Lets so many records of one kind pass a second; the next that passes says how many did not.

    A kind is a logger's message before its arguments are put in, so there are few.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._kinds: dict[tuple[str, str], _Passed] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = self._kinds.setdefault((record.name, str(record.msg)), _Passed())
        now = self._now_s()
        if now - kind.since >= 1:
            kind.since, kind.count = now, 0
            if kind.held:
                record.msg = f"{record.msg} ({kind.held} more like it were not written)"
                kind.held = 0
        if kind.count >= LINES_PER_SECOND_MAX:
            kind.held += 1
            return False
        kind.count += 1
        return True


class _Passed:
    """How many of one kind passed in the second that began at ``since``, and how many did not."""

    __slots__ = ("count", "held", "since")

    def __init__(self) -> None:
        self.since = -math.inf
        self.count = 0
        self.held = 0
