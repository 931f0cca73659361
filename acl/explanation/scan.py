"""The patterns that match a resource name, in the order in which Kafka's scan meets them.

Source: Kafka 4.3 StandardAuthorizerData.checkSection.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from authorizerd.acl.matching import LITERAL, PREFIXED
from authorizerd.acl.model import WILDCARD
from authorizerd.acl.patterns import Patterns, misses_wildcard
from authorizerd.acl.question_cost import CHARACTERS_PER_LOOKUP
from authorizerd.acl.steps import Steps

ENDS_PER_STEP: Final = 512
LOOKUPS_PER_STEP: Final = 128


def find_prefix_lengths(tables: Iterable[Patterns], name: str) -> Steps[list[int]]:
    """Return, in steps, the lengths of all prefixes of ``name`` that may be in a table.

    The longest comes first. A name has few such prefixes, but each may have its own length.
    """
    size = len(name)
    lengths: set[int] = set()
    for patterns in tables:
        ends = patterns.ends
        for start in range(0, len(ends), ENDS_PER_STEP):
            lengths.update(
                length
                for length, last, characters in ends[start : start + ENDS_PER_STEP]
                if length <= size and (characters is None or name[last] in characters)
            )
            yield
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


class Pace:
    """Counts lookups, and says when a step has had enough of them."""

    __slots__ = ("_lookups",)

    def __init__(self) -> None:
        self._lookups = 0

    def is_due(self, lookups: int) -> bool:
        """Count ``lookups``. Return True if the step must end."""
        self._lookups += lookups
        if self._lookups < LOOKUPS_PER_STEP:
            return False
        self._lookups = 0
        return True


def count_lookups(patterns: Patterns) -> int:
    """Return how many lookups looking up one name in ``patterns`` takes at most."""
    return 1 + len(patterns.ends)


def count_slices(name: str, tables: int) -> int:
    """Return how many lookups it takes to cut a name and to look it up in some tables."""
    return tables + len(name) // CHARACTERS_PER_LOOKUP
