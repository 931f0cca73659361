"""Sums of weights by resource pattern, looked up by resource name.

The same structure serves the rules of one principal and host (weights of ``acl.index.bits``), the
denials counted over all hosts, and the number of ACLs per pattern. Values are immutable and share
structure: a change copies a small dict or one path of a map, never a large table.

Decisions follow Kafka in one surprising case: the literal ``*`` matches every name except longer
names that begin with ``*``. Kafka's scan treats the stored ``*`` as a literal that is too short,
and skips it. The prefix ``*`` does match those names.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from authorizerd.acl.index.tables import (
    EMPTY,
    SMALL_MAX,
    Table,
    delete_entry,
    freeze,
    set_entry,
    thaw,
    to_table,
)
from authorizerd.acl.model import WILDCARD, PatternType

AFTER_WILDCARD: Final = chr(ord(WILDCARD) + 1)
LAST_CHARACTERS_MAX: Final = 8

LITERAL: Final = int(PatternType.LITERAL)  # comparing with an enum member takes longer
PREFIXED: Final = int(PatternType.PREFIXED)
EVERY_BIT: Final = -1

Leaf: TypeAlias = tuple[int, int, str]
"""The bits that apply to a question, and the pattern's type and name."""

PrefixProbe: TypeAlias = tuple[int, int, str | None]
"""A length of prefixes, the index of their last character, and all their last characters.

A prefix of this length can match a name only if the name has one of these characters there. Most
prefixes end with a separator, so this test rejects most names, and takes a third of the time of
slicing and looking up the name. None: there are more than ``LAST_CHARACTERS_MAX``, or the length is
0, so the test is skipped.
"""

NOTHING: Final[Table[str, int]] = EMPTY
NO_PROBE_COUNTS: Final[Table[int, Table[str, int]]] = EMPTY


class Patterns(msgspec.Struct, frozen=True, gc=False):
    """Sums by pattern.

    ``wildcard`` is the sum of the literal ``*``. ``probes`` describes the prefixes of each length,
    longest first. If there are many prefixes, ``probe_counts`` counts them by length and last
    character, so that a change need not examine the others.
    """

    wildcard: int
    literals: Table[str, int]
    prefixes: Table[str, int]
    probes: tuple[PrefixProbe, ...]
    probe_counts: Table[int, Table[str, int]]


NO_PATTERNS: Final = Patterns(0, NOTHING, NOTHING, (), NO_PROBE_COUNTS)


def is_wildcard(pattern_type: int, name: str) -> bool:
    """Return True if the pattern is the wildcard: the name ``*`` with any type except PREFIXED."""
    return name == WILDCARD and pattern_type != PREFIXED


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


def prefix_lengths(patterns: Patterns) -> tuple[int, ...]:
    """Return the distinct lengths of the prefixes, longest first."""
    return tuple(length for length, _, _ in patterns.probes)


def find_leaves(patterns: Patterns, name: str, mask: int) -> list[Leaf]:
    """Return the leaves that match ``name`` and have bits under ``mask``.

    They are in the order of Kafka's scan, if ``name`` sorts after ``*`` (see
    ``acl.matching.scan_key``). The cost grows with the number of distinct prefix lengths, never
    with the number of prefixes. ``look_up``, and ``authorize`` and ``explain`` in ``acl.decision``,
    repeat this loop inline, which saves 10 % of their time.
    """
    leaves: list[Leaf] = []
    bits = patterns.literals.get(name, 0) & mask
    if bits:
        leaves.append((bits, LITERAL, name))
    if patterns.probes:
        size = len(name)
        for length, last, characters in patterns.probes:
            if length <= size and (characters is None or name[last] in characters):
                prefix = name[:length]
                bits = patterns.prefixes.get(prefix, 0) & mask
                if bits:
                    leaves.append((bits, PREFIXED, prefix))
    bits = patterns.wildcard & mask
    if bits and not (name < AFTER_WILDCARD and name > WILDCARD):
        leaves.append((bits, LITERAL, WILDCARD))
    return leaves


def look_up(patterns: Patterns, name: str) -> int:
    """Return the bits of every pattern that matches ``name``, joined by OR."""
    bits = patterns.literals.get(name, 0)
    if patterns.wildcard and not misses_wildcard(name):
        bits |= patterns.wildcard
    if patterns.probes:
        size = len(name)
        for length, last, characters in patterns.probes:
            if length <= size and (characters is None or name[last] in characters):
                bits |= patterns.prefixes.get(name[:length], 0)
    return bits


def get_weight(patterns: Patterns, pattern_type: int, name: str) -> int:
    """Return the sum at one pattern, or 0."""
    if name == WILDCARD and pattern_type != PREFIXED:
        return patterns.wildcard
    if pattern_type == LITERAL:
        return patterns.literals.get(name, 0)
    return patterns.prefixes.get(name, 0)


def add_weights(
    patterns: Patterns, pattern_type: int, added: Iterable[tuple[str, int]], unique: int = 0
) -> Patterns | None:
    """Return ``patterns`` with weights added at patterns of one type. A negative weight subtracts.

    If no weight is left, the result is ``NO_PATTERNS`` itself, which callers test for with ``is``.

    Args:
        added: names and weights, in order. A name may recur.
        unique: bits that two weights at one pattern must not share. If they do, return None.
    """
    wildcard, literals, prefixes = patterns.wildcard, patterns.literals, patterns.prefixes
    probes, counts = patterns.probes, patterns.probe_counts
    is_literal, is_prefixed = pattern_type == LITERAL, pattern_type == PREFIXED
    sums = thaw(literals if is_literal else prefixes)
    changed: list[tuple[str, int]] = []
    for name, weight in added:
        is_wildcard = name == WILDCARD and not is_prefixed
        before = wildcard if is_wildcard else sums.get(name, 0)
        if before & weight & unique:
            return None
        total = before + weight
        if is_wildcard:
            wildcard = total
            continue
        if total:
            sums[name] = total
        else:
            del sums[name]
        if not is_literal and not (before and total):
            changed.append((name, 1 if total else -1))
    if is_literal:
        literals = freeze(sums)
    else:
        prefixes = freeze(sums)
        counts, probes = _change_probes(patterns, prefixes, changed)
    if not (wildcard or literals or prefixes):
        return NO_PATTERNS
    return Patterns(wildcard, literals, prefixes, probes, counts)


def add_weight(patterns: Patterns, pattern_type: int, name: str, weight: int) -> Patterns:
    """Return ``patterns`` with one weight added, as ``add_weights`` does."""
    changed = add_weights(patterns, pattern_type, ((name, weight),))
    assert changed is not None, "no bits are unique"
    return changed


_Probes: TypeAlias = tuple[Table[int, Table[str, int]], tuple[PrefixProbe, ...]]
"""``Patterns.probe_counts`` and ``Patterns.probes``."""


def _change_probes(
    patterns: Patterns, prefixes: Table[str, int], changed: Iterable[tuple[str, int]]
) -> _Probes:
    """Return counts and ends after prefixes were added to ``patterns`` (1), or removed (-1)."""
    if len(prefixes) <= SMALL_MAX:
        return NO_PROBE_COUNTS, list_probes(count_probes(prefixes))
    if len(patterns.prefixes) <= SMALL_MAX:
        counts = count_probes(prefixes)
        return counts, list_probes(counts)
    counts, probes = patterns.probe_counts, patterns.probes
    for prefix, change in changed:
        counts, probes = _count_probe(counts, probes, prefix, change)
    return counts, probes


def count_probes(prefixes: Iterable[str]) -> Table[int, Table[str, int]]:
    """Return the number of prefixes by length and last character, for few prefixes."""
    counts: dict[int, dict[str, int]] = {}
    for prefix in prefixes:
        characters = counts.setdefault(len(prefix), {})
        characters[prefix[-1:]] = characters.get(prefix[-1:], 0) + 1
    return to_table({length: to_table(characters) for length, characters in counts.items()})


def list_probes(counts: Table[int, Table[str, int]]) -> tuple[PrefixProbe, ...]:
    """Return the ``PrefixProbe`` of each length, longest first."""
    return tuple(make_probe(length, counts[length]) for length in sorted(counts, reverse=True))


def make_probe(length: int, characters: Table[str, int]) -> PrefixProbe:
    """Return the ``PrefixProbe`` of the prefixes of one length, whose last characters are given."""
    is_listed = length and len(characters) <= LAST_CHARACTERS_MAX
    return length, length - 1, "".join(sorted(characters)) if is_listed else None


def _count_probe(
    counts: Table[int, Table[str, int]], probes: tuple[PrefixProbe, ...], prefix: str, change: int
) -> _Probes:
    """Return counts and ends after adding ``change`` copies of ``prefix`` (1 or -1)."""
    length = len(prefix)
    before = counts.get(length, NOTHING)
    count = before.get(prefix[-1:], 0) + change
    if count:
        characters = set_entry(before, prefix[-1:], count)
    else:
        characters = delete_entry(before, prefix[-1:])
    counts = set_entry(counts, length, characters) if characters else delete_entry(counts, length)
    if len(characters) != len(before):
        position = bisect_left(probes, -length, key=lambda end: -end[0])
        end = (make_probe(length, characters),) if characters else ()
        probes = (*probes[:position], *end, *probes[position + (1 if before else 0) :])
    return counts, probes
