"""What can be wrong with a configuration, told in one line that names the place and the key."""

from __future__ import annotations


class InvalidValueError(ValueError):
    """A value that its key does not take; the text is the reason, without place or key."""


class ConfigurationError(Exception):
    """A configuration that the daemon does not start with.

    ``line`` is None where there is no line: an override, or a key that is missing. ``key`` is
    empty where the text itself is malformed.
    """

    def __init__(self, source: str, line: int | None, key: str, reason: str) -> None:
        super().__init__(source, line, key, reason)
        self.source = source
        self.line = line
        self.key = key
        self.reason = reason

    def __str__(self) -> str:
        """Return ``source:line: key: reason`` on one line, whatever the file holds."""
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        parts = (place, self.key, self.reason) if self.key else (place, self.reason)
        return "".join(map(_printable, ": ".join(parts)))


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
