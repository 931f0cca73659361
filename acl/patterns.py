"""Patterns: sums of weights by resource pattern, looked up by a resource's name.

The same shape serves the rules of one principal and host (weights of ``acl.bits``), denials
counted over all hosts, and the number of ACLs by pattern. Values are immutable and share
structure: a change copies a path of the maps, never a map.

One oddity of Kafka's is kept, since its decisions are the law here: the literal ``*`` matches
every name but those that begin with ``*`` and go on (its scan takes the ``*`` for a literal that
is too short, and passes over it). A prefix ``*`` does match them.
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

    ``wildcard``: the sum of the literal ``*``. ``lengths``: the distinct lengths of the prefixes,
    longest first; ``length_counts``: how many prefixes have each.
    """

    wildcard: int
    literals: Map[str, int]
    prefixes: Map[str, int]
    lengths: tuple[int, ...]
    length_counts: tuple[int, ...]


NO_PATTERNS: Final = Patterns(0, NOTHING, NOTHING, (), ())


def is_wildcard(pattern_type: int, name: str) -> bool:
    """Say whether the pattern is the wildcard: a ``*`` that is not declared a prefix."""
    return name == WILDCARD and pattern_type != PatternType.PREFIXED


def misses_wildcard(name: str) -> bool:
    """Say whether ``name`` is one of those that the wildcard does not match."""
    return name < AFTER_WILDCARD and name > WILDCARD


def matches(pattern_type: int, pattern_name: str, name: str) -> bool:
    """Say whether a stored pattern matches a resource's name; an unknown type is a prefix."""
    if is_wildcard(pattern_type, pattern_name):
        return not misses_wildcard(name)
    if pattern_type == PatternType.LITERAL:
        return name == pattern_name
    return name.startswith(pattern_name)


def look_up(patterns: Patterns, name: str) -> int:
    """Return the bits of every pattern that matches ``name``, joined by OR."""
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
    """Return the sum at one pattern, 0 where there is none."""
    if is_wildcard(pattern_type, name):
        return patterns.wildcard
    if pattern_type == PatternType.LITERAL:
        return patterns.literals.get(name, 0)
    return patterns.prefixes.get(name, 0)


def add_weight(patterns: Patterns, pattern_type: int, name: str, weight: int) -> Patterns:
    """Return ``patterns`` with ``weight`` (negative to take away) added at one pattern."""
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
        literals = _summed(literals, name, weight)
    else:
        before = len(prefixes)
        prefixes = _summed(prefixes, name, weight)
        if len(prefixes) != before:
            lengths, counts = _counted(lengths, counts, len(name), len(prefixes) - before)
    if not (wildcard or literals or prefixes):
        return NO_PATTERNS
    return Patterns(wildcard, literals, prefixes, lengths, counts)


def _summed(sums: Map[str, int], name: str, weight: int) -> Map[str, int]:
    total = sums.get(name, 0) + weight
    return sums.set(name, total) if total else sums.delete(name)


def _counted(
    lengths: tuple[int, ...], counts: tuple[int, ...], length: int, change: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return lengths and counts with one prefix of ``length`` more or less."""
    by_length = dict(zip(lengths, counts, strict=True))
    by_length[length] = by_length.get(length, 0) + change
    return sorted_lengths(by_length)


def sorted_lengths(counts: dict[int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the lengths that are in use, longest first, and their counts."""
    used = sorted((item for item in counts.items() if item[1]), reverse=True)
    return tuple(length for length, _ in used), tuple(count for _, count in used)
