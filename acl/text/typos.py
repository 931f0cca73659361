"""Names that differ by one typo: a character that is missing, added, replaced or swapped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from authorizerd.acl.text.letter_case import ascii_lower

CHARACTERS_MAX: Final = 64
"""No known word is longer, and comparing longer ones would take long."""


def find_similar(word: str, known: Iterable[str]) -> str | None:
    """Return the first known word that differs by one typo, regardless of letter case, or None."""
    if len(word) > CHARACTERS_MAX:
        return None
    asked = frozenset(shorten(word))
    for other in known:
        if abs(len(other) - len(word)) <= 1 and not asked.isdisjoint(shorten(other)):
            return other
    return None


def shorten(name: str) -> Iterator[str]:
    """Yield the name in lower case, and the same without each of its characters.

    Two names share one of these if a single typo turns one into the other: a character that is
    missing, added, replaced or swapped with the next.

    difflib would take a millisecond for a few names.
    """
    lower = ascii_lower(name)
    yield lower
    for index in range(len(lower)):
        yield lower[:index] + lower[index + 1 :]
