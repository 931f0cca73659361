"""Print a driver's messages with a prefix that names the addressee (``messages``)."""

from __future__ import annotations

import io
import sys
import warnings
from typing import TextIO

from authorizerd.replay.messages import MESSAGE, TRACE


class Speaker(io.TextIOBase):
    """Stands in for standard error: each line that is written is a message to the user."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out = out
        self._unfinished = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        for line in lines:
            begun = line if line.startswith(MESSAGE) else f"{MESSAGE}{line}"
            self._out.write(f"{begun}\n")
        self._out.flush()
        return len(text)


def trace(text: str) -> None:
    """Say what only the log is to hold."""
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
    """Say a warning of Python's to the log, as ``warnings.showwarning`` is called."""
    trace(warnings.formatwarning(message, category, filename, lineno, line))
