"""Mutable patterns, to build a snapshot in bulk.

**Invariant:** frozen patterns equal those that result from the same changes one by one.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from authorizerd.acl.index.tables import (
    PARTS,
    SMALL_MAX,
    Growing,
    Parts,
    Table,
    freeze,
    grow,
    new_parts,
    pop_all,
)
from authorizerd.acl.model import WILDCARD, PatternType
from authorizerd.acl.patterns import (
    NO_PATTERNS,
    NO_PROBE_COUNTS,
    NOTHING,
    Patterns,
    PrefixProbe,
    count_probes,
    is_wildcard,
    list_probes,
    make_probe,
)
from authorizerd.acl.steps import Steps

_LITERAL: Final = int(PatternType.LITERAL)  # comparing with an enum member takes longer
_PREFIXED: Final = int(PatternType.PREFIXED)


class PatternsBuilder:
    """A mutable ``Patterns``. If there are many prefixes, ``probes`` counts them as they come."""

    __slots__ = ("literals", "prefixes", "probes", "wildcard")

    def __init__(self) -> None:
        self.wildcard = 0
        # Created on first use, since every principal and host has a builder.
        self.literals: Growing[str, int] | None = None
        self.prefixes: Growing[str, int] | None = None
        self.probes: dict[int, Growing[str, int]] | None = None

    def add(self, pattern_type: int, name: str, weight: int) -> int:
        """Add ``weight`` at one pattern. Return the previous sum."""
        # Comparing the name first avoids nearly every call of `is_wildcard`.
        if name == WILDCARD and is_wildcard(pattern_type, name):
            before = self.wildcard
            self.wildcard = before + weight
            return before
        if pattern_type != _LITERAL:
            return self._add_prefix(name, weight)
        sums = self.literals
        if sums is None:
            sums = self.literals = {}
        before = sums.get(name, 0)
        total = before + weight
        if total:
            sums[name] = total
            if len(sums) == SMALL_MAX + 1:
                self.literals = grow(sums)
        else:
            # Delete a zero: the frozen table must equal one that was built change by change.
            del sums[name]
        return before

    def _add_prefix(self, name: str, weight: int) -> int:
        sums = self.prefixes
        if sums is None:
            sums = self.prefixes = {}
        before = sums.get(name, 0)
        total = before + weight
        if total:
            sums[name] = total
        else:
            del sums[name]
        if before and total:
            return before
        if self.probes is not None:
            self._count_probe(name, 1 if total else -1)
        elif len(sums) > SMALL_MAX:
            self.probes = {length: grow(dict(ends)) for length, ends in count_probes(sums).items()}
            self.prefixes = grow(sums)
        return before

    def _count_probe(self, prefix: str, change: int) -> None:
        assert self.probes is not None
        characters = self.probes.get(len(prefix))
        if characters is None:
            characters = self.probes[len(prefix)] = {}
        count = characters.get(prefix[-1:], 0) + change
        if count:
            characters[prefix[-1:]] = count
            self.probes[len(prefix)] = grow(characters)
        else:
            del characters[prefix[-1:]]

    def freeze(self) -> Patterns:
        literals = NOTHING if self.literals is None else freeze(self.literals)
        prefixes = NOTHING if self.prefixes is None else freeze(self.prefixes)
        if not (self.wildcard or literals or prefixes):
            return NO_PATTERNS
        if len(prefixes) <= SMALL_MAX:
            few_probes = list_probes(count_probes(prefixes))
            return Patterns(self.wildcard, literals, prefixes, few_probes, NO_PROBE_COUNTS)
        probes: list[PrefixProbe] = []
        counts: Growing[int, Table[str, int]] = {}
        assert self.probes is not None
        while self.probes:
            length, characters = self.probes.popitem()
            if characters:
                frozen = counts[length] = freeze(characters)
                counts = grow(counts)
                probes.append(make_probe(length, frozen))
        probes.sort(reverse=True, key=itemgetter(0))
        return Patterns(self.wildcard, literals, prefixes, tuple(probes), freeze(counts))


class _Name:
    """A resource name, and the number of ACLs of its literal and of its prefix."""

    __slots__ = ("literals", "name", "prefixes")

    def __init__(self, name: str) -> None:
        self.name = name
        self.literals = self.prefixes = 0


class ResourcesBuilder:
    """The number of ACLs of each pattern of one resource type, and one copy of each name."""

    __slots__ = ("names", "wildcard")

    def __init__(self) -> None:
        self.wildcard = 0
        self.names: Parts[str, _Name] = new_parts()

    def add(self, pattern_type: int, name: str, change: int) -> str:
        """Count ``change`` more ACLs of one pattern. Return the one copy of ``name``."""
        if name == WILDCARD and is_wildcard(pattern_type, name):
            self.wildcard += change
            return name
        names = self.names[hash(name) % PARTS]
        known = names.get(name)
        if known is None:
            known = names[name] = _Name(name)
        if pattern_type == _LITERAL:
            known.literals += change
        else:
            known.prefixes += change
        return known.name

    def freeze_in_steps(self) -> Steps[Patterns]:
        patterns = PatternsBuilder()
        patterns.wildcard = self.wildcard
        for name, counts in pop_all(self.names):
            if counts.literals:
                patterns.add(_LITERAL, name, counts.literals)
            if counts.prefixes:
                patterns.add(_PREFIXED, name, counts.prefixes)
            yield
        return patterns.freeze()
