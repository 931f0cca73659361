"""Escape text that comes from outside, such as names of resources, before it is printed."""

from __future__ import annotations

import encodings.unicode_escape  # noqa: F401 - later, there may be no descriptor to load it with


def escape_unprintable(text: str) -> str:
    """Return ``text`` on one line, with escape sequences for characters that are not printable.

    A terminal would obey control characters, and marks of direction reorder what follows them.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )
