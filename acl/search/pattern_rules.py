"""The rules that may matter for one principal and operation, sorted by pattern."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from authorizerd.acl.hosts import never_matches
from authorizerd.acl.model import WILDCARD, PatternType
from authorizerd.acl.patterns import Patterns
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.search.sorting import merge_in_steps
from authorizerd.acl.snapshot import Rules
from authorizerd.acl.steps import Steps

ITEMS_PER_STEP: Final = 128
RULES_PER_CHUNK: Final = 512

LITERAL: Final = int(PatternType.LITERAL)
PREFIXED: Final = int(PatternType.PREFIXED)
ALL_BITS: Final = -1
EVERYTHING: Final = ""
"""The prefix that matches every name. Only logs of other programs may contain such an ACL."""

Pattern: TypeAlias = tuple[int, str]
"""A pattern's type (a code) and name."""

PatternRule: TypeAlias = tuple[str, bool, str, int]
"""A pattern's name, whether it is a literal, a host or ``*``, and the bits of its rules.

In this order, a prefix is followed by the patterns inside it.
"""


class PatternRules:
    """Rules by pattern, except those of the wildcard.

    Args:
        mask: the bits of rules that matter.
        star_mask: those of rules for names that begin with ``*``.
        literal_mask: those of rules for single names, in both cases.
        after: leave out patterns up to this one, except prefixes that contain later patterns.
    """

    __slots__ = ("_after", "_chunks", "_masks", "_new", "_scanned")

    def __init__(self, mask: int, star_mask: int, literal_mask: int, after: Pattern | None) -> None:
        self._masks: Final = {
            True: (mask & literal_mask, star_mask & literal_mask),
            False: (mask, star_mask),
        }
        self._after: tuple[str, bool] | None = None
        if after is not None and get_position(after)[0]:
            self._after = after[1], after[0] == LITERAL
        self._chunks: Final[list[list[PatternRule]]] = []
        self._new: list[PatternRule] = []
        self._scanned = 0

    def collect(self, rules: Rules, releases: ReleaseRules) -> Steps[None]:
        """Add all rules of one principal whose hosts can match."""
        yield from self._collect_at(WILDCARD, rules.any_host)
        for host, patterns in rules.hosts.items():
            if self._is_step_complete():
                yield
            if (patterns.literals or patterns.prefixes) and not never_matches(host, releases):
                yield from self._collect_at(host, patterns)

    def _collect_at(self, host: str, patterns: Patterns) -> Steps[None]:
        after = self._after
        for is_literal, sums in ((True, patterns.literals), (False, patterns.prefixes)):
            mask, star_mask = self._masks[is_literal]
            for name, bits in sums.items():
                bits &= star_mask if name[:1] == WILDCARD else mask
                if bits and (
                    after is None or (name, is_literal) > after or after[0].startswith(name)
                ):
                    self._new.append((name, is_literal, host, bits))
                if self._is_step_complete():
                    yield

    def _is_step_complete(self) -> bool:
        """Count an item. Return True after enough of them, and sort their rules by then."""
        self._scanned += 1
        if self._scanned % ITEMS_PER_STEP:
            return False
        self._sort_new(RULES_PER_CHUNK)
        return True

    def _sort_new(self, at_least: int) -> None:
        if len(self._new) >= at_least:
            self._new.sort()
            self._chunks.append(self._new)
            self._new = []

    def iterate(self) -> Steps[Iterator[PatternRule]]:
        """Return, in steps, an iterator over all rules, in ascending order."""
        self._sort_new(1)
        return (yield from merge_in_steps(self._chunks))

    def free(self) -> Steps[None]:
        """Free the rules, in steps."""
        while self._chunks:
            self._chunks.pop()
            yield


def get_position(pattern: Pattern) -> tuple[int, str, bool]:
    """Return a key that sorts patterns as results are sorted.

    Its first item is 0 for a pattern that contains nearly all others.
    """
    pattern_type, name = pattern
    is_literal = pattern_type == LITERAL
    is_root = name == (WILDCARD if is_literal else EVERYTHING)
    return 0 if is_root else 1, name, is_literal
