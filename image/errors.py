"""What can be wrong with a committed change."""

from __future__ import annotations


class ChangeError(Exception):
    """A committed change does not fit what came before: the log or this code is wrong."""


class ClusterChangeError(ChangeError):
    """A committed change does not fit the topics or credentials before it."""
