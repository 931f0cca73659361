"""Mutable patterns, to build a snapshot in bulk.

**Invariant:** frozen patterns equal those that result from the same changes one by one. Freezing
many patterns works in steps.
"""

from __future__ import annotations

from array import array
from operator import itemgetter
from typing import Final

from authorizerd.acl.model import WILDCARD, PatternType
from authorizerd.acl.patterns import (
    NO_END_COUNTS,
    NO_PATTERNS,
    NOTHING,
    End,
    Patterns,
    count_ends,
    is_wildcard,
    list_ends,
    make_end,
)
from authorizerd.acl.steps import Steps
from authorizerd.acl.tables import SMALL_MAX, Growing, Table, freeze, grow

ITEMS_PER_STEP: Final = 64
NAMES_FREED_PER_STEP: Final = 1024
_NAME_SHARDS: Final = 256
_LITERAL: Final = int(PatternType.LITERAL)  # comparing with an enum member takes longer
_PREFIXED: Final = int(PatternType.PREFIXED)


class PatternsBuilder:
    """A mutable ``Patterns``. If there are many prefixes, ``ends`` counts them as they come."""

    __slots__ = ("ends", "literals", "prefixes", "wildcard")

    def __init__(self) -> None:
        self.wildcard = 0
        # Created on first use, since every principal and host has a builder.
        self.literals: Growing[str, int] | None = None
        self.prefixes: Growing[str, int] | None = None
        self.ends: dict[int, Growing[str, int]] | None = None

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
        if self.ends is not None:
            self._count_end(name, 1 if total else -1)
        elif len(sums) > SMALL_MAX:
            self.ends = {length: grow(dict(some)) for length, some in count_ends(sums).items()}
            self.prefixes = grow(sums)
        return before

    def _count_end(self, prefix: str, change: int) -> None:
        assert self.ends is not None
        characters = self.ends.get(len(prefix))
        if characters is None:
            characters = self.ends[len(prefix)] = {}
        count = characters.get(prefix[-1:], 0) + change
        if count:
            characters[prefix[-1:]] = count
            self.ends[len(prefix)] = grow(characters)
        else:
            del characters[prefix[-1:]]

    def freeze_in_steps(self) -> Steps[Patterns]:
        literals = NOTHING if self.literals is None else freeze(self.literals)
        prefixes = NOTHING if self.prefixes is None else freeze(self.prefixes)
        if not (self.wildcard or literals or prefixes):
            return NO_PATTERNS
        if len(prefixes) <= SMALL_MAX:
            few = list_ends(count_ends(prefixes))
            return Patterns(self.wildcard, literals, prefixes, few, NO_END_COUNTS)
        ends: list[End] = []
        counts: Growing[int, Table[str, int]] = {}
        assert self.ends is not None
        while self.ends:
            length, characters = self.ends.popitem()
            if characters:
                frozen = counts[length] = freeze(characters)
                counts = grow(counts)
                ends.append(make_end(length, frozen))
            if len(self.ends) % ITEMS_PER_STEP == ITEMS_PER_STEP - 1:
                yield
        ends.sort(reverse=True, key=itemgetter(0))
        return Patterns(self.wildcard, literals, prefixes, tuple(ends), freeze(counts))


class _Names:
    """Some names by their numbers.

    Attributes:
        counts: for each name, the number of ACLs of the literal, then of the prefix.
    """

    __slots__ = ("counts", "names", "numbers")

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.names: list[str] = []
        self.counts = array("q")


class ResourcesBuilder:
    """The number of ACLs of each pattern of one resource type, and one copy of each name.

    Why many small dicts, lists and arrays? Growing a large one would block the thread for
    milliseconds: it is copied if the memory after it is not free.
    """

    __slots__ = ("shards", "wildcard")

    def __init__(self) -> None:
        self.wildcard = 0
        self.shards: list[_Names | None] = [None] * _NAME_SHARDS

    def add(self, pattern_type: int, name: str, change: int) -> str:
        """Count ``change`` more ACLs of one pattern. Return the one copy of ``name``."""
        if name == WILDCARD and is_wildcard(pattern_type, name):
            self.wildcard += change
            return name
        place = hash(name) % _NAME_SHARDS
        shard = self.shards[place]
        if shard is None:
            shard = self.shards[place] = _Names()
        number = shard.numbers.get(name)
        if number is None:
            number = shard.numbers[name] = len(shard.names)
            shard.names.append(name)
            shard.counts.append(0)
            shard.counts.append(0)
        shard.counts[2 * number + (pattern_type != _LITERAL)] += change
        return shard.names[number]

    def freeze_in_steps(self) -> Steps[Patterns]:
        patterns = PatternsBuilder()
        patterns.wildcard = self.wildcard
        freed = added = 0
        while self.shards:
            shard = self.shards.pop()
            if shard is None:
                continue
            freed += len(shard.numbers)
            shard.numbers.clear()
            if freed >= NAMES_FREED_PER_STEP:
                freed = 0
                yield
            while shard.names:
                name, prefix, literal = shard.names.pop(), shard.counts.pop(), shard.counts.pop()
                if literal:
                    patterns.add(_LITERAL, name, literal)
                if prefix:
                    patterns.add(_PREFIXED, name, prefix)
                added += 1
                if added % ITEMS_PER_STEP == 0:
                    yield
        return (yield from patterns.freeze_in_steps())
