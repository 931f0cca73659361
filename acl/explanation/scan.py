"""The patterns that match a resource name, in the order in which Kafka's scan meets them.

Source: Kafka 4.3 StandardAuthorizerData.checkSection.
"""

from __future__ import annotations

from collections.abc import Iterable

from authorizerd.acl.matching import LITERAL, PREFIXED
from authorizerd.acl.model import WILDCARD
from authorizerd.acl.patterns import Patterns, misses_wildcard


def find_prefix_lengths(tables: Iterable[Patterns], name: str) -> list[int]:
    """Return the lengths of all prefixes of ``name`` that may be in a table.

    The longest comes first. A name has few such prefixes, but each may have its own length.
    """
    size = len(name)
    lengths: set[int] = set()
    for patterns in tables:
        lengths.update(
            length
            for length, last, characters in patterns.ends
            if length <= size and (characters is None or name[last] in characters)
        )
    return sorted(lengths, reverse=True)


def iterate_patterns(name: str, lengths: Iterable[int]) -> Iterable[tuple[int, str]]:
    """Yield the type and name of each pattern that matches ``name``.

    Args:
        lengths: the lengths of the prefixes, the longest first.
    """
    yield LITERAL, name
    for length in lengths:
        yield PREFIXED, name[:length]
    if name != WILDCARD and not misses_wildcard(name):
        yield LITERAL, WILDCARD
