"""The decision: may this principal do this to this resource?

**Invariant:** one call uses one snapshot. DENY beats ALLOW. If no ACL matches, the answer is deny,
unless allow.everyone.if.no.acl.found is set and no ACL's pattern matches the resource at all.

``authorize`` takes about half the time of ``explain``: it builds no ACL, and where nothing can
deny, it stops at the first ALLOW. Tests compare the two with each other and with a plain scan.

Source: KIP-504; Kafka 4.3 StandardAuthorizerData.authorize.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from authorizerd.acl.deciding import RULE_OF, find_deciding, find_unjudgeable
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.index.bits import ALLOWS, DENIES, HOST_DENIES, RANGE_ALLOWS
from authorizerd.acl.index.range_index import NO_RANGES
from authorizerd.acl.matching import APPLIES, host_denials
from authorizerd.acl.model import WILDCARD, WILDCARD_PRINCIPAL, Acl, PermissionType, Question
from authorizerd.acl.patterns import (
    AFTER_WILDCARD,
    LITERAL,
    NO_PATTERNS,
    PREFIXED,
    find_leaves,
    look_up,
)
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.snapshot import NO_RULES, AclSnapshot, Rules


class AuthorizerSettings(msgspec.Struct, frozen=True, gc=False):
    """The settings that affect decisions. Principals and ``super_users`` are compared exactly."""

    super_users: frozenset[str] = frozenset()
    allow_everyone_if_no_acl_found: bool = False


class DefaultRule(StrEnum):
    """A rule other than an ACL, as the audit log names it."""

    SUPER_USER = "SuperUser"
    DEFAULT_ALLOW = "DefaultAllow"
    DEFAULT_DENY = "DefaultDeny"


class MatchingAcl(msgspec.Struct, frozen=True, gc=False):
    """The ACL that decided."""

    acl: Acl

    def __str__(self) -> str:
        return f"MatchingAcl(acl={self.acl!s})"


class UnjudgeableAcl(msgspec.Struct, frozen=True, gc=False):
    """An ACL on which Kafka fails, because its principal has no colon.

    Kafka answers everyone but super users with UNKNOWN_SERVER_ERROR for each resource that its
    pattern matches, whatever the ACL says. Here the answer is deny.
    """

    acl: Acl

    def __str__(self) -> str:
        return f"UnjudgeableAcl(acl={self.acl})"


class NamedRule(msgspec.Struct, frozen=True, gc=False):
    """The rule of a decision made outside this module: the name of the authorizer that made it."""

    name: str

    def __str__(self) -> str:
        return self.name


Rule = DefaultRule | MatchingAcl | UnjudgeableAcl | NamedRule


def get_acl(rule: Rule) -> Acl | None:
    """Return the ACL that a rule names, or None if it names none."""
    return rule.acl if isinstance(rule, MatchingAcl | UnjudgeableAcl) else None


class Decision(msgspec.Struct, frozen=True, gc=False):
    """An answer and the rule that led to it, as the audit log names it."""

    allowed: bool
    rule: Rule


SUPER_USER: Final = Decision(True, DefaultRule.SUPER_USER)
DEFAULT_ALLOW: Final = Decision(True, DefaultRule.DEFAULT_ALLOW)
DEFAULT_DENY: Final = Decision(False, DefaultRule.DEFAULT_DENY)


def authorize(  # noqa: C901 - the hot path: ``look_up`` is inlined
    snapshot: AclSnapshot,
    settings: AuthorizerSettings,
    principal: str,
    host: str | None,
    operation: int,
    resource_type: int,
    resource_name: str,
) -> bool:
    """Return True if the principal is allowed. The arguments are the fields of ``Question``.

    Args:
        operation: a code in ``acl.index.bits.OPERATION_CODES``.
        resource_type: the code of a resource type.

    Raises:
        InvalidQuestionError: the principal is ``User:*``, which means everyone.
    """
    if principal in settings.super_users:
        return True
    index = snapshot.types[resource_type]
    everyone, principals = index.everyone, index.principals
    if principal in principals:  # with the next lookup, this takes less time than a map's `get`
        own = principals[principal]
    elif principal != WILDCARD_PRINCIPAL:
        own = everyone
    else:
        raise everyone_error()
    allows = ALLOWS[operation]
    bits, rules = 0, own
    # `find_leaves` and `misses_wildcard` are inlined here: this is the hot path.
    while True:
        patterns = rules.any_host
        bits |= patterns.literals.get(resource_name, 0)
        # Where nothing can deny, the first ALLOW decides.
        if bits & allows and not (own.denials or everyone.denials):
            return True
        if patterns.wildcard and not (resource_name < AFTER_WILDCARD and resource_name > WILDCARD):
            bits |= patterns.wildcard
        if patterns.probes:
            size = len(resource_name)
            for length, last, characters in patterns.probes:
                if length <= size and (characters is None or resource_name[last] in characters):
                    bits |= patterns.prefixes.get(resource_name[:length], 0)
        if rules.hosts:
            bits |= _of_host(rules, host, operation, resource_name, snapshot.rules)
        if rules is everyone or everyone is NO_RULES:
            break
        rules = everyone
    if bits:
        if bits & DENIES[operation]:
            return False
        if bits & allows:
            return True
    return settings.allow_everyone_if_no_acl_found and not look_up(index.resources, resource_name)


def _of_host(
    rules: Rules, host: str | None, operation: int, name: str, releases: ReleaseRules
) -> int:
    """Return the bits of the rules for other hosts than ``*``.

    Every such denial that can match a host applies to an unknown host.
    """
    if host is None:
        # Deny, as if the rule applied to every host.
        denied = look_up(rules.host_denials, name) & host_denials(operation, releases)
        return DENIES[operation] if denied else 0
    patterns = rules.hosts.get(host)
    bits = 0 if patterns is None else look_up(patterns, name)
    if rules.ranges is not NO_RANGES and releases.range_denies:
        in_range = rules.ranges.look_up(host, name)
        if in_range & HOST_DENIES[operation]:
            return DENIES[operation]
        if in_range & RANGE_ALLOWS[operation] and releases.range_allows:
            bits |= ALLOWS[operation]
    return bits


def _names_host(rules: Rules, host: str | None) -> bool:
    """Return True if a rule may apply to ``host`` whose own host is not ``*``."""
    return (
        host is None
        or host in rules.hosts
        or (rules.ranges is not NO_RANGES and host in rules.ranges)
    )


def everyone_error() -> InvalidQuestionError:
    """Return the error of a question about ``User:*``, which means everyone."""
    return InvalidQuestionError(
        f"principal {WILDCARD_PRINCIPAL} means everyone: ask about one principal"
    )


def is_allowed(snapshot: AclSnapshot, settings: AuthorizerSettings, question: Question) -> bool:
    """Return the answer to one question, as ``authorize``."""
    return authorize(
        snapshot,
        settings,
        question.principal,
        question.host,
        question.operation,
        question.resource_type,
        question.resource_name,
    )


def explain(  # noqa: C901 - a hot path: `find_leaves` is inlined
    snapshot: AclSnapshot, settings: AuthorizerSettings, question: Question
) -> Decision:
    """Return the decision with the rule that Kafka's audit log names for it.

    This is the first DENY in Kafka's scan order, or else the last matching ALLOW. In Kafka the host
    is always known. If it is unknown here, several rules that differ only in their host may deny,
    and one of them is named. Every process names the same one, as the choice depends only on the
    rules.

    Raises:
        InvalidQuestionError: as ``authorize``.
    """
    principal, host, resource_name = question.principal, question.host, question.resource_name
    resource_type = question.resource_type
    if principal in settings.super_users:
        return SUPER_USER
    if principal == WILDCARD_PRINCIPAL:
        raise everyone_error()
    index = snapshot.types[resource_type]
    everyone = index.everyone
    rules = index.principals.get(principal, NO_RULES)
    mask = APPLIES[question.operation]
    matches, is_mixed = 0, False
    named, can_deny = principal, rules.denials
    if rules is not NO_RULES:
        # In scan order (see ``scan_key``), so that of several ALLOWs the last one decides.
        patterns = rules.any_host
        bits = patterns.literals.get(resource_name, 0) & mask
        if bits:
            matches, found = 1, bits
            pattern_type, pattern_name = LITERAL, resource_name
        if patterns.probes:
            size = len(resource_name)
            for length, last, characters in patterns.probes:
                if length <= size and (characters is None or resource_name[last] in characters):
                    prefix = resource_name[:length]
                    bits = patterns.prefixes.get(prefix, 0) & mask
                    if bits:
                        matches, found = matches + 1, bits
                        pattern_type, pattern_name = PREFIXED, prefix
        if patterns.wildcard:
            bits = patterns.wildcard & mask
            if bits and not (resource_name < AFTER_WILDCARD and resource_name > WILDCARD):
                matches, found = matches + 1, bits
                pattern_type, pattern_name = LITERAL, WILDCARD
    if everyone.any_host is not NO_PATTERNS:
        leaves = find_leaves(everyone.any_host, resource_name, mask)
        if leaves and matches:
            is_mixed = True
        elif leaves:
            matches, named, can_deny = len(leaves), WILDCARD_PRINCIPAL, everyone.denials
            found, pattern_type, pattern_name = leaves[-1]
    if (
        is_mixed
        or (matches > 1 and (can_deny or resource_name <= WILDCARD))
        or (rules.hosts and _names_host(rules, host))
        or (everyone.hosts and _names_host(everyone, host))
        or snapshot.unindexed
        or index.unjudgeable
    ):
        unjudgeable = find_unjudgeable(index, resource_name)
        if unjudgeable is not None:
            return Decision(False, UnjudgeableAcl(unjudgeable))
        acl = find_deciding(snapshot, question)
        if acl is not None:
            return Decision(acl.permission_type == PermissionType.ALLOW, MatchingAcl(acl))
        matches = 0
    if not matches:
        if settings.allow_everyone_if_no_acl_found and not look_up(index.resources, resource_name):
            return DEFAULT_ALLOW
        return DEFAULT_DENY
    rule, permission, allowed = RULE_OF[found]
    acl = Acl(resource_type, pattern_name, pattern_type, named, WILDCARD, rule, permission)
    return Decision(allowed, MatchingAcl(acl))
