"""The patterns that match a resource name, in the order in which Kafka's scan meets them.

Source: Kafka 4.3 StandardAuthorizerData.checkSection.
"""

from __future__ import annotations

from collections.abc import Iterable

from authorizerd.acl.model import WILDCARD
from authorizerd.acl.patterns import (
    EVERY_BIT,
    LITERAL,
    PREFIXED,
    Patterns,
    find_leaves,
    misses_wildcard,
)


def iterate_patterns(tables: Iterable[Patterns], name: str) -> Iterable[tuple[int, str]]:
    """Yield the type and name of each pattern that matches ``name`` and may be in a table."""
    yield LITERAL, name
    prefixes = {
        prefix
        for patterns in tables
        for _, kind, prefix in find_leaves(patterns, name, EVERY_BIT)
        if kind == PREFIXED
    }
    for prefix in sorted(prefixes, key=len, reverse=True):
        yield PREFIXED, prefix
    if name != WILDCARD and not misses_wildcard(name):
        yield LITERAL, WILDCARD
