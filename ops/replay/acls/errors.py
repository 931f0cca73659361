"""What can be wrong with a source of ACLs, told in one line that names the source and the place."""

from __future__ import annotations


class AclSourceError(Exception):
    """A source that gives no ACLs.

    ``place`` is where in the source the fault stands (``line 7``, ``acls[3].operation``), None
    where it is the source as a whole.
    """

    def __init__(self, source: str, reason: str, place: str | None = None) -> None:
        super().__init__(source, reason, place)
        self.source = source
        self.reason = reason
        self.place = place

    def __str__(self) -> str:
        """Return ``source: place: reason`` on one line, whatever the source holds."""
        parts = [self.source, self.reason] if self.place is None else [self.source, self.place]
        if self.place is not None:
            parts.append(self.reason)
        return "".join(map(_printable, ": ".join(parts)))


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")
