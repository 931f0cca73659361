"""Why the daemon does not start, or ends."""

from __future__ import annotations


class StartError(Exception):
    """Something outside the daemon keeps it from starting; the text is one line that names it."""


class ClosingError(Exception):
    """A connection that is to be closed; the text says why, for the log."""


class ForbiddenError(Exception):
    """What a caller may not do; the text says what it would need."""
