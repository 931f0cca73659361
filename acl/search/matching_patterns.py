"""The patterns of ACLs that match one name, and the rules at these patterns.

Every principal's rules are looked up at the same patterns. So these are found once, among all
principals' patterns. A principal's look-ups do not depend on its other rules.
"""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.acl.hosts import never_matches
from authorizerd.acl.index.tables import Table
from authorizerd.acl.model import PatternType
from authorizerd.acl.patterns import EVERY_BIT, PREFIXED, Patterns, find_leaves, misses_wildcard
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.search.joined_rules import check_hosts

_LITERAL: Final = int(PatternType.LITERAL)


class MatchingPatterns(msgspec.Struct, frozen=True, gc=False):
    """The patterns that match ``name``, except the literal ``name`` itself.

    Attributes:
        prefixes: the prefixes of ACLs that match.
        is_wild: whether the wildcard matches.
        has_acl: whether some ACL's pattern matches, whatever the ACL says.
    """

    name: str
    prefixes: tuple[str, ...]
    is_wild: bool
    has_acl: bool

    @property
    def lookups(self) -> int:
        """The number of look-ups per set of patterns."""
        return 1 + len(self.prefixes)


def find_matching_patterns(patterns: Patterns, name: str) -> MatchingPatterns:
    """Return the patterns that match ``name``.

    Args:
        patterns: the patterns of all ACLs of the resource type.
    """
    leaves = find_leaves(patterns, name, EVERY_BIT)
    prefixes = tuple(prefix for _, kind, prefix in leaves if kind == PREFIXED)
    is_wild = patterns.wildcard != 0 and not misses_wildcard(name)
    return MatchingPatterns(name, prefixes, is_wild, bool(leaves))


def look_up_at(patterns: Patterns, matching: MatchingPatterns) -> int:
    """Return the bits of all matching patterns, joined by OR."""
    bits = patterns.literals.get(matching.name, 0)
    if matching.is_wild:
        bits |= patterns.wildcard
    if patterns.prefixes:
        for prefix in matching.prefixes:
            bits |= patterns.prefixes.get(prefix, 0)
    return bits


def find_host_bits(
    hosts: Table[str, Patterns], matching: MatchingPatterns, mask: int, releases: ReleaseRules
) -> dict[str, int]:
    """Return the bits under ``mask`` of each ACL host that can match and has such bits.

    Raises:
        SearchLimitError: there are too many hosts.
    """
    found: dict[str, int] = {}
    for host, patterns in hosts.items():
        bits = look_up_at(patterns, matching) & mask
        if bits and not never_matches(host, releases):
            found[host] = bits
            check_hosts(len(found))
    return found


def has_host_rule(
    hosts: Table[str, Patterns], matching: MatchingPatterns, mask: int, releases: ReleaseRules
) -> bool:
    """Return True if a rule for a host that can match has bits under ``mask``."""
    return any(
        look_up_at(patterns, matching) & mask and not never_matches(host, releases)
        for host, patterns in hosts.items()
    )
