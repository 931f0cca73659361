"""Regions of resource names that are allowed from the same hosts.

Patterns are nested: the prefix ``a-`` matches everything that ``a-b`` matches. A name is judged by
the rules of all patterns that match it, so names with the same innermost pattern are allowed from
the same hosts. A *region* is a pattern where this differs from the surroundings. A pattern inside
it where less is allowed is its *exception*.

Patterns are sorted, so those inside a prefix directly follow it. A stack of open prefixes therefore
gives each pattern's surroundings, and no pattern is compared with all others.

The wildcard ``*`` contains all names except those that begin with ``*``, which it skips. The single
name ``*`` is an exception from that: both the wildcard and the prefix ``*`` match it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from authorizerd.acl.index.bits import ALLOWS, DENIES
from authorizerd.acl.model import WILDCARD
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.search.hosts import NOWHERE, HostAccess, covers
from authorizerd.acl.search.joined_rules import (
    NOTHING_APPLIES,
    JoinedRules,
    check_hosts,
    find_access,
    join_bits,
)
from authorizerd.acl.search.matching_patterns import MatchingPatterns, find_host_bits, look_up_at
from authorizerd.acl.search.pattern_rules import (
    EVERYTHING,
    LITERAL,
    PREFIXED,
    Pattern,
    PatternRule,
    get_position,
)
from authorizerd.acl.snapshot import Rules

_WILDCARD_PATTERN: Final = (LITERAL, WILDCARD)
_STAR_PREFIX: Final = (PREFIXED, WILDCARD)
_ROOT_PATTERN: Final = (PREFIXED, EVERYTHING)

# No literal has the name `*`, which is the wildcard, so these look up nothing else.
_ROOT_PLACES: Final = MatchingPatterns(WILDCARD, (EVERYTHING,), False, True)
_WILDCARD_PLACES: Final = MatchingPatterns(WILDCARD, (), True, True)

_get_pattern: Final = itemgetter(0, 1)


class Region:
    """A region whose inner patterns are still being visited.

    Attributes:
        surroundings: the region around it; None: there is none.
        is_listed: whether it is a result, so that its exceptions are needed.
        has_exceptions: whether there are any, needed or not.
    """

    __slots__ = ("access", "exceptions", "has_exceptions", "is_listed", "pattern", "surroundings")

    def __init__(self, pattern: Pattern, access: HostAccess, surroundings: Region | None) -> None:
        self.pattern: Final = pattern
        self.access: Final = access
        self.surroundings: Final = surroundings
        self.is_listed = False
        self.has_exceptions = False
        self.exceptions: list[Pattern] = []


class RegionList:
    """The regions to return: those of one page where something is allowed.

    Args:
        after, limit, literals: as for ``acl.search.resources.find_resources``.
    """

    def __init__(self, after: Pattern | None, limit: int | None, literals: bool) -> None:
        self._after: Final = None if after is None else get_position(after)
        self._limit: Final = limit
        self._literals: Final = literals
        self.regions: Final[list[Region]] = []
        self.next_after: Pattern | None = None

    def add(self, region: Region) -> None:
        """List ``region``, if something is allowed there and it belongs to the page."""
        is_single = region.pattern[0] == LITERAL and region.pattern[1] != WILDCARD
        if region.access.is_nowhere or (is_single and not self._literals):
            return
        if self._after is not None and get_position(region.pattern) <= self._after:
            return
        if len(self.regions) == self._limit:
            self.next_after = self.regions[-1].pattern
            return
        region.is_listed = True
        self.regions.append(region)

    def add_exception(self, region: Region, exception: Pattern) -> None:
        """Note an exception of ``region``."""
        region.has_exceptions = True
        if region.is_listed:
            region.exceptions.append(exception)


class _Open(NamedTuple):
    """A pattern that may contain later ones, the rules that apply there, and its region."""

    name: str
    joined: JoinedRules
    region: Region


class RegionWalk:
    """Goes through sorted patterns, and finds their regions.

    ``mask`` and ``star_mask`` are the bits of rules that can still change something, inside the
    wildcard and for names that begin with ``*``. ``has_denials`` is whether any rule can deny.
    ``enter_roots`` sets them.
    """

    def __init__(self, results: RegionList, operation: int, releases: ReleaseRules) -> None:
        self._results: Final = results
        self._releases: Final = releases
        self._operation: Final = operation
        self.mask = self.star_mask = ALLOWS[operation] | DENIES[operation]
        outside = Region(_ROOT_PATTERN, NOWHERE, None)
        self._root = self._wild = _Open(EVERYTHING, NOTHING_APPLIES, outside)
        self._stack: Final[list[_Open]] = []
        self.has_denials = True
        self._star: tuple[Region, int, dict[str, int]] | None = None
        """The prefix ``*``, once it is met: its region and the bits of its rules."""

    def enter_roots(self, sources: Sequence[Rules]) -> None:
        """Enter the patterns that contain nearly all others."""
        self.has_denials = any(rules.denials for rules in sources)
        self._root = self._enter_root(_ROOT_PATTERN, _ROOT_PLACES, sources)
        self._wild = self._enter_root(_WILDCARD_PATTERN, _WILDCARD_PLACES, sources)
        self.star_mask = self._find_useful(self._root.joined)
        self.mask = self._find_useful(self._wild.joined)

    def _enter_root(
        self, pattern: Pattern, matching: MatchingPatterns, sources: Iterable[Rules]
    ) -> _Open:
        joined = self._root.joined
        for rules in sources:
            hosts = find_host_bits(rules.hosts, matching, self.mask, self._releases)
            any_host = look_up_at(rules.any_host, matching)
            joined = join_bits(joined, self._operation, any_host, hosts)
        access = find_access(joined, self._releases)
        return _Open(pattern[1], joined, self._make_region(pattern, access, self._root.region))

    def _find_useful(self, joined: JoinedRules) -> int:
        """Return the bits of rules that can still change ``joined``."""
        if joined.denies:
            return 0
        return DENIES[self._operation] if joined.allows else self.mask

    def visit(self, rules: Iterator[PatternRule]) -> None:
        """Find the regions of all patterns."""
        for (name, is_literal), rules_there in groupby(rules, _get_pattern):
            any_host, hosts = self._gather(rules_there)
            outer = self._leave_until(name)
            if self._results.next_after is not None:
                if self._is_page_complete():
                    break
                if is_literal and not self._can_deny(any_host, hosts):
                    # It belongs to a later page, and cannot be an exception of a pattern on this
                    # page.
                    continue
            joined = join_bits(outer.joined, self._operation, any_host, hosts)
            if joined is outer.joined:
                continue
            if joined.access is None:
                find_access(joined, self._releases)
            pattern = LITERAL if is_literal else PREFIXED, name
            region = self._enter(pattern, joined, outer)
            if pattern == _STAR_PREFIX:
                self._star = region, any_host, hosts
        while self._stack:
            self._leave_last()
        self._settle_star()
        if self._wild.region is not self._root.region:
            self._close(self._wild.region)

    def _gather(self, rules: Iterable[PatternRule]) -> tuple[int, dict[str, int]]:
        """Return the bits of one pattern's rules, for every host and by single host."""
        any_host = 0
        hosts: dict[str, int] = {}
        for _, _, host, bits in rules:
            if host == WILDCARD:
                any_host |= bits
            else:
                hosts[host] = hosts.get(host, 0) | bits
        check_hosts(len(hosts))
        return any_host, hosts

    def _can_deny(self, any_host: int, hosts: dict[str, int]) -> bool:
        denies = DENIES[self._operation]
        return any_host & denies != 0 or any(bits & denies for bits in hosts.values())

    def _enter(self, pattern: Pattern, joined: JoinedRules, outer: _Open) -> Region:
        """Enter a pattern, at which the rules ``joined`` apply. Return its region."""
        access = joined.access
        assert access is not None, "the caller has found an open prefix"
        region = self._make_region(pattern, access, outer.region)
        if pattern[0] == PREFIXED:
            self._stack.append(_Open(pattern[1], joined, region))
        elif region is not outer.region:
            self._close(region)
        return region

    def _make_region(self, pattern: Pattern, access: HostAccess, surroundings: Region) -> Region:
        """Return a region, or its surroundings if these allow the same."""
        if access == surroundings.access:
            return surroundings
        region = Region(pattern, access, surroundings)
        self._results.add(region)
        return region

    def _leave_until(self, name: str) -> _Open:
        """Leave open prefixes, up to one that contains ``name``. Return the innermost one left."""
        while self._stack:
            if name.startswith(self._stack[-1].name):
                return self._stack[-1]
            self._leave_last()
        return self._root if name[:1] == WILDCARD else self._wild

    def _leave_last(self) -> None:
        name, _, region = self._stack.pop()
        if region.pattern == (PREFIXED, name):  # otherwise it is the region of the surroundings
            self._close(region)

    def _close(self, region: Region) -> None:
        """Make ``region`` an exception of its surroundings if less is allowed somewhere in it."""
        outer = region.surroundings
        assert outer is not None, "every region but the outermost one has surroundings"
        if outer.access.is_nowhere:
            return
        if region.has_exceptions or not covers(region.access, outer.access):
            self._results.add_exception(outer, region.pattern)

    def _settle_star(self) -> None:
        """Exclude the name ``*`` if it is allowed from fewer hosts than its two regions say.

        All rules of both apply to it. No pattern matches only this name. So if one region denies
        single hosts, neither can describe the rest: the result then lists too little, never too
        much.
        """
        if self._star is None or self._wild.joined is self._root.joined:
            return
        region, any_host, hosts = self._star
        joined = join_bits(self._wild.joined, self._operation, any_host, hosts)
        access = find_access(joined, self._releases)
        if not covers(access, region.access):
            self._results.add_exception(region, _WILDCARD_PATTERN)
        if not covers(access, self._wild.region.access):
            self._results.add_exception(self._wild.region, _STAR_PREFIX)

    def _is_page_complete(self) -> bool:
        """Return True if no region of the page can get another exception."""
        opened = (self._root, self._wild, *self._stack)
        return not (self.has_denials and any(each.region.is_listed for each in opened))
