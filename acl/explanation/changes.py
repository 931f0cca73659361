"""The shortest sequence of ACL changes that reverses the answer.

**Invariant:** Kafka accepts an added ACL, and the ACL names exactly what was asked about. For an
unknown host, the changes reverse the answer for every host. If DENYs of single hosts stay, they
reverse it for the other hosts only, and an effect says so.

To reverse a denial, remove all matching DENYs, and add an ALLOW unless one already matches. For an
unknown host, DENYs of single hosts stay if something else also denies the other hosts. To deny an
allowed question, one change suffices: remove the only ALLOW if it is as narrow as the question, or
else add a DENY.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from authorizerd.acl.decision import Decision, DefaultRule
from authorizerd.acl.explanation.matches import Matches
from authorizerd.acl.explanation.model import AclChange, Changes, DefaultAccess
from authorizerd.acl.explanation.words import join_words, name_operation, name_resource, name_type
from authorizerd.acl.hosts import never_matches
from authorizerd.acl.index.bits import ALLOWS
from authorizerd.acl.model import (
    OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.patterns import look_up
from authorizerd.acl.snapshot import AclSnapshot, is_unjudgeable, rules_of
from authorizerd.acl.validation import find_creation_fault

HOSTS_SEARCHED_MAX: Final = 65_536


def find_changes(
    snapshot: AclSnapshot,
    question: Question,
    decision: Decision,
    matches: Matches,
    default: DefaultAccess,
) -> Changes:
    """Return the shortest changes that reverse ``decision``."""
    if decision.rule is DefaultRule.SUPER_USER:
        return Changes(
            reason=f"{question.principal} is a super user. No ACL changes what a super user may do:"
            " remove the principal from super.users instead."
        )
    if not decision.allowed:
        return _grant(question, matches, default)
    alone = _only_exact_allow(question, matches, default)
    if alone is not None and not _is_allowed_from_some_host(snapshot, question):
        return Changes(listed=(AclChange(False, alone),))
    return _deny(question, default)


def _grant(question: Question, matches: Matches, default: DefaultAccess) -> Changes:
    """Return the changes that make a denied question allowed."""
    removed, count, stays_denied = matches.denials, matches.denial_count, 0
    has_allow = matches.allow_count > 0
    opens_by_default = default.is_set and not has_allow and default.acl_count == count
    if question.host is None and not opens_by_default:
        is_denied_elsewhere = matches.wide_denial_count or not has_allow
        if is_denied_elsewhere:  # the question is about all hosts, not single ones
            removed, count = matches.wide_denials, matches.wide_denial_count
            stays_denied = matches.denial_count - count
    listed = tuple(AclChange(False, acl) for acl in removed)
    left_out = count - len(listed)
    effects = _describe_lost_denials(question, removed, count)
    effects += _describe_denied_hosts(matches, stays_denied)
    if opens_by_default:
        resource = name_resource(question.resource_type, question.resource_name)
        effects += (
            f"Then no ACL matches {resource}, so allow.everyone.if.no.acl.found allows every"
            " principal everything on it.",
        )
    elif not has_allow:
        acl = make_exact_acl(question, PermissionType.ALLOW)
        reason = why_not_creatable(acl)
        if reason is not None:
            return Changes(reason=reason)
        listed += (AclChange(True, acl),)
        effects += _describe_unused(acl)
    return Changes(listed=listed, left_out=left_out, effects=effects, stays_denied=stays_denied)


def _describe_denied_hosts(matches: Matches, count: int) -> tuple[str, ...]:
    """Return a sentence about the remaining DENYs of single hosts."""
    if not count:
        return ()
    hosts = (
        acl.host for acl in matches.denials if acl.host != WILDCARD and not is_unjudgeable(acl)
    )
    host = min(hosts, default="some hosts")
    if count == 1:
        asked = "one of its hosts" if "/" in host else "this host"
        return (
            f"It stays denied from {host}, which an ACL denies by itself: to allow it from there"
            f" as well, ask again with {asked}.",
        )
    return (
        f"It stays denied from {host} and others, which {count} ACLs deny by themselves: to allow"
        " it from one of them as well, ask again with this host.",
    )


def _describe_lost_denials(
    question: Question, removed: Sequence[Acl], count: int
) -> tuple[str, ...]:
    """Return a sentence if the DENYs to remove apply to more than the question.

    Args:
        count: how many are removed; ``removed`` are the first of them.
    """
    exact = make_exact_acl(question, PermissionType.DENY)
    knows_host = question.host is not None
    fields = (
        ("principals", lambda acl: acl.principal != exact.principal),
        ("resources", lambda acl: _pattern_of(acl) != _pattern_of(exact)),
        ("operations", lambda acl: is_unjudgeable(acl) or acl.operation != exact.operation),
        ("hosts", lambda acl: knows_host and (is_unjudgeable(acl) or acl.host != exact.host)),
    )
    wider = [noun for noun, is_wider in fields if any(map(is_wider, removed))]
    if not wider:
        return ()
    denying = "The ACL that is removed also denies"
    if count > 1:
        denying = "The ACLs that are removed also deny"
    return (f"{denying} other {join_words(wider)}.",)


def _pattern_of(acl: Acl) -> tuple[int, str]:
    return acl.pattern_type, acl.resource_name


def _describe_unused(acl: Acl) -> tuple[str, ...]:
    """Return a sentence if Kafka never asks for the operation on the resource type."""
    supported = SUPPORTED[ResourceType(acl.resource_type)]
    if acl.operation in (Operation.ALL, *supported):
        return ()
    kind = name_type(acl.resource_type)
    asked = join_words([operation.name for operation in supported])
    return (
        f"Brokers never ask for {name_operation(acl.operation)} on a {kind}, only for {asked}.",
    )


def _only_exact_allow(question: Question, matches: Matches, default: DefaultAccess) -> Acl | None:
    """Return the ALLOW whose removal denies the question, if it is as narrow as the question."""
    if matches.allow_count != 1:
        return None
    (acl,) = matches.allows
    # If the setting is true, a resource without its last ACL is open to everyone.
    is_replaced_by_default = default.is_set and default.acl_count == 1
    is_exact = acl == make_exact_acl(question, PermissionType.ALLOW)
    return acl if is_exact and not is_replaced_by_default else None


def _is_allowed_from_some_host(snapshot: AclSnapshot, question: Question) -> bool:
    """Return True if an ALLOW for a single host matches a question of unknown host.

    Also return True if there are too many hosts to search.
    """
    if question.host is not None:
        return False
    index = snapshot.types[question.resource_type]
    name, allows = question.resource_name, ALLOWS[question.operation]
    searched = 0
    for principal in (question.principal, WILDCARD_PRINCIPAL):
        for host, patterns in rules_of(index, principal).hosts.items():
            searched += 1
            if searched > HOSTS_SEARCHED_MAX:
                return True
            if look_up(patterns, name) & allows and not never_matches(host, snapshot.rules):
                return True
    return False


def _deny(question: Question, default: DefaultAccess) -> Changes:
    """Return the change that makes an allowed question denied by a DENY."""
    acl = make_exact_acl(question, PermissionType.DENY)
    reason = why_not_creatable(acl)
    if reason is not None:
        return Changes(reason=reason)
    effects = _describe_unused(acl)
    if default.applies:
        resource = name_resource(question.resource_type, question.resource_name)
        effects += (
            f"Then an ACL matches {resource}, so allow.everyone.if.no.acl.found no longer allows"
            " every principal everything on it.",
        )
    return Changes(listed=(AclChange(True, acl),), effects=effects)


def make_exact_acl(question: Question, permission_type: int) -> Acl:
    """Return the narrowest ACL that decides the question. Kafka may refuse to create it."""
    name = question.resource_name
    # The literal `*` matches every name; the prefix `*` only names that begin with `*`.
    pattern_type = PatternType.PREFIXED if name == WILDCARD else PatternType.LITERAL
    return Acl(
        question.resource_type,
        name,
        int(pattern_type),
        question.principal,
        WILDCARD if question.host is None else question.host,
        question.operation,
        int(permission_type),
    )


def why_not_creatable(acl: Acl) -> str | None:
    """Return a sentence that says why Kafka refuses to create ``acl``; None if Kafka accepts it."""
    if acl.operation not in OPERATIONS:
        return f"No ACL names the operation {name_operation(acl.operation)}."
    fault = find_creation_fault(acl)
    return None if fault is None else f"Kafka refuses an ACL for exactly this question: {fault}."
