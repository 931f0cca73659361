"""The error of invalid bytes."""

from __future__ import annotations


class DecodeError(Exception):
    """The bytes are invalid.

    ``position`` is the byte offset of the fault in the data being read.
    """

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason} (at byte {position})")
        self.reason = reason
        self.position = position
