"""Find the ACLs of a change that are the reason why requests are decided differently.

**Invariant:** each changed decision has at least one cause: an ACL that is removed, or one that is
added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.matching import matching_acls
from authorizerd.acl.model import Acl, PatternType, PermissionType, Question
from authorizerd.acl.patterns import is_wildcard, misses_wildcard, prefix_lengths
from authorizerd.replay.judging.asking import question_of
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.whatif.changes import Change
from authorizerd.replay.whatif.report import NEWLY_ALLOWED

OF_RESOURCE_MAX: Final = 10
"""The most causes of one request that only share its resource."""


class Cause(NamedTuple):
    """An ACL that the change removes or adds, and the requests that change because of it.

    ``last_ms`` is the time of the last request, in milliseconds since 1970.
    """

    acl: Acl
    is_removed: bool
    events: int
    tuples: int
    last_ms: int


class ChangedAcls:
    """The ACLs that a change removes, and those that it adds."""

    def __init__(self, removed: Iterable[Acl], added: Iterable[Acl]) -> None:
        self._removed = _Side(removed)
        self._added = _Side(added)

    def find_causes(self, changes: Iterable[Change]) -> list[Cause]:
        """Return the causes of all changes: those of most events first, then by the ACL's text.

        The causes of a new denial are the added DENYs. Only if there are none, they are the removed
        ALLOWs, any of which would allow it. A new permission is caused by removed DENYs and added
        ALLOWs.

        With allow.everyone.if.no.acl.found, the cause may be ACLs that only share the request's
        resource: its first ACL ends that setting's effect, and removing the last one restores it.
        """
        causes: dict[tuple[Acl, bool], Cause] = {}
        for change in changes:
            for key in self._causes_of(question_of(change), change.change == NEWLY_ALLOWED):
                so_far = causes.get(key, Cause(*key, 0, 0, change.last_ms))
                causes[key] = so_far._replace(
                    events=so_far.events + change.events,
                    tuples=so_far.tuples + 1,
                    last_ms=max(so_far.last_ms, change.last_ms),
                )
        return sorted(causes.values(), key=lambda each: (-each.events, str(each.acl)))

    def _causes_of(self, question: Question, is_allowed: bool) -> list[tuple[Acl, bool]]:
        if is_allowed:
            removed = self._removed.find_deciding(question, allows=False)
            added = self._added.find_deciding(question, allows=True)
            if not (removed or added):
                removed = self._removed.find_of_resource(question)
        else:
            removed = []
            added = self._added.find_deciding(question, allows=False)
            if not added:
                removed = self._removed.find_deciding(question, allows=True)
            if not (removed or added):
                added = self._added.find_of_resource(question)
        return [*((acl, True) for acl in removed), *((acl, False) for acl in added)]


class _Side:
    """The ACLs that a change removes, or those that it adds."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        index = AclIndex(acls, AuthorizerSettings())
        self._snapshot = index.snapshot
        self._by_pattern: dict[tuple[int, bool, str], list[Acl]] = defaultdict(list)
        for acl in index.acls:
            self._by_pattern[acl.resource_type, _is_prefix(acl), acl.resource_name].append(acl)

    def find_deciding(self, question: Question, *, allows: bool) -> list[Acl]:
        """Return the ACLs that allow the question, or those that deny it."""
        return [
            acl
            for acl in matching_acls(self._snapshot, question)
            if (acl.permission_type == PermissionType.ALLOW) is allows
        ]

    def find_of_resource(self, question: Question) -> list[Acl]:
        """Return some of the ACLs, of any principal, whose patterns match the resource."""
        return list(islice(self._of_resource(question), OF_RESOURCE_MAX))

    def _of_resource(self, question: Question) -> Iterator[Acl]:
        kind, name = question.resource_type, question.resource_name
        yield from self._by_pattern.get((kind, False, name), ())
        for length in prefix_lengths(self._snapshot.types[kind].resources):
            if length <= len(name):
                yield from self._by_pattern.get((kind, True, name[:length]), ())
        if name != "*" and not misses_wildcard(name):
            yield from self._by_pattern.get((kind, False, "*"), ())


def _is_prefix(acl: Acl) -> bool:
    """Return True unless the pattern is literal; unknown types count as PREFIXED."""
    is_literal = acl.pattern_type == PatternType.LITERAL
    return not (is_literal or is_wildcard(acl.pattern_type, acl.resource_name))
