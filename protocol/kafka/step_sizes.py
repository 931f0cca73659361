"""The amount of a large message that one step reads or writes, well under a millisecond."""

from __future__ import annotations

from typing import Final

ITEMS_PER_STEP: Final = 64
BYTES_PER_STEP: Final = 2048
"""A step ends at whichever limit comes first. Bytes count because an item may have many tags."""
