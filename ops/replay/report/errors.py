"""The error of the report; its text is one line."""

from __future__ import annotations


class ReportError(Exception):
    """A result cannot be read, or the report cannot be written."""
