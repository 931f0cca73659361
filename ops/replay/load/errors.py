"""Why a load cannot be made, or had to end; the text is one line for whoever started it."""

from __future__ import annotations


class LoadError(Exception):
    """What was asked for cannot be done, or the target does not do its part."""
