"""What keeps a job from its result, each said in one line."""

from __future__ import annotations


class JobError(Exception):
    """Input that cannot be used, or a cluster that cannot do the job; the text names which."""
