"""Errors that prevent a submission; the text of each is one line for the user."""

from __future__ import annotations


class SubmissionError(Exception):
    """Spark cannot be started with these options; the text names the reason and the remedy."""
