"""Why the daemon does not start, or ends."""

from __future__ import annotations


class StartError(Exception):
    """Something outside the daemon keeps it from starting; the text is one line that names it."""


class ClosingError(Exception):
    """A connection that is to be closed; the text says why, for the log."""


class NoRoomError(ClosingError):
    """What a connection wants to hold is more than its endpoint has room for just now."""


class ForbiddenError(Exception):
    """What a caller may not do; the text says what it would need."""
