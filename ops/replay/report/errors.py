"""Why no report can be made; the text is one line for whoever asked for it."""

from __future__ import annotations


class ReportError(Exception):
    """What is to be reported cannot be read, or the report cannot be written."""
