"""Warnings for the reviewer of a plan, as sentences.

**Invariant:** a warning changes nothing: not the plan, and not its exit code.

Source: Kafka 4.3 StandardAuthorizerData: allow.everyone.if.no.acl.found applies to a resource only
if no ACL of any principal matches its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.errors import SearchLimitError
from authorizerd.acl.explanation.words import count_of, name_pattern, name_type
from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.model import (
    CLUSTER_NAME,
    Acl,
    Operation,
    ResourceType,
)
from authorizerd.acl.pattern_set import PatternSet
from authorizerd.acl.plan.changes import AclChanges
from authorizerd.acl.plan.names import has_known_codes
from authorizerd.acl.plan.widening import find_widening
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.search.hosts import NOWHERE, covers
from authorizerd.acl.search.subjects import Subjects, find_subjects
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.surprises import find_surprises

LISTED_MAX: Final = 20
"""The most warnings of one kind. Another warning counts the rest."""
_UNLESS_SUPER_USER: Final = ", unless it is a super user, which is unknown"


class Proposal(msgspec.Struct, frozen=True):
    """The states before and after a plan, what it changes, and the settings of both states."""

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
    """Yield each surprise once, with the first ACL that it is about."""
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
    yield from _shorten(f"{each}{unless}" for each in _describe_losses(before, after, caller))
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
    opened = (_name(acl) for acl in proposal.changes.deleted if not after.covers(acl))
    return dict.fromkeys(opened)


def _find_closed(proposal: Proposal) -> Iterator[str]:
    before = PatternSet(proposal.before.acls.values())
    for acl in proposal.changes.created:
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
