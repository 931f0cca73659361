"""A finding about the daemon's environment: its level, its description, and advice."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Final

import msgspec

from authorizerd.daemon.logging.setup import escape_line


class Level(Enum):
    """The severity of a finding: an error prevents the start, or endangers secrets or the log."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one check.

    ``check`` is one word for what was examined; ``advice`` is empty if nothing is wrong. Texts
    are printable, even if a file or path contains unprintable characters.
    """

    level: Level
    check: str
    text: str
    advice: str = ""

    def line(self) -> str:
        """Return the finding as one printable line."""
        advice = f" Do: {self.advice}." if self.advice else ""
        end = "" if self.text.endswith("?") else "."
        return f"{self.level.value}: {self.check}: {self.text}{end}{advice}"


def _new(level: Level, check: str, text: str, advice: str = "") -> Finding:
    return Finding(level=level, check=check, text=escape_line(text), advice=escape_line(advice))


ok: Final = partial(_new, Level.OK)
warning: Final = partial(_new, Level.WARNING)
error: Final = partial(_new, Level.ERROR)
