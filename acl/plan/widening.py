"""Find requests that a plan allows by deleting DENYs.

**Invariant:** each example is a request that is denied before the plan and allowed after it, by a
Kafka release that may judge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice, product
from typing import Final

from authorizerd.acl.decision import AuthorizerSettings, is_allowed
from authorizerd.acl.explanation.words import count_of, name_resource
from authorizerd.acl.host_ranges import find_range
from authorizerd.acl.hosts import never_matches
from authorizerd.acl.model import (
    OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    Question,
)
from authorizerd.acl.plan.changes import AclChanges
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.search.areas import list_examples
from authorizerd.acl.search.releases import list_releases
from authorizerd.acl.snapshot import AclSnapshot, is_grant, is_unjudgeable

EXAMPLES_MAX: Final = 3
_TRIED_MAX: Final = 10_000
"""The most requests that are tried: about 50 ms."""
_SOME_HOST: Final = "0.0.0.0"  # noqa: S104 - nothing binds to it; no client has this address


def find_widening(
    before: AclSnapshot, after: AclSnapshot, changes: AclChanges, settings: AuthorizerSettings
) -> Iterator[str]:
    """Yield a sentence if the changes delete DENYs, with examples of what becomes allowed.

    A DENY whose host never matches denies nothing, so it does not count. Only a few requests are
    tried. So without examples, more may be allowed nevertheless.
    """
    denials = [acl for acl in changes.delete_deny if _can_deny(acl, before.rules)]
    if not denials:
        return
    examples = islice(
        (
            _describe(each)
            for each in islice(_make_questions(denials, after), _TRIED_MAX)
            if any(
                is_allowed(then, settings, each) and not is_allowed(now, settings, each)
                for now, then in zip(list_releases(before), list_releases(after), strict=True)
            )
        ),
        EXAMPLES_MAX,
    )
    named = ", ".join(examples)
    effect = f"so more is allowed, such as {named}" if named else "so more may be allowed"
    yield f"this plan deletes {count_of(len(denials), 'DENY ACL')}, {effect}"


def _can_deny(acl: Acl, rules: ReleaseRules) -> bool:
    """Return False if the host never matches. Kafka fails to judge an ACL whatever its host is."""
    return is_unjudgeable(acl) or not never_matches(acl.host, rules)


def _make_questions(denials: Iterable[Acl], after: AclSnapshot) -> Iterator[Question]:
    """Yield requests that the DENYs concern, for a DENY of everyone those of its grantees.

    An ACL that Kafka cannot judge denies everything to everyone.
    """
    grantees = _find_grantees(after)
    for acl in denials:
        fails = is_unjudgeable(acl)
        principals = [acl.principal]
        if fails or acl.principal == WILDCARD_PRINCIPAL:
            principals = grantees[acl.resource_type, acl.pattern_type, acl.resource_name]
        is_all = fails or acl.operation == Operation.ALL
        operations = OPERATIONS[1:] if is_all else [acl.operation]
        addresses = None if fails else find_range(acl.host)
        some_host = _SOME_HOST if fails or acl.host == WILDCARD else acl.host
        hosts = [some_host] if addresses is None else list_examples(addresses)
        for principal in principals:
            for operation, host in product(operations, hosts):
                yield Question(principal, host, operation, acl.resource_type, acl.resource_name)


def _find_grantees(after: AclSnapshot) -> dict[tuple[int, int, str], list[str]]:
    """Return the principals that an ALLOW names, by its resource pattern."""
    grantees: defaultdict[tuple[int, int, str], list[str]] = defaultdict(list)
    for acl in after.acls.values():
        if is_grant(acl) and acl.principal != WILDCARD_PRINCIPAL:
            pattern = acl.resource_type, acl.pattern_type, acl.resource_name
            grantees[pattern].append(acl.principal)
    return grantees


def _describe(question: Question) -> str:
    resource = name_resource(question.resource_type, question.resource_name)
    host = "" if question.host == _SOME_HOST else f" from {question.host}"
    return f"{question.principal} {Operation(question.operation).name} {resource}{host}"
