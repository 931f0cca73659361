"""The moment of a log whose ACLs are wanted: a time, or an offset.

A whole number below ``TIME_MS_MIN`` is an offset, as for the other commands (``acl.as_of``). Any
other is a time in milliseconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass

from authorizerd.acl.as_of import TIME_MS_MIN
from authorizerd.metadata.directory import OFFSET_MAX
from authorizerd.replay.text import format_time, parse_time


@dataclass(frozen=True, slots=True)
class AtTime:
    """The state after the last batch stamped at or before ``time_ms`` (milliseconds since 1970)."""

    time_ms: int

    def __str__(self) -> str:
        return format_time(self.time_ms)


@dataclass(frozen=True, slots=True)
class AtOffset:
    """The state after the last batch that ends at or before ``offset``."""

    offset: int

    def __str__(self) -> str:
        return f"offset {self.offset}"


AsOf = AtTime | AtOffset


def parse_as_of(text: str) -> AsOf:
    """Return the moment that ``text`` names: an offset, milliseconds, or an ISO 8601 time.

    A time without a zone is in UTC. Fractions of a millisecond are cut off.

    Raises:
        ValueError: ``text`` has another form.
    """
    if text.isascii() and text.isdigit():
        # Check the length first: Python's int rejects a text of more than 4,300 digits.
        number = int(text) if len(text) <= len(str(OFFSET_MAX)) else OFFSET_MAX + 1
        if number > OFFSET_MAX:
            raise ValueError(f"{text[:40]} is too large for an offset or a time")
        return AtOffset(number) if number < TIME_MS_MIN else AtTime(number)
    try:
        return AtTime(parse_time(text))
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"invalid moment {text!r}: expected an offset, or a time such as "
            "2026-11-21T16:31:06.718Z"
        ) from error
