"""The cost of deciding a question, counted in lookups.

A decision slices and hashes the resource name once for each distinct length of the ACLs' prefixes,
and again for each network that contains the host. So one question can take long. Code that spreads
questions over several turns of the event loop therefore counts lookups, not questions.
"""

from __future__ import annotations

from typing import Final

from authorizerd.acl.snapshot import AclSnapshot

CHARACTERS_PER_LOOKUP: Final = 512
"""Slicing and hashing this many characters takes about as long as the rest of a lookup."""
LOOKUPS_PER_NETWORK: Final = 16
"""Finding the rule of one network costs at most this many lookups more."""
LOOKUPS_PER_UNINDEXED: Final = 8
"""Comparing a question with one unindexed ACL costs at most this many lookups."""


def bound_lookups(snapshot: AclSnapshot, name_size: int) -> int:
    """Return the maximum number of lookups for one principal, at least 1.

    The bound holds for every principal. Finding the number for one principal would take as long as
    an ordinary decision.

    Args:
        name_size: an upper bound for the characters of the question's resource name.
    """
    most = 1
    for index in snapshot.types:
        probes, lookups = index.resources.probes, 1
        if probes:
            longest = probes[0][0]
            lookups = len(probes) * (1 + min(longest, name_size) // CHARACTERS_PER_LOOKUP)
        most = max(most, lookups * (1 + index.networks_max))
    return most


def bound_explanation(snapshot: AclSnapshot, name_size: int) -> int:
    """Return ``bound_lookups`` for a decision with its rule, which scans the unindexed ACLs."""
    networks = max(index.networks_max for index in snapshot.types)
    others = LOOKUPS_PER_NETWORK * networks + LOOKUPS_PER_UNINDEXED * len(snapshot.unindexed)
    return bound_lookups(snapshot, name_size) + others
