"""The moment that a question about the past refers to: an offset of the log, or a time.

**Invariant:** a text has one meaning, or none. An integer below ``TIME_MS_MIN`` is an offset, any
other integer a time in milliseconds since 1970. A time without a zone is rejected, because it
would depend on where it is read.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from authorizerd.acl.errors import InvalidAsOfError
from authorizerd.acl.text.printable import escape_unprintable

TIME_MS_MIN: Final = 10**12
"""The smallest integer that is a time: 2001-09-09. A log that grows by 1,000 records per second
reaches this offset after 31 years.
"""
_OFFSET_MAX: Final = 2**63 - 1
_SHOWN_MAX: Final = 40
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_INTEGER: Final = re.compile(r"-?\d{1,40}", re.ASCII)
_EXPECTED: Final = (
    "expected an offset of the log, such as 2806, a time with its zone, such as "
    "2026-01-02T03:04:05Z, or milliseconds since 1970"
)
_EXPECTED_TIME: Final = "expected a time with its zone, such as 2026-01-02T03:04:05Z"


class AsOf(msgspec.Struct, frozen=True, gc=False):
    """The requested moment: an offset, or a time. The other field is None."""

    offset: int | None = None
    time_ms: int | None = None

    def __str__(self) -> str:
        if self.offset is not None:
            return f"offset {self.offset}"
        return f"time {format_time(self.time_ms)}"


class Moment(msgspec.Struct, frozen=True, gc=False):
    """The last offset that a state includes, and the time of its batch, None if it is not known."""

    offset: int
    time_ms: int | None

    def __str__(self) -> str:
        if self.time_ms is None:
            return f"offset {self.offset}"
        return f"offset {self.offset} ({format_time(self.time_ms)})"


def parse_as_of(value: str | int) -> AsOf:
    """Return the moment that a command's argument or a request's field names.

    Raises:
        InvalidAsOfError: the value is neither an offset nor a time, or has no zone.
    """
    if isinstance(value, int):
        return _read_integer(value)
    if _INTEGER.fullmatch(value):
        return _read_integer(int(value))
    return AsOf(time_ms=_read_time(value, _EXPECTED))


def parse_time(text: str) -> int:
    """Return the milliseconds since 1970 of a time, which may itself be such a number.

    Raises:
        InvalidAsOfError: the text is not a time, or has no zone.
    """
    if _INTEGER.fullmatch(text) and TIME_MS_MIN <= int(text) <= _OFFSET_MAX:
        return int(text)
    return _read_time(text, _EXPECTED_TIME)


def _read_time(text: str, expected: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidAsOfError(f"{expected}, found {_quote(text)}") from None
    if time.tzinfo is None:
        raise InvalidAsOfError(
            f"{_quote(text)} has no time zone, so it is ambiguous: add Z for UTC, or an offset "
            "such as +02:00"
        )
    return (time - _EPOCH) // _MILLISECOND


def _read_integer(value: int) -> AsOf:
    if not 0 <= value <= _OFFSET_MAX:
        raise InvalidAsOfError(f"{_EXPECTED}, found {_quote(str(value))}")
    return AsOf(time_ms=value) if value >= TIME_MS_MIN else AsOf(offset=value)


def _quote(text: str) -> str:
    shown = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
    return f"'{escape_unprintable(shown)}'"


def format_time(time_ms: int | None) -> str:
    """Return a time as ``2026-01-02T03:04:05.678Z``, or as a number if no calendar has it."""
    if time_ms is None:
        return "unknown"
    try:
        time = _EPOCH + time_ms * _MILLISECOND
    except OverflowError:
        return f"{time_ms} ms since 1970"
    return f"{time.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
