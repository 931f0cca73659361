"""Names that differ by one typo: a character that is missing, added, replaced or swapped."""

from __future__ import annotations

from collections.abc import Iterator

from authorizerd.acl.letter_case import ascii_lower


def shorten(name: str) -> Iterator[str]:
    """Yield the name in lower case, and the same without each of its characters.

    Two names have one of these in common if one typo turns one into the other: a character that is
    missing, added, replaced or swapped with the next.

    Why not difflib? It takes a millisecond for a few names.
    """
    lower = ascii_lower(name)
    yield lower
    for place in range(len(lower)):
        yield lower[:place] + lower[place + 1 :]
