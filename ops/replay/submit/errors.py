"""What keeps a job from being submitted, each said in one line."""

from __future__ import annotations


class SubmissionError(Exception):
    """Spark cannot be started as it was asked for: the text names what, and what would cure it."""
