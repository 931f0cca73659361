"""Errors of a source of ACLs; each is one line that names the source and the place."""

from __future__ import annotations

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.replay.errors import ReplayError


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
