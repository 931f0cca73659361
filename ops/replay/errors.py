"""The errors that end a command of replay with exit code 1; the text of each is one line."""

from __future__ import annotations

from authorizerd.acl.text.printable import escape_unprintable


class ReplayError(Exception):
    """A fault that the user can repair: the text names the reason, and mostly the remedy."""


class AclSourceError(ReplayError):
    """A source cannot be read as ACLs.

    ``place`` is the position in the source (``line 7``, ``acls[3].operation``), or None if the
    error concerns the whole source.
    """

    def __init__(self, source: str, reason: str, place: str | None = None) -> None:
        super().__init__(source, reason, place)
        self.source = source
        self.reason = reason
        self.place = place

    def __str__(self) -> str:
        """Return ``source: place: reason`` on one line, whatever the source contains."""
        return escape_unprintable(": ".join(filter(None, (self.source, self.place, self.reason))))


class ReportError(ReplayError):
    """The results of a run cannot be read, or their report cannot be written."""


class SubmissionError(ReplayError):
    """Spark cannot be started with these options."""


class UsageError(ReplayError):
    """The record, or the dates of the ACLs, do not support a claim."""
