"""Add the prefixes of ``messages`` to a driver's lines, so that ``submit`` can sort the lines."""

from __future__ import annotations

import io
import sys
import warnings
from typing import TextIO

from authorizerd.replay.messages import MESSAGE, TRACE


class MessageStream(io.TextIOBase):
    """Replaces standard error: each line becomes a message to the user."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out = out
        self._unfinished = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        for line in lines:
            prefixed = line if line.startswith(MESSAGE) else f"{MESSAGE}{line}"
            self._out.write(f"{prefixed}\n")
        self._out.flush()
        return len(text)


def trace(text: str) -> None:
    """Print lines that are only for the log."""
    sys.stdout.write("".join(f"{TRACE}{line}\n" for line in text.splitlines()))
    sys.stdout.flush()


def trace_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a Python warning to the log; replaces ``warnings.showwarning``."""
    trace(warnings.formatwarning(message, category, filename, lineno, line))
