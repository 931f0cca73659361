"""The errors of a configuration: one line that names the place and the key."""

from __future__ import annotations

from authorizerd.acl.printable import escape_unprintable


class InvalidValueError(ValueError):
    """A value that its key rejects. The text is the reason, without place or key."""


class PrincipalMappingError(Exception):
    """A distinguished name that the mapping rules give no principal. Its owner may not log in."""


class ConfigurationError(Exception):
    """A configuration with which the daemon does not start.

    ``line`` is None for an override or a missing key. ``key`` is empty if the text itself is
    malformed.
    """

    def __init__(self, source: str, line: int | None, key: str, reason: str) -> None:
        super().__init__(source, line, key, reason)
        self.source = source
        self.line = line
        self.key = key
        self.reason = reason

    def __str__(self) -> str:
        """Return ``source:line: key: reason`` on one line, whatever the file contains."""
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        parts = (place, self.key, self.reason) if self.key else (place, self.reason)
        return escape_unprintable(": ".join(parts))
