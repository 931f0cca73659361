"""Faults of policy files: each with its file, line and column, all reported together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.config.yaml_fault import Fault

FAULTS_SHOWN_MAX: Final = 100
"""The limit per file: a file of another kind would have a fault in every line."""


class FaultyFileError(Exception):
    """Policy files are unusable. The text has ``source:line:column: reason`` for each fault."""

    def __init__(self, text: str, count: int) -> None:
        super().__init__(text)
        self.count = count


def new_error(source: str, faults: Sequence[Fault]) -> FaultyFileError:
    """Return the error for the faults of one file, each followed by its notes."""
    lines = [
        line
        for fault in faults[:FAULTS_SHOWN_MAX]
        for line in (
            f"{source}:{fault.line}:{fault.column}: {fault.reason}",
            *(f"    {note}" for note in fault.notes),
        )
    ]
    if left := faults[FAULTS_SHOWN_MAX:]:
        lines.append(
            f"{source}:{left[0].line}:{left[0].column}: {count_of(len(left), 'more fault')}"
        )
    return FaultyFileError("\n".join(map(escape_unprintable, lines)), len(faults))
