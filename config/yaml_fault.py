"""A fault of a YAML document."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """A fault at a position in a file; ``line`` and ``column`` count from 1.

    ``notes`` are further lines that help to correct it.
    """

    line: int
    column: int
    reason: str
    notes: tuple[str, ...] = ()
