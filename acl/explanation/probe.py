"""Questions similar to the one asked: would they be allowed, and by which ACL?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from authorizerd.acl.deciding import HOSTS_COMPARED, RULE_OF
from authorizerd.acl.decision import AuthorizerSettings, explain, get_acl, is_allowed
from authorizerd.acl.hosts import is_certain
from authorizerd.acl.index.bits import ALLOWS
from authorizerd.acl.model import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    PermissionType,
    Question,
)
from authorizerd.acl.patterns import NO_PATTERNS, Patterns
from authorizerd.acl.snapshot import AclSnapshot, TypeIndex, rules_of


class Probe:
    """Decide a denied question and similar ones.

    Args:
        denial_count: the number of ACLs that deny the question.
    """

    def __init__(
        self,
        snapshot: AclSnapshot,
        settings: AuthorizerSettings,
        question: Question,
        denial_count: int,
    ) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.question = question
        self.has_denial = denial_count > 0
        self.allows = ALLOWS[question.operation]
        """The bits of ALLOW rules that allow the operation."""

    @property
    def index(self) -> TypeIndex:
        """The rules for the question's resource type."""
        return self.snapshot.types[self.question.resource_type]

    def tables(self) -> Iterator[tuple[str, str, Patterns]]:
        """Yield the principal, the host and the patterns of all rules that may allow.

        Of ranges, there are HOSTS_COMPARED at most: this only finds what was probably meant.
        """
        for principal in (self.question.principal, WILDCARD_PRINCIPAL):
            rules = rules_of(self.index, principal)
            if rules.any_host is not NO_PATTERNS:
                yield principal, WILDCARD, rules.any_host
            host = self.question.host
            if host is None:
                continue
            if host in rules.hosts:
                yield principal, host, rules.hosts[host]
            if self.snapshot.rules.range_allows:
                certain = filter(is_certain, rules.ranges.find_ranges(host))
                for place in islice(certain, HOSTS_COMPARED):
                    yield principal, place, rules.hosts[place]

    def is_allowed(self, asked: Question) -> bool:
        """Return the answer to a similar question. Its principal is not ``User:*``."""
        return is_allowed(self.snapshot, self.settings, asked)

    def rule_acl(self, asked: Question) -> Acl | None:
        """Return the ACL that decides a similar question, or None if it is not an ACL."""
        return get_acl(explain(self.snapshot, self.settings, asked).rule)

    def with_name(self, name: str) -> Question:
        """Return the question about another resource."""
        return replace(self.question, resource_name=name)

    def make_allow(self, principal: str, host: str, pattern_type: int, name: str, bits: int) -> Acl:
        """Return an ALLOW with one pattern, whose leaf has ``bits`` that allow the operation."""
        operation, _, _ = RULE_OF[bits & self.allows]
        kind = self.question.resource_type
        return Acl(kind, name, pattern_type, principal, host, operation, int(PermissionType.ALLOW))
