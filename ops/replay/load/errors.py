"""Errors that prevent or end a load; the text is one line for the user."""

from __future__ import annotations


class LoadError(Exception):
    """Report that a load is impossible, or that the target does not keep up."""
