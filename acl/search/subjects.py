"""Who can: the principals that may do an operation on one resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.index.bits import ALLOWS, DENIES
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.search.hosts import EVERYWHERE, HostAccess, covers
from authorizerd.acl.search.joined_rules import (
    HOSTS_MAX,
    NOTHING_APPLIES,
    JoinedRules,
    find_access,
    join_bits,
)
from authorizerd.acl.search.matching_patterns import (
    MatchingPatterns,
    find_host_bits,
    find_matching_patterns,
    has_host_rule,
    look_up_at,
)
from authorizerd.acl.snapshot import NO_RULES, AclSnapshot, Rules, TypeIndex

PAGE_CHARACTERS_MAX: Final = 256 * 1024
"""A page ends once its names have this many characters, so that it is written in a short step."""

LAST_NAME_MAX: Final = 3_000
"""A page never ends early at a name longer than this: no request could continue from it."""


class SubjectAccess(msgspec.Struct, frozen=True, gc=False):
    """A principal, and the hosts from which it is allowed."""

    principal: str
    hosts: HostAccess


class Subjects(msgspec.Struct, frozen=True, gc=False):
    """The principals that may do something.

    Attributes:
        named: sorted principals that are allowed from some host, and that have a rule of their own
            or are super users.
        everyone: the hosts from which each other principal is allowed, even one that no ACL names.
        excluded: principals that are denied on a host from which ``everyone`` is allowed. Sorted.
            A principal that is still allowed from other hosts is also in ``named``.
        next_after: with a limit: the ``after`` of the next page, or None if this is the last one.
    """

    named: tuple[SubjectAccess, ...]
    everyone: HostAccess
    excluded: tuple[SubjectAccess, ...]
    next_after: str | None = None

    def split(
        self, is_listed: Callable[[HostAccess], bool]
    ) -> tuple[list[SubjectAccess], list[SubjectAccess]]:
        """Return the listed principals, and, if everyone is listed, the principals that are not.

        Args:
            is_listed: returns True if a principal that is allowed from these hosts is a result.
        """
        listed = [access for access in self.named if is_listed(access.hosts)]
        if not is_listed(self.everyone):
            return listed, []
        return listed, [access for access in self.excluded if not is_listed(access.hosts)]


def find_subjects(
    snapshot: AclSnapshot,
    settings: AuthorizerSettings,
    operation: int,
    resource_type: int,
    resource_name: str,
    *,
    after: str | None = None,
    limit: int | None = None,
) -> Subjects:
    """Return who may do ``operation`` on the resource.

    Each page examines every principal, but decides only for the principals of the page.

    Args:
        operation, resource_type: codes, as for ``acl.decision.authorize``.
        after: only principals that sort after this one.
        limit: at most this many principals, at least 1. A page with many hosts, or with long names,
            ends earlier.

    Raises:
        SearchLimitError: the rules that apply to one principal name too many hosts.
    """
    index = snapshot.types[resource_type]
    matching = find_matching_patterns(index.resources, resource_name)
    search = _Search(index, settings, matching, operation, snapshot.rules)
    everyone = search.join(NOTHING_APPLIES, index.everyone)
    if settings.allow_everyone_if_no_acl_found and not matching.has_acl:
        everyone = everyone.join(allows=True, denies=False)
    everywhere_else = find_access(everyone, snapshot.rules)
    principals = search.list_principals(after, None if limit is None else limit + 1)
    named: list[SubjectAccess] = []
    excluded: list[SubjectAccess] = []
    hosts_listed = characters = 0
    for number, principal in enumerate(principals):
        is_long = characters > PAGE_CHARACTERS_MAX and len(principals[number - 1]) <= LAST_NAME_MAX
        is_full = number == limit or hosts_listed > HOSTS_MAX or is_long
        if limit is not None and number and is_full:
            return Subjects(tuple(named), everywhere_else, tuple(excluded), principals[number - 1])
        access = search.find_access_of(principal, everyone)
        subject = SubjectAccess(principal, access)
        if not access.is_nowhere:
            named.append(subject)
        if not covers(access, everywhere_else):
            excluded.append(subject)
        hosts_listed += 1 + access.count
        characters += len(principal) + access.characters
    return Subjects(tuple(named), everywhere_else, tuple(excluded))


class _Search:
    """One search: the index of the resource type, and the patterns that match the name."""

    __slots__ = ("_index", "_mask", "_matching", "_operation", "_releases", "_super_users")

    def __init__(
        self,
        index: TypeIndex,
        settings: AuthorizerSettings,
        matching: MatchingPatterns,
        operation: int,
        releases: ReleaseRules,
    ) -> None:
        self._index: Final = index
        self._super_users: Final = settings.super_users
        self._matching: Final = matching
        self._releases: Final = releases
        self._operation: Final = operation
        self._mask: Final = ALLOWS[operation] | DENIES[operation]

    def join(self, others: JoinedRules, rules: Rules) -> JoinedRules:
        """Return ``others`` and the part of ``rules`` that applies to the name."""
        any_host = look_up_at(rules.any_host, self._matching)
        hosts = find_host_bits(rules.hosts, self._matching, self._mask, self._releases)
        return join_bits(others, self._operation, any_host, hosts)

    def list_principals(self, after: str | None, count: int | None) -> list[str]:
        """Return the first principals with a rule that applies, and super users."""
        principals = self._index.principals if self._matching.has_acl else {}
        names = {*self._super_users, *principals}
        chosen: list[str] = []
        for name in sorted(name for name in names if after is None or name > after):
            if len(chosen) == count:
                break
            if name in self._super_users or self._applies(principals[name]):
                chosen.append(name)
        return chosen

    def _applies(self, rules: Rules) -> bool:
        return look_up_at(rules.any_host, self._matching) & self._mask != 0 or has_host_rule(
            rules.hosts, self._matching, self._mask, self._releases
        )

    def find_access_of(self, principal: str, everyone: JoinedRules) -> HostAccess:
        if principal in self._super_users:
            return EVERYWHERE
        rules = self._index.principals.get(principal, NO_RULES)
        joined = self.join(everyone, rules)
        return find_access(joined, self._releases)
