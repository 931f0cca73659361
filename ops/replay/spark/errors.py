"""Errors that end a job; the text of each is one line for the user."""

from __future__ import annotations

from authorizerd.replay.errors import ReplayError


class JobError(ReplayError):
    """Unusable input, or a cluster that cannot run the job; the text names it."""
