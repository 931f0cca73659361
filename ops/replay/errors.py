"""The errors that end a command of replay with exit code 1; the text of each is one line."""

from __future__ import annotations


class ReplayError(Exception):
    """A fault that the user can repair: the text names the reason, and mostly the remedy."""


class ReportError(ReplayError):
    """The results of a run cannot be read, or their report cannot be written."""


class SubmissionError(ReplayError):
    """Spark cannot be started with these options."""


class UsageError(ReplayError):
    """The record, or the dates of the ACLs, do not support a claim."""
