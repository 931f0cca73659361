"""Sums of weights by resource pattern, looked up by resource name.

The same structure serves the rules of one principal and host (weights of ``acl.bits``), the denials
counted over all hosts, and the number of ACLs per pattern. Values are immutable and share
structure: a change copies one path of a map, never a whole map.

Decisions follow Kafka in one surprising case: the literal ``*`` matches every name except longer
names that begin with ``*``. Kafka's scan treats the stored ``*`` as a literal that is too short,
and skips it. The prefix ``*`` does match those names.
"""

from __future__ import annotations

from typing import Final

import msgspec
from immutables import Map

from authorizerd.acl.model import WILDCARD, PatternType

NOTHING: Final[Map[str, int]] = Map()
AFTER_WILDCARD: Final = chr(ord(WILDCARD) + 1)


class Patterns(msgspec.Struct, frozen=True, gc=False):
    """Sums by pattern.

    ``wildcard`` is the sum of the literal ``*``. ``lengths`` are the distinct lengths of the
    prefixes, longest first, and ``length_counts`` the number of prefixes of each length.
    """

    wildcard: int
    literals: Map[str, int]
    prefixes: Map[str, int]
    lengths: tuple[int, ...]
    length_counts: tuple[int, ...]


NO_PATTERNS: Final = Patterns(0, NOTHING, NOTHING, (), ())


def is_wildcard(pattern_type: int, name: str) -> bool:
    """Return True if the pattern is the wildcard: the name ``*`` with any type except PREFIXED."""
    return name == WILDCARD and pattern_type != PatternType.PREFIXED


def misses_wildcard(name: str) -> bool:
    """Return True if the wildcard ``*`` does not match ``name``, as for ``*a`` (see above)."""
    # Two comparisons take less time than `startswith` and a check of the length.
    return name < AFTER_WILDCARD and name > WILDCARD


def matches(pattern_type: int, pattern_name: str, name: str) -> bool:
    """Return True if a stored pattern matches a resource name.

    An unknown type counts as PREFIXED.
    """
    if is_wildcard(pattern_type, pattern_name):
        return not misses_wildcard(name)
    if pattern_type == PatternType.LITERAL:
        return name == pattern_name
    return name.startswith(pattern_name)


def look_up(patterns: Patterns, name: str) -> int:
    """Return the bits of every pattern that matches ``name``, joined by OR.

    The cost grows with the number of distinct prefix lengths, never with the number of prefixes.
    """
    bits = patterns.literals.get(name, 0)
    if not misses_wildcard(name):
        bits |= patterns.wildcard
    if patterns.lengths:
        size = len(name)
        get = patterns.prefixes.get
        for length in patterns.lengths:
            if length <= size:
                bits |= get(name[:length], 0)
    return bits


def get_weight(patterns: Patterns, pattern_type: int, name: str) -> int:
    """Return the sum at one pattern, or 0."""
    if is_wildcard(pattern_type, name):
        return patterns.wildcard
    if pattern_type == PatternType.LITERAL:
        return patterns.literals.get(name, 0)
    return patterns.prefixes.get(name, 0)


def add_weight(patterns: Patterns, pattern_type: int, name: str, weight: int) -> Patterns:
    """Return ``patterns`` with ``weight`` added at one pattern. A negative weight subtracts.

    If no weight is left, the result is ``NO_PATTERNS`` itself, which callers test for with ``is``.
    """
    wildcard, literals, prefixes, lengths, counts = (
        patterns.wildcard,
        patterns.literals,
        patterns.prefixes,
        patterns.lengths,
        patterns.length_counts,
    )
    if is_wildcard(pattern_type, name):
        wildcard += weight
    elif pattern_type == PatternType.LITERAL:
        literals = _add_to_sum(literals, name, weight)
    else:
        before = len(prefixes)
        prefixes = _add_to_sum(prefixes, name, weight)
        if len(prefixes) != before:
            lengths, counts = _count_length(lengths, counts, len(name), len(prefixes) - before)
    if not (wildcard or literals or prefixes):
        return NO_PATTERNS
    return Patterns(wildcard, literals, prefixes, lengths, counts)


def _add_to_sum(sums: Map[str, int], name: str, weight: int) -> Map[str, int]:
    total = sums.get(name, 0) + weight
    return sums.set(name, total) if total else sums.delete(name)


def _count_length(
    lengths: tuple[int, ...], counts: tuple[int, ...], length: int, change: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return lengths and counts after adding ``change`` prefixes of ``length`` (1 or -1)."""
    by_length = dict(zip(lengths, counts, strict=True))
    by_length[length] = by_length.get(length, 0) + change
    return sorted_lengths(by_length)


def sorted_lengths(counts: dict[int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the lengths in use, longest first, and their counts."""
    used = sorted((item for item in counts.items() if item[1]), reverse=True)
    return tuple(length for length, _ in used), tuple(count for _, count in used)
