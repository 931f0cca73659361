"""The time of day: in milliseconds, and as ISO 8601 in UTC."""

from __future__ import annotations

import time
from functools import lru_cache


def now_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def format_utc(time_s: float) -> str:
    """Return a time in seconds since 1970 as ``2026-01-02T03:04:05.678Z``."""
    return format_utc_ms(int(time_s * 1000))


def format_utc_ms(time_ms: int) -> str:
    """Return a time in milliseconds since 1970, as ``format_utc`` does.

    Raises:
        OSError, OverflowError: it is beyond the calendar.
    """
    seconds, milliseconds = divmod(time_ms, 1000)
    return f"{_format_second(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=4)  # thousands of audit lines fall into one second
def _format_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
