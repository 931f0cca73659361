"""How much of a large message is read or written in one step, well under a millisecond."""

from __future__ import annotations

from typing import Final

ITEMS_PER_STEP: Final = 64
BYTES_PER_STEP: Final = 2048
"""A step ends at whichever comes first. Bytes count because an item may hold many tags."""
