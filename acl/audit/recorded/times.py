"""Parse the times in logs into milliseconds since 1970.

**Invariant:** a time with a zone is read in that zone, any other in the caller's. A local time that
a clock change skipped is read with the offset from before the change, and one that occurred twice
means the earlier instant. Java's ``LocalDateTime.atZone``, and so Spark, do the same.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
ZERO_ZONES: Final = ("Z", "UTC", "GMT")

_ANY_LEVEL: Final = "|".join(LEVELS)
# The last time before the message is the broker's: a container runtime puts its own in front.
_HEAD: Final = (
    r"(?s)^.*(?<![0-9])(2[0-9]{3}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:[.,]([0-9]{1,3})[0-9]*)?"
    rf"(?: ?(?!(?:{_ANY_LEVEL})(?![A-Za-z]))"
    r"([A-Z]{1,5}(?![A-Za-z])|[+-][0-9]{2}(?::?[0-9]{2})?(?![0-9])))?"
    rf"(?:.*?(?<![A-Za-z])({_ANY_LEVEL})(?![A-Za-z]))?"
)
_LEVEL_BEFORE: Final = rf"(?<![A-Za-z])({_ANY_LEVEL})[^A-Za-z0-9]{{0,4}}$"
_OFFSET: Final = r"^[+-](?:0[0-9]|1[0-7])(?::?[0-5][0-9])?$|^[+-]18(?::?00)?$"

_head: Final = re.compile(_HEAD)
_level_before: Final = re.compile(_LEVEL_BEFORE)
_offset: Final = re.compile(_OFFSET)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def find_zone(name: str) -> tzinfo:
    """Return the zone called ``name``: a region (``Europe/Berlin``), ``UTC`` or ``+02:00``.

    Raises:
        ValueError: ``name`` is not a time zone.
    """
    zone = _fixed_zone(name)
    if zone is not None:
        return zone
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"unknown time zone {name!r}") from error


class Head(NamedTuple):
    """The time and the level before a message, as texts; zone and level may be empty."""

    local: str  # 2026-11-21T16:26:26.966
    zone: str
    level: str

    def at_ms(self, zone: tzinfo) -> int | None:
        """Return the instant, or None for an impossible time; ``zone`` is for a log without one."""
        own = _fixed_zone(self.zone) if self.zone else zone
        # An abbreviation other than those in ZERO_ZONES does not identify one offset.
        if own is None:
            return None
        try:
            moment = datetime.fromisoformat(self.local).replace(tzinfo=own)
            # Calculate with integers: ``timestamp()`` returns a float, which is rounded.
            return (moment - _EPOCH) // timedelta(milliseconds=1)
        except (ValueError, OverflowError):
            return None


def find_head(text: str) -> Head | None:
    """Return the last time in ``text`` and the level after it, or else right before it.

    It is None if ``text`` has no time.
    """
    found = _head.match(text)
    if found is None:
        return None
    day, time, fraction, zone, level = (group or "" for group in found.groups())
    if not level and (before := _level_before.search(text[: found.start(1)])):
        level = before.group(1)
    return Head(f"{day}T{time}.{fraction:0<3}", zone, level)


def _fixed_zone(name: str) -> tzinfo | None:
    if name in ZERO_ZONES:
        return UTC
    if _offset.match(name) is None:
        return None
    hours, minutes = int(name[1:3]), int(name[3:].lstrip(":") or 0)
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if name[0] == "-" else offset)
