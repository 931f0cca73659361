"""Colours of the marks that begin a line: what is wrong, what changes.

**Invariant:** only a terminal gets colours, and none if ``NO_COLOR`` is set. They repeat what the
mark says, so nothing is lost without them.

Source: https://no-color.org.
"""

from __future__ import annotations

import os
from typing import Final, TextIO

_RED: Final = 31
_GREEN: Final = 32
_YELLOW: Final = 33

_MARKS: Final = {
    "FAIL": _RED,
    "error:": _RED,
    "fault:": _RED,
    "-": _RED,
    "ok": _GREEN,
    "ok:": _GREEN,
    "+": _GREEN,
    "warning:": _YELLOW,
}


def paint(line: str, out: TextIO) -> str:
    """Return a line of printable text, with its mark in colour if ``out`` shows colours."""
    mark, blank, rest = line.partition(" ")
    colour = _MARKS.get(mark)
    if colour is None or not shows_colours(out):
        return line
    return f"\x1b[{colour}m{mark}\x1b[0m{blank}{rest}"


def shows_colours(out: TextIO) -> bool:
    """Return True if ``out`` is a terminal, and its user wants colours."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and out.isatty()
