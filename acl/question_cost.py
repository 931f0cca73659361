"""How much work it takes to decide a question, counted in lookups.

A lookup of a prefix slices and hashes the question's resource name, for each length that prefixes
have. So a fixed number of questions may take any time: whoever divides many questions into turns
counts lookups.
"""

from __future__ import annotations

from typing import Final

from authorizerd.acl.snapshot import AclSnapshot

CHARACTERS_PER_LOOKUP: Final = 512
"""Slicing and hashing this many characters takes about as long as the rest of a lookup."""


def lookups_max(snapshot: AclSnapshot, name_size: int) -> int:
    """Return how many lookups one set of patterns takes at most, 1 or more.

    It is a bound for all principals, since finding one principal's own number would take as long
    as an ordinary decision.

    Args:
        name_size: the characters of the question's resource name, or more.
    """
    most = 1
    for index in snapshot.types:
        lengths = index.resources.lengths
        if lengths:
            each = 1 + min(lengths[0], name_size) // CHARACTERS_PER_LOOKUP
            most = max(most, len(lengths) * each)
    return most
