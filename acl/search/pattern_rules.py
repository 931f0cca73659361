"""The rules that may matter for one principal and operation, sorted by pattern."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop
from typing import Final, TypeAlias

from authorizerd.acl.hosts import never_matches
from authorizerd.acl.model import WILDCARD, PatternType
from authorizerd.acl.patterns import Patterns
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.snapshot import Rules

LITERAL: Final = int(PatternType.LITERAL)
PREFIXED: Final = int(PatternType.PREFIXED)
ALL_BITS: Final = -1
EVERYTHING: Final = ""
"""The prefix that matches every name. Only logs written by other programs may contain it."""

Pattern: TypeAlias = tuple[int, str]
"""A pattern's type (a code) and name."""

PatternRule: TypeAlias = tuple[str, bool, str, int]
"""A pattern's name, whether it is a literal, a host or ``*``, and the bits of its rules.

In sorted order, a prefix is followed by the patterns inside it.
"""


class PatternRules:
    """Rules by pattern, except those of the wildcard.

    Args:
        mask: the bits of rules that matter.
        star_mask: those of rules for names that begin with ``*``.
        literal_mask: those of rules for single names, in both cases.
        after: leave out patterns up to this one, except prefixes that contain later patterns.
    """

    __slots__ = ("_after", "_masks", "_rules")

    def __init__(self, mask: int, star_mask: int, literal_mask: int, after: Pattern | None) -> None:
        self._masks: Final = {
            True: (mask & literal_mask, star_mask & literal_mask),
            False: (mask, star_mask),
        }
        self._after: tuple[str, bool] | None = None
        if after is not None and get_position(after)[0]:
            self._after = after[1], after[0] == LITERAL
        self._rules: Final[list[PatternRule]] = []

    def collect(self, rules: Rules, releases: ReleaseRules) -> None:
        """Add all rules of one principal whose hosts can match."""
        self._collect_at(WILDCARD, rules.any_host)
        for host, patterns in rules.hosts.items():
            if (patterns.literals or patterns.prefixes) and not never_matches(host, releases):
                self._collect_at(host, patterns)

    def _collect_at(self, host: str, patterns: Patterns) -> None:
        after = self._after
        for is_literal, sums in ((True, patterns.literals), (False, patterns.prefixes)):
            mask, star_mask = self._masks[is_literal]
            for name, bits in sums.items():
                bits &= star_mask if name[:1] == WILDCARD else mask
                if bits and (
                    after is None or (name, is_literal) > after or after[0].startswith(name)
                ):
                    self._rules.append((name, is_literal, host, bits))

    def iterate(self, *, is_partial: bool) -> Iterator[PatternRule]:
        """Yield all rules, in ascending order.

        Args:
            is_partial: whether the caller will take few of them, so that sorting all would take
                longer.
        """
        rules = self._rules
        if not is_partial:
            rules.sort()
            yield from rules
            return
        heapify(rules)
        while rules:
            yield heappop(rules)


def get_position(pattern: Pattern) -> tuple[int, str, bool]:
    """Return a key that sorts patterns as results are sorted.

    Its first item is 0 for a pattern that contains nearly all others.
    """
    pattern_type, name = pattern
    is_literal = pattern_type == LITERAL
    is_root = name == (WILDCARD if is_literal else EVERYTHING)
    return 0 if is_root else 1, name, is_literal
