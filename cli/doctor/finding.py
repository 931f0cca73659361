"""What a look at a daemon's surroundings finds: how bad it is, what it is, and what to do."""

from __future__ import annotations

from enum import Enum

import msgspec

from authorizerd.daemon.logging.setup import shown


class Level(Enum):
    """An error keeps the daemon from starting, or its secrets or its log from being safe."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``check`` is what was looked at, in one word; ``advice`` is empty where all is well.

    Texts are printable, whatever stands in a file or in a path.
    """

    level: Level
    check: str
    text: str
    advice: str = ""

    def line(self) -> str:
        """Return the finding as one printable line."""
        advice = f" Do: {self.advice}." if self.advice else ""
        return f"{self.level.value}: {self.check}: {self.text}.{advice}"


def ok(check: str, text: str) -> Finding:
    return Finding(level=Level.OK, check=check, text=shown(text))


def warning(check: str, text: str, advice: str) -> Finding:
    return Finding(level=Level.WARNING, check=check, text=shown(text), advice=shown(advice))


def error(check: str, text: str, advice: str) -> Finding:
    return Finding(level=Level.ERROR, check=check, text=shown(text), advice=shown(advice))
