"""Numbers, times and names as the page shows them.

**Invariant:** a number has its unit next to it or in the heading. A name is cut to ``NAME_MAX``
characters, and a cut text says how many characters are missing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from authorizerd.replay.text import parse_time

NAME_MAX: Final = 160
MISSING: Final = "–"
_TAIL: Final = 30


def format_significant(number: float | None, unit: str = "") -> str:
    """Return a number with about three significant digits, at most three decimals, and its unit."""
    if number is None:
        return MISSING
    size = abs(number)
    decimals = 0 if size == 0 or size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{number:,.{decimals}f} {unit}".rstrip()


def format_share(part: int, whole: int) -> str:
    """Return a percentage: "0.0 %" only if ``part`` is 0, "100.0 %" only if it is ``whole``."""
    if not whole:
        return MISSING
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "below 0.1 %"
    if 99.9 < percent < 100:
        return "above 99.9 %"
    return f"{percent:.1f} %"


def format_change(was: float, now: float) -> str:
    """Return a relative change, "+12.3 %"; "none" if there is none."""
    if was == now:
        return "none"
    return f"{100 * (now - was) / was:+,.1f} %" if was else f"{now - was:+,.10g}"


def format_time(iso: str | None) -> str:
    """Return a time in UTC, to the second; other texts are only ``cut``."""
    if iso is None:
        return MISSING
    try:
        time = datetime.fromtimestamp(parse_time(iso) // 1000, UTC)
    except (ValueError, OverflowError):
        return cut(iso)
    return time.replace(tzinfo=None).isoformat(" ", "seconds")


def cut(text: str, longest: int = NAME_MAX) -> str:
    """Return ``text``, without its middle if it has more than ``longest`` characters.

    Both ends are kept, since names often differ in their last characters.
    """
    if len(text) <= longest:
        return text
    return f"{text[: longest - _TAIL]}…[{len(text) - longest:,} characters]…{text[-_TAIL:]}"
