"""How the answer of a question is printed: lines for people, or one JSON document for programs.

**Invariant:** no name in the ACLs can make a terminal obey it: unprintable characters are escaped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TextIO

import msgspec

from authorizerd.acl.printable import escape_json, escape_unprintable
from authorizerd.cli.colours import paint

EXIT_DENIED: Final = 3
"""The answer is: denied, nobody, or nothing."""

_INDENT: Final = "  "
_COLUMN_MAX: Final = 48
"""Width of the first column, in characters. A longer text moves only the rest of its own line."""


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document instead of lines"
    )


def print_answer(
    *,
    as_json: bool,
    document: Callable[[], object],
    lines: Callable[[], Iterable[str]],
    is_positive: bool,
) -> int:
    """Print an answer as a document or as lines; return the exit code.

    Args:
        is_positive: whether something or somebody is allowed.
    """
    if as_json:
        print_document(document())
    else:
        print_lines(lines())
    return 0 if is_positive else EXIT_DENIED


def print_document(document: object, out: TextIO | None = None) -> None:
    """Print a document, which msgspec can encode, as indented JSON.

    Args:
        out: standard output by default.
    """
    encoded = msgspec.json.format(msgspec.json.encode(document), indent=2)
    (out or sys.stdout).write(f"{escape_json(encoded.decode())}\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text."""
    out = sys.stdout
    out.write("".join(f"{paint(escape_unprintable(line), out)}\n" for line in lines))


def align(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return a line for each row, indented, with its second column below the others."""
    width = max((len(first) for first, _ in rows if len(first) <= _COLUMN_MAX), default=0)
    return [f"{_INDENT}{first.ljust(width)}{_INDENT}{second}".rstrip() for first, second in rows]


def indent(lines: Iterable[str]) -> list[str]:
    """Return the lines, indented once."""
    return [f"{_INDENT}{line}" for line in lines]


def warn(text: str) -> None:
    """Print a line on standard error."""
    sys.stderr.write(f"authorizerd: {escape_unprintable(text)}\n")
