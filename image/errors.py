"""The errors of committed changes."""

from __future__ import annotations


class ChangeError(Exception):
    """A committed change contradicts the state before it: the log or this code is wrong."""


class ClusterChangeError(ChangeError):
    """A committed change contradicts the topics or credentials before it."""
