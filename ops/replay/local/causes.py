"""Find which ACLs of a change cause requests to be decided differently.

**Invariant:** each changed decision has at least one cause: an ACL that is removed, or one that is
added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import chain
from typing import Final

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.matching import matching_acls
from authorizerd.acl.model import WILDCARD, Acl, PatternType, Question
from authorizerd.acl.patterns import misses_wildcard
from authorizerd.acl.releases import Release
from authorizerd.acl.snapshot import is_grant
from authorizerd.acl.text.named_acl import name_acl
from authorizerd.management.plan.traffic import TrafficCause
from authorizerd.replay.judging.asking import question_of
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.whatif.report import Detail

OF_RESOURCE_MAX: Final = 10
"""Maximum number of causes of one request that only share its resource."""


class ChangedAcls:
    """The ACLs that a change removes and adds, compared with the sets before and after it.

    ``releases`` are the Kafka releases that may judge: an ACL that any of them matches is a cause.
    """

    def __init__(
        self,
        before: Collection[Acl],
        after: Collection[Acl],
        releases: tuple[Release, ...] = tuple(Release),
    ) -> None:
        old, new = set(before), set(after)
        self._removed = _Side(old - new, releases)
        self._added = _Side(new - old, releases)

    def find_causes(self, changes: Iterable[Detail], *, are_allowed: bool) -> list[TrafficCause]:
        """Return the causes of all changes, sorted by events (most first), then by the ACL's text.

        The causes of a new denial are the added DENYs, or if there are none, the removed ALLOWs,
        any of which would allow the request. A new permission is caused by removed DENYs and added
        ALLOWs.

        With allow.everyone.if.no.acl.found, the cause may be ACLs that only share the request's
        resource: its first ACL ends that setting's effect, and removing the last one restores it.
        """
        sums: dict[tuple[Acl, bool], tuple[int, int, str]] = {}
        for change in changes:
            for key in self._causes_of(question_of(change), are_allowed):
                events, tuples, last_at = sums.get(key, (0, 0, ""))
                sums[key] = events + change.events, tuples + 1, max(last_at, change.last_at)
        return [
            TrafficCause(
                change="delete" if is_removed else "create",
                acl=name_acl(acl),
                events=events,
                tuples=tuples,
                last_at=last_at,
            )
            for (acl, is_removed), (events, tuples, last_at) in sorted(
                sums.items(), key=lambda item: (-item[1][0], str(item[0][0]))
            )
        ]

    def _causes_of(self, question: Question, is_allowed: bool) -> list[tuple[Acl, bool]]:
        added = self._added.find_deciding(question, allows=is_allowed)
        removed = []
        if is_allowed or not added:
            removed = self._removed.find_deciding(question, allows=not is_allowed)
        if not (removed or added):
            side, is_removed = (self._removed, True) if is_allowed else (self._added, False)
            return [(acl, is_removed) for acl in side.find_of_resource(question)]
        return [*((acl, True) for acl in removed), *((acl, False) for acl in added)]


class _Side:
    """The ACLs that a change removes, or those that it adds."""

    def __init__(self, acls: Iterable[Acl], releases: tuple[Release, ...]) -> None:
        index = AclIndex(acls, AuthorizerSettings(), releases=releases)
        # Later releases match everything that earlier ones match.
        self._snapshot = index.states[-1]
        self._by_pattern: dict[tuple[int, bool, str], list[Acl]] = defaultdict(list)
        for acl in index.acls:
            is_literal = acl.pattern_type == PatternType.LITERAL
            self._by_pattern[acl.resource_type, is_literal, acl.resource_name].append(acl)

    def find_deciding(self, question: Question, *, allows: bool) -> list[Acl]:
        """Return the ACLs that allow the question, or those that deny it."""
        return [acl for acl in matching_acls(self._snapshot, question) if is_grant(acl) is allows]

    def find_of_resource(self, question: Question) -> list[Acl]:
        """Return some of the ACLs, of any principal, whose patterns match the resource."""
        name = question.resource_name
        patterns = {(True, name), *((False, name[:length]) for length in range(len(name) + 1))}
        if not misses_wildcard(name):
            patterns.add((True, WILDCARD))
        found = (
            self._by_pattern.get((question.resource_type, *pattern), []) for pattern in patterns
        )
        return sorted(chain.from_iterable(found), key=str)[:OF_RESOURCE_MAX]
