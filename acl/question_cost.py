"""The cost of deciding a question, counted in lookups.

For each length that prefixes have, a decision slices and hashes the question's resource name. So
the time that a fixed number of questions takes has no bound. Code that divides many questions into
turns counts lookups instead.
"""

from __future__ import annotations

from typing import Final

from authorizerd.acl.snapshot import AclSnapshot

CHARACTERS_PER_LOOKUP: Final = 512
"""Slicing and hashing this many characters takes about as long as the rest of a lookup."""


def bound_lookups(snapshot: AclSnapshot, name_size: int) -> int:
    """Return the maximum number of lookups for one set of patterns, at least 1.

    It is a bound for all principals. Finding one principal's own number would take as long as an
    ordinary decision.

    Args:
        name_size: an upper bound for the characters of the question's resource name.
    """
    most = 1
    for index in snapshot.types:
        lengths = index.resources.lengths
        if lengths:
            each = 1 + min(lengths[0], name_size) // CHARACTERS_PER_LOOKUP
            most = max(most, len(lengths) * each)
    return most
