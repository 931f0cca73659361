"""Escape text from outside, such as names of resources, before it is printed."""

from __future__ import annotations

import encodings.unicode_escape  # noqa: F401 - a later import may find no free descriptor
import json


def escape_unprintable(text: str) -> str:
    """Return ``text`` on one line, with escape sequences for characters that are not printable.

    A terminal obeys control characters, and direction marks reorder the text that follows them.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def escape_json(text: str) -> str:
    """Return JSON with escapes for the characters of its strings that are not printable.

    JSON itself escapes only the control characters of ASCII. The line feeds between values stay.
    """
    lines = text.split("\n")
    return "\n".join(
        line
        if line.isprintable()
        else "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in line)
        for line in lines
    )


def is_utf_8(text: str) -> bool:
    """Return True if UTF-8 can encode the text: a name of a file may have other bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
