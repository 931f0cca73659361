"""The moment of a log whose ACLs are meant: a time, or an offset of the log.

A whole number is an offset, unless it is so large that only milliseconds since 1970 can be meant:
a metadata log does not grow to 100,000,000,000 records, and as milliseconds that is March 1973.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from authorizerd.metadata.directory import OFFSET_MAX

TIME_MS_MIN: Final = 100_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class AtTime:
    """After the last batch stamped at or before ``time_ms``, milliseconds since 1970."""

    time_ms: int

    def __str__(self) -> str:
        return time_text(self.time_ms)


@dataclass(frozen=True, slots=True)
class AtOffset:
    """After the last batch that ends at or before ``offset``."""

    offset: int

    def __str__(self) -> str:
        return f"offset {self.offset}"


AsOf = AtTime | AtOffset


def parse_as_of(text: str) -> AsOf:
    """Return the moment that ``text`` names: an offset, milliseconds, or an ISO 8601 time.

    A time without a zone is in UTC; what is finer than a millisecond is cut off.

    Raises:
        ValueError: it is none of these; the text says so.
    """
    if text.isascii() and text.isdigit():
        number = int(text) if len(text) <= len(str(OFFSET_MAX)) else OFFSET_MAX + 1
        if number > OFFSET_MAX:
            raise ValueError(f"{text[:40]} is larger than any offset or time")
        return AtOffset(number) if number < TIME_MS_MIN else AtTime(number)
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return AtTime((time - _EPOCH) // _MILLISECOND)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{text!r} is neither an offset nor a time such as 2026-11-21T16:31:06.718Z"
        ) from error


def time_text(time_ms: int) -> str:
    """Return ISO 8601 in UTC, or the bare number where the calendar does not reach so far."""
    try:
        time = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
