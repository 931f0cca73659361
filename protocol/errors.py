"""What can be wrong with bytes."""

from __future__ import annotations


class DecodeError(Exception):
    """Bytes that are not what they should be.

    ``position`` is the byte, from the start of what was being read, where that showed.
    """

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason} (at byte {position})")
        self.reason = reason
        self.position = position
