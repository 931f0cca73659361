"""The decision: may this principal do this to this resource?

Law: one call uses one snapshot. Deny wins; where nothing matches, the answer is deny unless
allow.everyone.if.no.acl.found is set and no ACL's pattern matches the resource at all.

Source: KIP-504; Kafka 4.3 StandardAuthorizerData.authorize.
"""

from __future__ import annotations

from enum import Enum
from itertools import islice
from typing import Final

import msgspec

from authorizerd.acl.bits import (
    ALLOWS,
    DENIES,
    HOST_DENIES,
    OPERATION_CODES,
    allow_bit,
    allowing_operations,
    deny_bit,
    denying_operations,
    is_odd,
)
from authorizerd.acl.denying_hosts import NO_HOSTS
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.model import (
    RESOURCE_TYPES,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Question,
)
from authorizerd.acl.patterns import (
    AFTER_WILDCARD,
    NO_PATTERNS,
    Patterns,
    is_wildcard,
    look_up,
    matches,
    misses_wildcard,
)
from authorizerd.acl.snapshot import NO_RULES, AclSnapshot, Rules, rules_of


class AuthorizerSettings(msgspec.Struct, frozen=True, gc=False):
    """``super.users``, as exact texts, and ``allow.everyone.if.no.acl.found``."""

    super_users: frozenset[str] = frozenset()
    allow_everyone_if_no_acl_found: bool = False


class DefaultRule(Enum):
    """A rule that is no ACL; the value is its name in the audit log."""

    SUPER_USER = "SuperUser"
    DEFAULT_ALLOW = "DefaultAllow"
    DEFAULT_DENY = "DefaultDeny"

    def __str__(self) -> str:
        return self.value


class MatchingAcl(msgspec.Struct, frozen=True, gc=False):
    acl: Acl

    def __str__(self) -> str:
        return f"MatchingAcl(acl={self.acl})"


class NamedRule(msgspec.Struct, frozen=True, gc=False):
    """Where no rule is known: the name of what decides, which is not this module."""

    name: str

    def __str__(self) -> str:
        return self.name


Rule = DefaultRule | MatchingAcl | NamedRule


class Decision(msgspec.Struct, frozen=True, gc=False):
    """An answer and the rule behind it, as the audit log names it."""

    allowed: bool
    rule: Rule


SUPER_USER: Final = Decision(True, DefaultRule.SUPER_USER)
DEFAULT_ALLOW: Final = Decision(True, DefaultRule.DEFAULT_ALLOW)
DEFAULT_DENY: Final = Decision(False, DefaultRule.DEFAULT_DENY)


_SPEAKING: Final = tuple(
    (
        *((allow_bit(rule), rule, PermissionType.ALLOW) for rule in allowing_operations(operation)),
        *((deny_bit(rule), rule, PermissionType.DENY) for rule in denying_operations(operation)),
    )
    for operation in OPERATION_CODES
)
"""By the question's operation code: the bits of a leaf that speak of it, and their meaning."""


def authorize(  # noqa: C901 - the hot path: ``look_up`` is inlined
    snapshot: AclSnapshot,
    settings: AuthorizerSettings,
    principal: str,
    host: str | None,
    operation: int,
    resource_type: int,
    resource_name: str,
) -> bool:
    """Return whether the question's principal is allowed; the fields are those of ``Question``.

    ``operation`` is a code from 0 to 15 and ``resource_type`` one from 0 to 7.

    Raises:
        InvalidQuestionError: the principal is ``User:*``, which stands for everyone, not for one.
    """
    if principal in settings.super_users:
        return True
    if principal == WILDCARD_PRINCIPAL:
        raise _wildcard_principal()
    index = snapshot.types[resource_type]
    bits = 0
    rules = index.principals.get(principal)
    if rules is not None:
        patterns = rules.any_host
        bits = patterns.literals.get(resource_name, 0)
        if not (resource_name < AFTER_WILDCARD and resource_name > WILDCARD):
            bits |= patterns.wildcard
        if patterns.lengths:
            size = len(resource_name)
            get = patterns.prefixes.get
            for length in patterns.lengths:
                if length <= size:
                    bits |= get(resource_name[:length], 0)
        if rules.hosts:
            bits |= _of_host(rules, host, operation, resource_name)
    everyone = index.everyone
    if everyone is not NO_RULES:
        bits |= look_up(everyone.any_host, resource_name)
        if everyone.hosts:
            bits |= _of_host(everyone, host, operation, resource_name)
    if bits & DENIES[operation]:
        return False
    if bits & ALLOWS[operation]:
        return True
    return settings.allow_everyone_if_no_acl_found and not look_up(index.resources, resource_name)


def _of_host(rules: Rules, host: str | None, operation: int, name: str) -> int:
    """Return the bits of the rules for single hosts; an unknown host meets every denial."""
    if host is not None:
        patterns = rules.hosts.get(host)
        return 0 if patterns is None else look_up(patterns, name)
    if look_up(rules.host_denials, name) & HOST_DENIES[operation]:
        return DENIES[operation]
    return 0


def _wildcard_principal() -> InvalidQuestionError:
    return InvalidQuestionError(
        f"principal {WILDCARD_PRINCIPAL} stands for everyone and cannot itself be asked about"
    )


def explain(snapshot: AclSnapshot, settings: AuthorizerSettings, question: Question) -> Decision:
    """Return the decision with the rule that Kafka's audit log names for it.

    That is the first DENY in Kafka's scan order, otherwise its last matching ALLOW. Kafka knows
    every host. Where the host is unknown and rules deny single hosts, one of those that share a
    pattern and an operation stands for all: always the same one for the same rules.

    Raises:
        InvalidQuestionError: as ``authorize``.
    """
    if question.principal in settings.super_users:
        return SUPER_USER
    if question.principal == WILDCARD_PRINCIPAL:
        raise _wildcard_principal()
    acls = _matching(snapshot, question, 1)
    if acls:
        return _decided_by(acls, question.resource_name)
    index = snapshot.types[question.resource_type]
    if settings.allow_everyone_if_no_acl_found and not look_up(
        index.resources, question.resource_name
    ):
        return DEFAULT_ALLOW
    return DEFAULT_DENY


def _decided_by(acls: list[Acl], name: str) -> Decision:
    """Return the decision of ``acls``, one or more that speak of ``name``."""
    if len(acls) == 1:
        return Decision(acls[0].permission_type == PermissionType.ALLOW, MatchingAcl(acls[0]))
    denying = [acl for acl in acls if acl.permission_type != PermissionType.ALLOW]
    if denying:
        wildcard_section = 1 if name != WILDCARD else 0
        first = min(denying, key=lambda acl: _scan_key(acl, wildcard_section))
        return Decision(False, MatchingAcl(first))
    wildcard_section = (name > WILDCARD) - (name < WILDCARD)
    last = max(acls, key=lambda acl: _scan_key(acl, wildcard_section))
    return Decision(True, MatchingAcl(last))


def _scan_key(acl: Acl, wildcard_section: int) -> tuple[int, int, int, int, bytes, bytes, int]:
    """Order ACLs that match one name as Kafka meets them.

    It scans the name's own section (0), where a longer pattern stands before a shorter one, then
    from the literal ``*`` on, downwards: for a name that sorts below ``*`` that meets the own
    section a second time, so the last ALLOW then stands there (``wildcard_section`` -1). (Where a
    pattern of another name sorts between the two, Kafka's second scan ends before; which of two
    ALLOWs it names then is not followed here.) Within a pattern StandardAcl.compareTo decides,
    whose texts compare by UTF-16 units.
    """
    is_in_wildcard_section = is_wildcard(acl.pattern_type, acl.resource_name)
    return (
        wildcard_section if is_in_wildcard_section else 0,
        -len(acl.resource_name),
        PatternType.read(acl.pattern_type),
        Operation.read(acl.operation),
        acl.principal.encode("utf-16-be", "surrogatepass"),
        acl.host.encode("utf-16-be", "surrogatepass"),
        acl.permission_type,
    )


def matching_acls(snapshot: AclSnapshot, question: Question) -> list[Acl]:
    """Return every ACL that allows or denies the question, in no order.

    For an unknown host there are as many as single hosts are denied; ``explain`` looks at a few.
    """
    return _matching(snapshot, question, None)


def _matching(snapshot: AclSnapshot, question: Question, hosts_max: int | None) -> list[Acl]:
    """Return the ACLs that allow or deny the question.

    The index gives plain ACLs back. The odd ones, whose codes it does not hold, are looked through.

    Args:
        hosts_max: for an unknown host, how many hosts' denials to return of each pattern and
            operation; None for all.
    """
    index = snapshot.types[question.resource_type]
    acls: list[Acl] = []
    for principal in (question.principal, WILDCARD_PRINCIPAL):
        rules = rules_of(index, principal)
        if rules is NO_RULES:
            continue
        acls += _matching_at(rules.any_host, principal, WILDCARD, question)
        if not rules.hosts:
            continue
        if question.host is not None:
            patterns = rules.hosts.get(question.host, NO_PATTERNS)
            acls += _matching_at(patterns, principal, question.host, question)
        else:
            acls += _denials_of_hosts(rules, principal, question, hosts_max)
    if snapshot.odd:
        acls += (acl for acl in snapshot.odd if _denies_oddly(acl, question))
    return acls


def _matching_at(patterns: Patterns, principal: str, host: str, question: Question) -> list[Acl]:
    """Return the plain ACLs of one principal and host that allow or deny the question."""
    operation = question.operation
    return [
        Acl(question.resource_type, pattern_name, pattern_type, principal, host, rule, permission)
        for bits, pattern_type, pattern_name in _leaves(
            patterns, question.resource_name, ALLOWS[operation] | DENIES[operation]
        )
        for bit, rule, permission in _SPEAKING[operation]
        if bits & bit
    ]


def _denials_of_hosts(
    rules: Rules, principal: str, question: Question, hosts_max: int | None
) -> list[Acl]:
    """Return plain ACLs that deny the question for a single host, ``hosts_max`` of a kind."""
    operation, deny = question.operation, PermissionType.DENY
    return [
        Acl(question.resource_type, pattern_name, pattern_type, principal, host, rule, deny)
        for _, pattern_type, pattern_name in _leaves(
            rules.host_denials, question.resource_name, HOST_DENIES[operation]
        )
        for rule in denying_operations(operation)
        for host in islice(
            rules.denying_hosts.get((pattern_type, pattern_name, rule), NO_HOSTS).values(),
            hosts_max,
        )
    ]


def _leaves(patterns: Patterns, name: str, mask: int) -> list[tuple[int, PatternType, str]]:
    """Return the bits of ``mask`` at each pattern that matches ``name``, where there are any."""
    leaves: list[tuple[int, PatternType, str]] = []
    bits = patterns.literals.get(name, 0) & mask
    if bits:
        leaves.append((bits, PatternType.LITERAL, name))
    bits = patterns.wildcard & mask
    if bits and not misses_wildcard(name):
        leaves.append((bits, PatternType.LITERAL, WILDCARD))
    size = len(name)
    for length in patterns.lengths:
        if length <= size:
            bits = patterns.prefixes.get(name[:length], 0) & mask
            if bits:
                leaves.append((bits, PatternType.PREFIXED, name[:length]))
    return leaves


def _denies_oddly(acl: Acl, question: Question) -> bool:
    return (
        is_odd(acl)
        and acl.permission_type != PermissionType.ALLOW
        and acl.resource_type == question.resource_type
        and acl.resource_type in RESOURCE_TYPES
        and acl.operation in denying_operations(question.operation)
        and acl.principal in (question.principal, WILDCARD_PRINCIPAL)
        and (question.host is None or acl.host in (WILDCARD, question.host))
        and matches(acl.pattern_type, acl.resource_name, question.resource_name)
    )
