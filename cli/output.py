"""Print the answer of a command: lines for people, or one JSON document for programs.

**Invariant:** names in ACLs cannot control a terminal: unprintable characters are escaped. Only a
terminal gets colours, unless ``NO_COLOR`` is set (https://no-color.org). Colours only emphasize the
mark at the beginning of a line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TextIO

import msgspec

from authorizerd.acl.text.printable import escape_json, escape_unprintable

EXIT_DENIED: Final = 3
"""The exit code if the answer is: denied, nobody, or nothing."""

_INDENT: Final = "  "
_COLUMN_MAX: Final = 48
"""Width of the first column, in characters. A longer text shifts only the rest of its own line."""


def print_answer(
    *,
    as_json: bool,
    document: Callable[[], object],
    lines: Callable[[], Iterable[str]],
    is_positive: bool,
) -> int:
    """Print an answer as a document or as lines; return the exit code.

    Args:
        is_positive: whether anything or anyone is allowed.
    """
    if as_json:
        print_document(document())
    else:
        print_lines(lines())
    return 0 if is_positive else EXIT_DENIED


def print_document(document: object, out: TextIO | None = None) -> None:
    """Print a document, which msgspec can encode, as indented JSON."""
    encoded = msgspec.json.format(msgspec.json.encode(document), indent=2)
    (out or sys.stdout).write(f"{escape_json(encoded.decode())}\n")


def print_lines(lines: Iterable[str]) -> None:
    out = sys.stdout
    out.write("".join(f"{paint(escape_unprintable(line), out)}\n" for line in lines))


def align(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return an indented line for each row, with the second columns aligned."""
    width = max((len(first) for first, _ in rows if len(first) <= _COLUMN_MAX), default=0)
    return [f"{_INDENT}{first.ljust(width)}{_INDENT}{second}".rstrip() for first, second in rows]


def indent(lines: Iterable[str]) -> list[str]:
    """Return the lines, indented once."""
    return [f"{_INDENT}{line}" for line in lines]


def warn(text: str) -> None:
    sys.stderr.write(f"authorizerd: {escape_unprintable(text)}\n")


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
    """Return True if ``out`` is a terminal whose user wants colours."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and out.isatty()
