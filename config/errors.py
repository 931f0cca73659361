"""The errors of a configuration: one line that names the place and the key."""

from __future__ import annotations

from collections.abc import Sequence

from authorizerd.acl.text.printable import escape_unprintable


class InvalidValueError(ValueError):
    """A value that is invalid for its key. The text is the reason, without place or key."""


class PrincipalMappingError(Exception):
    """A distinguished name that the mapping rules give no principal. Its owner may not log in."""


class OutputError(Exception):
    """Output of a command is lost, as on a full disk. The text names the stream."""


class ConfigurationError(Exception):
    """A configuration with which the daemon does not start.

    ``line`` is None for an override or a missing key. ``key`` is empty if the text itself is
    malformed. ``others`` are the configuration's other faults, if this error stands for all.
    """

    def __init__(
        self,
        source: str,
        line: int | None,
        key: str,
        reason: str,
        others: Sequence[ConfigurationError] = (),
    ) -> None:
        super().__init__(source, line, key, reason)
        self.source = source
        self.line = line
        self.key = key
        self.reason = reason
        self.others = others

    @classmethod
    def of_all(cls, faults: Sequence[ConfigurationError]) -> ConfigurationError:
        """Return one error for one or more faults, in the order of the file."""
        # Overrides and missing keys have no line, and come last.
        first, *others = sorted(faults, key=lambda fault: (fault.line is None, fault.line or 0))
        return cls(first.source, first.line, first.key, first.reason, others)

    @property
    def faults(self) -> list[ConfigurationError]:
        """All known faults as separate errors, in the order of the file."""
        return [type(self)(self.source, self.line, self.key, self.reason), *self.others]

    def __str__(self) -> str:
        """Return ``source:line: key: reason`` on one line, whatever the file contains."""
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        parts = (place, self.key, self.reason) if self.key else (place, self.reason)
        more = f" (and {len(self.others)} more)" if self.others else ""
        return escape_unprintable(": ".join(parts)) + more
