"""The errors of msgspec's decoders in words for people."""

from __future__ import annotations

from typing import Final

DECODING_ERRORS: Final = (ValueError, RecursionError)
"""All errors of a decoder: its own errors and UnicodeDecodeError are ValueErrors."""


def describe_decoding_error(error: BaseException) -> str:
    """Return the fault of a document or message, without the texts of Python's own errors."""
    if isinstance(error, UnicodeError):
        return "a text is not UTF-8"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
