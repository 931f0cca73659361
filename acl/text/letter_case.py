"""Upper and lower case of ASCII letters, for names that may be written in any case.

Why not ``str.upper``? ``"wr\\u0131te".upper()`` is ``"WRITE"``: the daemon would accept an
operation that the caller's own checks do not recognize.
"""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase
from typing import Final

_TO_UPPER: Final = str.maketrans(ascii_lowercase, ascii_uppercase)
_TO_LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)


def ascii_upper(text: str) -> str:
    """Return ``text`` with a to z in upper case. Other characters stay unchanged."""
    return text.upper() if text.isascii() else text.translate(_TO_UPPER)


def ascii_lower(text: str) -> str:
    """Return ``text`` with A to Z in lower case. Other characters stay unchanged."""
    return text.lower() if text.isascii() else text.translate(_TO_LOWER)
