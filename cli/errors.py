"""The error that ends a command.

Every function of a command may raise it, or another error that ``main`` reports in one line. A
docstring mentions this only if there is more to say, such as that nothing was changed.
"""

from __future__ import annotations


class CommandError(Exception):
    """A command cannot continue; the text names the file, the flag or the server, and the cause."""
