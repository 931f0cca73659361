"""Errors that prevent or end a load; the text is one line for the user."""

from __future__ import annotations


class LoadError(Exception):
    """A load cannot run, or its target does not answer as the protocol requires."""
