"""Numbers, times and names as the page has them.

**Invariant:** a number is written so that it can be read aloud, and its unit stands beside it or
above it; a name is cut to ``NAME_MAX`` characters, a rule to ``RULE_MAX``, and says so where it
was.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from authorizerd.replay.report.markup import Markup, element, joined

NAME_MAX: Final = 160
RULE_MAX: Final = 600
NONE: Final = "–"
LISTED_MAX: Final = 20
_TAIL: Final = 30


def count(number: int) -> str:
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """Return "1 event", "2,000 events"."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def significant(number: float | None) -> str:
    """Return three digits that matter, and no more than that after the point."""
    if number is None:
        return NONE
    size = abs(number)
    if size == 0 or size >= 100:
        return f"{number:,.0f}"
    return f"{number:.{1 if size >= 10 else 2 if size >= 1 else 3}f}"


def milliseconds(number: float | None) -> str:
    return NONE if number is None else f"{significant(number)} ms"


def per_second(number: float | None) -> str:
    return NONE if number is None else f"{significant(number)} per s"


def share(part: int, whole: int) -> str:
    """Return how much of ``whole`` it is: never "0 %" for something, or "100 %" for less."""
    if not whole:
        return NONE
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "below 0.1 %"
    if 99.9 < percent < 100:
        return "above 99.9 %"
    return f"{percent:.1f} %"


def time_text(iso: str | None) -> str:
    """Return a time in UTC, to the second; what is no time as it stands."""
    if iso is None:
        return NONE
    try:
        time = datetime.fromisoformat(iso)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return time.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "seconds")
    except (ValueError, OverflowError):
        return cut(iso)


def cut(text: str, longest: int = NAME_MAX) -> str:
    """Return a text, without its middle where it is longer than so many characters."""
    if len(text) <= longest:
        return text
    return f"{text[: longest - _TAIL]}…[{len(text) - longest:,} characters]…{text[-_TAIL:]}"


def name(text: str | None, longest: int = NAME_MAX) -> Markup:
    """Return a name that keeps its own direction of writing to itself; None is unknown."""
    if not text:
        return element("span", "unknown" if text is None else "empty", class_="muted")
    return element("bdi", cut(text, longest))


def rule(text: str | None) -> Markup:
    """Return a rule, as a name that may be longer."""
    return name(text, RULE_MAX)


def code(text: str) -> Markup:
    """Return what is compared character by character, such as a hash."""
    return element("code", cut(text))


def settings_text(
    super_users: tuple[str, ...], allow_everyone_if_no_acl_found: bool
) -> dict[str, Markup | str]:
    """Return the settings that ACLs are judged under, by their names."""
    listed = ";".join(super_users[:LISTED_MAX])
    more = len(super_users) - LISTED_MAX
    return {
        "super.users": joined([name(listed), f" and {count(more)} more" if more > 0 else ""])
        if super_users
        else "none",
        "allow.everyone.if.no.acl.found": str(allow_everyone_if_no_acl_found).lower(),
    }
