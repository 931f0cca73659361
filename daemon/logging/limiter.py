"""A rate limit for each kind of log line, so that a flood cannot fill the queue."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LINES_PER_SECOND_MAX: Final = 10


class LogLimit(logging.Filter):
    """Pass a limited number of records of each kind per second, and count the others.

    The next record that passes reports how many were dropped. A kind is a logger's message before
    its arguments are inserted, so there are few kinds.
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
                record.msg = f"{record.msg} ({kind.held} similar lines were dropped)"
                kind.held = 0
        if kind.count >= LINES_PER_SECOND_MAX:
            kind.held += 1
            return False
        kind.count += 1
        return True


@dataclass(slots=True)
class _Passed:
    """How many records of one kind passed and were dropped. ``since`` is when this second began."""

    since: float = -math.inf
    count: int = 0
    held: int = 0
