"""Errors that prevent the daemon's start, close a connection or reject a request."""

from __future__ import annotations


class StartError(Exception):
    """The environment prevents the start; the text is one line that names the cause."""


class ClosingError(Exception):
    """A connection must be closed; the text gives the reason, for the log."""


class MemoryBudgetError(ClosingError):
    """A connection needs more memory than its endpoint currently has left."""


class BusyError(Exception):
    """A request cannot be answered now, but perhaps later; the text says why."""


class ForbiddenError(Exception):
    """The caller lacks a right; the text names the right that it needs."""


class PastRefusedError(Exception):
    """A question is about a moment outside the log: too old, or in the future."""


class PastTooFarError(PastRefusedError):
    """A past state would take too much memory and time, because too much has changed."""


class PastUnavailableError(Exception):
    """A question about the past cannot be answered now. The text says what to do."""
