"""The errors of the metadata shell."""

from __future__ import annotations


class ShellError(Exception):
    """A command that the shell does not accept; the text says why."""


class NotToldError(Exception):
    """A broker does not tell this client what it asks for; the text says why."""
