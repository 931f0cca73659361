"""Judge an assertion by a snapshot and the settings.

**Invariant:** an assertion passes only if it holds for all its principals, names and hosts,
including those that no ACL names, by each Kafka release that may judge. Each single answer comes
from ``acl.decision.authorize``: names are divided into classes (``name_classes``), and one host or
principal represents all that no ACL tells apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.hosts import never_matches
from authorizerd.acl.index.bits import ALLOWS, DENIES
from authorizerd.acl.model import WILDCARD, PatternType, Question
from authorizerd.acl.notes import NOTE_PRINCIPAL
from authorizerd.acl.patterns import Patterns
from authorizerd.acl.releases import RULES, Release
from authorizerd.acl.search.areas import Area, list_places
from authorizerd.acl.search.areas import divide as divide_hosts
from authorizerd.acl.search.hosts import HostAccess, join_areas
from authorizerd.acl.search.releases import list_releases
from authorizerd.acl.snapshot import AclSnapshot, Rules, rules_of, with_rules
from authorizerd.management.policy.name_classes import NameClass, Pattern, divide
from authorizerd.management.policy.words import Assertion, AtMost, Each, Everyone, Names

FINDINGS_MAX: Final = 20
"""The maximum number of findings described per assertion; further ones are only counted."""

_LITERAL: Final = int(PatternType.LITERAL)
_PREFIXED: Final = int(PatternType.PREFIXED)
_AREAS_CACHED: Final = 64
_EVERY_BIT: Final = -1
_get_name: Final = itemgetter(1)

PatternsOf: TypeAlias = Callable[[int], list[Pattern]]
"""The patterns, besides a principal's own, that affect decisions about an operation."""


class _Found(NamedTuple):
    """A question that contradicts an assertion."""

    principal: str
    host: str | None
    operation: int
    part: NameClass


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Access, or its absence, that contradicts an assertion.

    Attributes:
        principal: None: every principal that no ACL names. ``question`` then has an invented one.
        names: the names for which it holds. A prefix stands for its names that match no longer
            pattern.
        access: the hosts from which the operation is allowed.
        question: one question with this answer.
        release: the Kafka release whose rules give this result, if possible releases differ.
    """

    principal: str | None
    is_allowed: bool
    names: Names
    access: HostAccess
    question: Question
    release: Release | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one assertion.

    Attributes:
        passed: whether the assertion holds.
        findings: the contradictions; for ``AtMost``, all principals that may. At most
            ``FINDINGS_MAX``.
        count: the number of all findings.
    """

    passed: bool
    findings: tuple[Finding, ...] = ()
    count: int = 0


def judge(snapshot: AclSnapshot, settings: AuthorizerSettings, assertion: Assertion) -> Verdict:
    """Return whether the assertion holds, and if not, what contradicts it.

    It must hold by each Kafka release that may judge. The findings come from the first release by
    which it fails.
    """
    snapshots = list_releases(snapshot)
    verdicts = [_judge(each, settings, assertion) for each in snapshots]
    for each, verdict in zip(snapshots, verdicts, strict=True):
        if not verdict.passed and any(other != verdict for other in verdicts):
            (release,) = each.rules.releases
            findings = tuple(replace(found, release=release) for found in verdict.findings)
            return replace(verdict, findings=findings)
    return verdicts[0]


def judged_by(snapshot: AclSnapshot, finding: Finding) -> AclSnapshot:
    return snapshot if finding.release is None else with_rules(snapshot, RULES[finding.release])


def _judge(snapshot: AclSnapshot, settings: AuthorizerSettings, assertion: Assertion) -> Verdict:
    judged = _Judge(snapshot, settings, assertion)
    match assertion.who:
        case AtMost(count, besides, besides_super_users):
            excluded = frozenset(besides)
            if besides_super_users:
                excluded |= settings.super_users
            found = list(judged.find_who_may(excluded))
            is_bounded = all(each.principal != judged.unnamed for each in found)
            passed = is_bounded and len(found) <= count
            found = [] if passed else found
        case Everyone():
            found = list(judged.find_who_may_not())
        case Each(principals):
            found = list(judged.find_contradictions(principals))
    found.sort(key=lambda each: each.principal)
    findings = tuple(map(judged.describe, found[:FINDINGS_MAX]))
    return Verdict(passed=not found, findings=findings, count=len(found))


class _Judge:
    """The judge of one assertion. Data that all its questions share is looked up once."""

    def __init__(
        self, snapshot: AclSnapshot, settings: AuthorizerSettings, assertion: Assertion
    ) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._assertion = assertion
        self._index = snapshot.types[assertion.resource_type]
        self.unnamed = _choose_principal({*self._index.principals, *settings.super_users})
        self._shared: PatternsOf = cache(self._list_shared)
        self._shared_denials: PatternsOf = cache(self._list_shared_denials)
        self._areas_of = lru_cache(_AREAS_CACHED)(self._divide_hosts)

    def find_contradictions(self, principals: Iterable[str]) -> Iterator[_Found]:
        find = self._find_denied if self._assertion.is_allowed else self._find_allowed
        for principal in principals:
            found = find(principal, self._shared)
            if found is not None:
                yield found

    def find_who_may(self, excluded: frozenset[str]) -> Iterator[_Found]:
        """Yield a finding for each principal that may do something, except for ``excluded``.

        If a principal that no ACL names may do it, yield only this finding: then everyone may.
        """
        unnamed = self._find_allowed(self.unnamed, self._shared)
        if unnamed is not None:
            yield unnamed
            return
        # From here on, only a principal's own ALLOW can allow: if a rule of User:* or the default
        # allowed anything, it would allow the same to a principal that no ACL names.
        super_users = self._settings.super_users
        for principal in super_users - excluded:
            found = self._find_allowed(principal, _list_nothing)
            if found is not None:
                yield found
        for principal, rules in self._index.principals.items():
            if principal not in super_users and principal not in excluded:
                found = self._find_own_access(principal, rules)
                if found is not None:
                    yield found

    def find_who_may_not(self) -> Iterator[_Found]:
        """Yield a finding for each principal that may not do everything.

        If a principal that no ACL names may not do it, yield only this finding.
        """
        unnamed = self._find_denied(self.unnamed, self._shared)
        if unnamed is not None:
            yield unnamed
            return
        # From here on, only a principal's own DENY can deny.
        for principal, rules in self._index.principals.items():
            if rules.denials and principal != NOTE_PRINCIPAL:  # which no client has
                found = self._find_denied(principal, _list_nothing)
                if found is not None:
                    yield found

    def _find_allowed(self, principal: str, shared: PatternsOf) -> _Found | None:
        for operation in self._assertion.operations:
            for names in self._assertion.names:
                patterns = self._list_patterns(principal, operation, shared)
                found = self._find_allowed_part(principal, operation, divide(names, patterns))
                if found is not None:
                    return found
        return None

    def _find_own_access(self, principal: str, rules: Rules) -> _Found | None:
        """Return where the principal's own ALLOW rules take effect, or None.

        ``_find_allowed`` would divide all names of the assertion. Here only names that an ALLOW
        matches count, and most principals have none.
        """
        for operation in self._assertion.operations:
            parts = {
                part
                for pattern in _iterate_rules(rules, ALLOWS[operation])
                for names in self._assertion.names
                for part in _intersect(names, pattern)
            }
            for names in sorted(parts, key=lambda each: (not each.is_prefix, each.text)):
                patterns = chain(
                    _iterate_rules(rules, _mask(operation)),
                    _find_within(self._shared_denials(operation), names.text),
                )
                found = self._find_allowed_part(principal, operation, divide(names, patterns))
                if found is not None:
                    return found
        return None

    def _find_allowed_part(
        self, principal: str, operation: int, parts: Iterable[NameClass]
    ) -> _Found | None:
        hosts: Iterable[str] = self._assertion.hosts or self._list_examples(principal)
        for part in parts:
            for host in hosts:
                if self._ask(principal, host, operation, part):
                    return _Found(principal, host, operation, part)
        return None

    def _find_denied(self, principal: str, shared: PatternsOf) -> _Found | None:
        # An unknown host is allowed only what every host is allowed.
        hosts = self._assertion.hosts or (None,)
        for operation in self._assertion.operations:
            for names in self._assertion.names:
                for part in divide(names, self._list_patterns(principal, operation, shared)):
                    if part.begins_with_star and not names.text.startswith(WILDCARD):
                        continue
                    for host in hosts:
                        if not self._ask(principal, host, operation, part):
                            return _Found(principal, host, operation, part)
        return None

    def _ask(self, principal: str, host: str | None, operation: int, part: NameClass) -> bool:
        kind = self._assertion.resource_type
        return authorize(
            self._snapshot, self._settings, principal, host, operation, kind, part.example
        )

    def _list_patterns(
        self, principal: str, operation: int, shared: PatternsOf
    ) -> Iterator[Pattern]:
        yield from _iterate_rules(rules_of(self._index, principal), _mask(operation))
        yield from shared(operation)

    def _list_shared(self, operation: int) -> list[Pattern]:
        patterns = list(_iterate_rules(self._index.everyone, _mask(operation)))
        if self._settings.allow_everyone_if_no_acl_found:
            patterns += _iterate_leaves(self._index.resources, _EVERY_BIT)
        return patterns

    def _list_shared_denials(self, operation: int) -> list[Pattern]:
        patterns = set(_iterate_rules(self._index.everyone, DENIES[operation]))
        return sorted(patterns, key=_get_name)

    def _list_examples(self, principal: str) -> list[str]:
        areas = self._areas_of(principal)
        return [area.example for area in areas if area.example is not None]

    def _divide_hosts(self, principal: str) -> list[Area]:
        own, everyone = rules_of(self._index, principal), self._index.everyone
        rules = self._snapshot.rules
        named = chain(own.hosts, everyone.hosts)
        matching = (host for host in named if not never_matches(host, rules))
        return divide_hosts(list_places(matching))

    def describe(self, found: _Found) -> Finding:
        principal, host, operation, part = found
        is_allowed = self._ask(principal, host, operation, part)
        areas = self._areas_of(principal)
        answers = [
            area.example is not None and self._ask(principal, area.example, operation, part)
            for area in areas
        ]
        access = join_areas(areas, answers)
        if access.is_everywhere and not self._assertion.hosts:
            host = None
        kind = self._assertion.resource_type
        return Finding(
            principal=None if principal == self.unnamed else principal,
            is_allowed=is_allowed,
            names=part.names,
            access=access,
            question=Question(principal, host, operation, kind, part.example),
        )


def _choose_principal(named: set[str]) -> str:
    name = "User:anyone"
    while name in named:
        name += "-else"
    return name


def _list_nothing(_operation: int) -> list[Pattern]:
    return []


def _mask(operation: int) -> int:
    return ALLOWS[operation] | DENIES[operation]


def _iterate_rules(rules: Rules, mask: int) -> Iterator[Pattern]:
    """Yield the patterns of rules with bits under ``mask``, for any host."""
    for patterns in chain((rules.any_host,), rules.hosts.values()):
        yield from _iterate_leaves(patterns, mask)


def _iterate_leaves(patterns: Patterns, mask: int) -> Iterator[Pattern]:
    for name, bits in patterns.literals.items():
        if bits & mask:
            yield _LITERAL, name
    for name, bits in patterns.prefixes.items():
        if bits & mask:
            yield _PREFIXED, name
    if patterns.wildcard & mask:
        yield _LITERAL, WILDCARD


def _intersect(names: Names, pattern: Pattern) -> tuple[Names, ...]:
    """Return the part of ``names`` that the pattern may match, or nothing."""
    pattern_type, text = pattern
    if text == WILDCARD and pattern_type == _LITERAL:
        return (names,)
    if pattern_type == _PREFIXED and names.text.startswith(text):
        return (names,)
    if text == names.text or (names.is_prefix and text.startswith(names.text)):
        return (Names(text, is_prefix=pattern_type == _PREFIXED),)
    return ()


def _find_within(patterns: list[Pattern], prefix: str) -> list[Pattern]:
    begin = bisect_left(patterns, prefix, key=_get_name)
    end = begin
    while end < len(patterns) and patterns[end][1].startswith(prefix):
        end += 1
    return patterns[begin:end]
