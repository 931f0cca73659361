"""Warnings for the reviewer of a plan, as sentences.

**Invariant:** a warning changes neither the plan nor its exit code. Each example of what
becomes allowed is a request that is denied before the plan and allowed after it, by a Kafka release
that may judge.

Source: Kafka 4.3 StandardAuthorizerData: allow.everyone.if.no.acl.found applies to a resource only
if no ACL of any principal matches its name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import filterfalse, islice, product
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, is_allowed
from authorizerd.acl.errors import SearchLimitError
from authorizerd.acl.explanation.words import count_of, name_pattern, name_resource, name_type
from authorizerd.acl.host_ranges import find_range
from authorizerd.acl.hosts import never_matches
from authorizerd.acl.index.pattern_set import PatternSet
from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.model import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    Question,
    ResourceType,
)
from authorizerd.acl.notes import is_note
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.search.areas import list_examples
from authorizerd.acl.search.hosts import NOWHERE, covers
from authorizerd.acl.search.releases import list_releases
from authorizerd.acl.search.subjects import Subjects, find_subjects
from authorizerd.acl.snapshot import AclSnapshot, is_grant, is_unjudgeable
from authorizerd.acl.surprises import find_surprises
from authorizerd.management.plan.changes import AclChanges
from authorizerd.management.plan.names import has_known_codes

EXAMPLES_MAX: Final = 3
_TRIED_MAX: Final = 10_000
"""The maximum number of requests to try: about 50 ms."""
_SOME_HOST: Final = "0.0.0.0"  # noqa: S104 - nothing binds to it; no client has this address


def find_widening(
    before: AclSnapshot, after: AclSnapshot, changes: AclChanges, settings: AuthorizerSettings
) -> Iterator[str]:
    """Yield a sentence if the changes delete DENYs, with examples of what becomes allowed.

    A DENY whose host never matches denies nothing, and neither does a note, so these do not count.
    Only a few requests are tried, so more may be allowed even without examples.
    """
    # Kafka's failure to judge an ACL does not depend on the host.
    denials = [
        acl
        for acl in changes.delete_deny
        if is_unjudgeable(acl) or not (never_matches(acl.host, before.rules) or is_note(acl))
    ]
    if not denials:
        return
    examples = islice(
        (
            _describe(question)
            for question in islice(_make_questions(denials, after), _TRIED_MAX)
            if any(
                is_allowed(then, settings, question) and not is_allowed(now, settings, question)
                for now, then in zip(list_releases(before), list_releases(after), strict=True)
            )
        ),
        EXAMPLES_MAX,
    )
    named = ", ".join(examples)
    effect = f"so more is allowed, such as {named}" if named else "so more may be allowed"
    yield f"this plan deletes {count_of(len(denials), 'DENY ACL')}, {effect}"


def _make_questions(denials: Iterable[Acl], after: AclSnapshot) -> Iterator[Question]:
    """Yield requests that the DENYs affect; for a DENY of everyone, requests of grantees.

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


LISTED_MAX: Final = 20
"""The maximum number of warnings of one kind. Another warning counts the rest."""
_UNLESS_SUPER_USER: Final = ", unless it is a super user, which is unknown"


class Proposal(msgspec.Struct, frozen=True):
    """The states before and after a plan, its changes, and the settings of both states."""

    before: AclSnapshot
    after: AclSnapshot
    changes: AclChanges
    settings: KnownSettings


def find_warnings(proposal: Proposal, caller: str | None = None) -> Iterator[str]:
    """Yield the warnings, the most dangerous first.

    Args:
        caller: the principal that will apply the plan; None if it is not known.
    """
    if proposal.changes.deleted and not proposal.after.acls:
        yield "this plan deletes every ACL, and creates none"
    try:
        yield from _find_lost_administrators(proposal, caller)
    except SearchLimitError as error:
        yield f"it is not known who loses ALTER on the cluster: {error}"
    is_open = proposal.settings.allow_everyone_if_no_acl_found
    if is_open:
        yield from _shorten(_find_opened(proposal))
        yield from _shorten(_find_closed(proposal))
    elif is_open is None:
        yield from _find_perhaps_opened(proposal)
    settings = proposal.settings.least
    yield from find_widening(proposal.before, proposal.after, proposal.changes, settings)
    surprising = _find_surprising(proposal.changes.created, proposal.after.rules)
    yield from _shorten(surprising)
    yield from _find_unknown_codes(proposal)


def _shorten(sentences: Iterable[str]) -> Iterator[str]:
    """Yield each sentence once, and only the first ones."""
    each_once = list(dict.fromkeys(sentences))
    yield from each_once[:LISTED_MAX]
    if len(each_once) > LISTED_MAX:
        yield f"and {len(each_once) - LISTED_MAX} more warnings like the one before"


def _find_surprising(created: Iterable[Acl], rules: ReleaseRules) -> Iterator[str]:
    """Yield each surprise once, with the first ACL that it concerns."""
    acls_of: dict[str, list[Acl]] = {}
    for acl in created:
        for surprise in find_surprises(acl, rules):
            acls_of.setdefault(surprise, []).append(acl)
    for surprise, acls in acls_of.items():
        more = f", and {count_of(len(acls) - 1, 'more ACL')}" if len(acls) > 1 else ""
        yield f"{surprise}: {acls[0]}{more}"


def _find_lost_administrators(proposal: Proposal, caller: str | None) -> Iterator[str]:
    """Yield a sentence for each principal that may no longer change ACLs."""
    before = _find_administrators(proposal.before, proposal.settings.least)
    after = _find_administrators(proposal.after, proposal.settings.least)
    had_any = before.named or not before.everyone.is_nowhere
    has_any = after.named or not after.everyone.is_nowhere
    if had_any and not has_any:
        yield (
            "after this plan, nobody may change ACLs: no ACL allows ALTER on the cluster, and no "
            "super user is known"
        )
    unless = "" if proposal.settings.super_users is not None else _UNLESS_SUPER_USER
    yield from _shorten(f"{loss}{unless}" for loss in _describe_losses(before, after, caller))
    if not covers(after.everyone, before.everyone):
        yield "principals without ACLs of their own lose ALTER on the cluster"


def _describe_losses(before: Subjects, after: Subjects, caller: str | None) -> Iterator[str]:
    access_after = {each.principal: each.hosts for each in after.named}
    denied_after = {each.principal for each in after.excluded}
    for each in sorted(before.named, key=lambda each: (each.principal != caller, each.principal)):
        principal = each.principal
        default = NOWHERE if principal in denied_after else after.everyone
        rest = access_after.get(principal, default)
        if not covers(rest, each.hosts):
            whose = f"{principal} (you)" if principal == caller else principal
            where = "" if rest.is_nowhere else " from some hosts"
            yield f"{whose} loses ALTER on the cluster{where}, which it needs to change ACLs"


def _find_administrators(snapshot: AclSnapshot, settings: AuthorizerSettings) -> Subjects:
    return find_subjects(snapshot, settings, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)


def _find_opened(proposal: Proposal) -> Iterator[str]:
    for name in _name_opened(proposal):
        yield (
            f"{name}: this plan removes the last ACL, so allow.everyone.if.no.acl.found lets "
            "everyone do everything there"
        )


def _find_perhaps_opened(proposal: Proposal) -> Iterator[str]:
    names = list(_name_opened(proposal))
    if names:
        more = f" and {count_of(len(names) - 1, 'other pattern')}" if len(names) > 1 else ""
        yield (
            f"this plan removes the last ACL of {names[0]}{more}: if allow.everyone.if.no.acl.found"
            " is true, everyone may then do everything there. Its value is not known; pass it"
        )


def _name_opened(proposal: Proposal) -> Iterable[str]:
    """Return the patterns, each once, that lose their last ACL."""
    after = PatternSet(proposal.after.acls.values())
    deleted = filterfalse(is_note, proposal.changes.deleted)
    opened = (_name(acl) for acl in deleted if not after.covers(acl))
    return dict.fromkeys(opened)


def _find_closed(proposal: Proposal) -> Iterator[str]:
    before = PatternSet(proposal.before.acls.values())
    for acl in filterfalse(is_note, proposal.changes.created):
        if not before.covers(acl):
            yield (
                f"{_name(acl)}: this plan adds the first ACL, so allow.everyone.if.no.acl.found no "
                "longer lets everyone do everything there"
            )


def _name(acl: Acl) -> str:
    return f"{name_type(acl.resource_type)} {name_pattern(acl.pattern_type, acl.resource_name)}"


def _find_unknown_codes(proposal: Proposal) -> Iterator[str]:
    count = sum(not has_known_codes(acl) for acl in proposal.after.acls.values())
    if count:
        yield (
            f"{count_of(count, 'ACL')} with codes of a later Kafka version: the plan leaves them "
            "as they are"
        )
