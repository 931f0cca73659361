"""One page of a search's results, in steps.

**Invariant:** each result, asked as an evaluation with the same host, is allowed by the same state.
Each page begins where the one before has ended, so all pages together are the whole search, and
nothing occurs twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.model import WILDCARD, PatternType, ResourceType
from authorizerd.acl.search.actions import find_actions
from authorizerd.acl.search.hosts import EVERYWHERE
from authorizerd.acl.search.names import find_names
from authorizerd.acl.search.resources import PatternAccess, find_resources
from authorizerd.acl.search.subjects import find_subjects
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import Steps, free
from authorizerd.protocol.decisions.page_tokens import Position
from authorizerd.protocol.decisions.searches import (
    SHOWN_EXCEPTIONS_MAX,
    Found,
    FoundAction,
    FoundResource,
    FoundSubject,
    PatternException,
    PatternProperties,
    Query,
    SearchContext,
    name_action,
)

PAGE_CHARACTERS_MAX: Final = 256 * 1024
"""A page ends once its results have this many characters, so that it is written in a short step."""
_ITEMS_PER_STEP: Final = 32
_PREFIXED: Final = int(PatternType.PREFIXED)
_NAMES: Final = int(PatternType.UNKNOWN)
_FIRST_NAME: Final = int(PatternType.ANY)
"""The codes of a position among names: after a name, and before the first one. Among patterns, the
code is the type of a pattern, which is neither."""
FIRST: Final = Position(-1, "")
"""The position before the first result."""


class State(msgspec.Struct, frozen=True, gc=False):
    """The state that is searched. ``topics`` are the names of the cluster's topics."""

    snapshot: AclSnapshot
    settings: AuthorizerSettings
    topics: Iterable[str] = ()


class SearchPage(msgspec.Struct, frozen=True, gc=False):
    """A page. ``end`` is where the next one begins, or None if this is the last one."""

    results: tuple[Found, ...]
    context: SearchContext
    end: Position | None = None


def find_page(state: State, query: Query, start: Position | None, limit: int) -> Steps[SearchPage]:
    """Return, in steps, the page that begins after ``start``.

    It may have fewer results than ``limit``, even none, although there are more.

    Args:
        limit: the maximum number of results, at least 1.

    Raises:
        InvalidQuestionError: the principal is ``User:*``, which means everyone.
        SearchLimitError: the ACLs are too many for a search.
    """
    start = None if start == FIRST else start
    if query.principal is None:
        return (yield from _find_subjects(state, query, start, limit))
    if query.resource_name is None:
        return (yield from _find_resources(state, query, start, limit))
    return (yield from _find_actions(state, query, start, limit))


def _find_subjects(
    state: State, query: Query, start: Position | None, limit: int
) -> Steps[SearchPage]:
    assert query.operation is not None
    assert query.resource_name is not None
    found = yield from find_subjects(
        state.snapshot,
        state.settings,
        query.operation,
        query.resource_type,
        query.resource_name,
        after=None if start is None else start.name,
        limit=limit,
    )
    prefix, host = f"{query.principal_type}:", query.host
    subjects = tuple(
        FoundSubject(query.subject_type, each.principal.removeprefix(prefix))
        for each in found.named
        if each.principal.startswith(prefix) and each.hosts.allows(host)
    )
    everyone = found.everyone.allows(host)
    excluded = [
        each.principal.removeprefix(prefix)
        for each in found.excluded
        if everyone and each.principal.startswith(prefix) and not each.hosts.allows(host)
    ]
    context = SearchContext(
        offset=state.snapshot.offset,
        everyone=everyone,
        everyone_except=tuple(excluded[:SHOWN_EXCEPTIONS_MAX]),
        everyone_except_left_out=max(0, len(excluded) - SHOWN_EXCEPTIONS_MAX),
    )
    end = None if found.next_after is None else Position(0, found.next_after)
    return SearchPage(subjects, context, end)


def _find_actions(
    state: State, query: Query, start: Position | None, limit: int
) -> Steps[SearchPage]:
    assert query.principal is not None
    assert query.resource_name is not None
    found = yield from find_actions(
        state.snapshot, state.settings, query.principal, query.resource_type, query.resource_name
    )
    after = -1 if start is None else start.code
    operations = [
        each.operation for each in found if each.operation > after and each.hosts.allows(query.host)
    ]
    end = Position(operations[limit - 1], "") if len(operations) > limit else None
    actions = tuple(FoundAction(name_action(each)) for each in operations[:limit])
    return SearchPage(actions, SearchContext(offset=state.snapshot.offset), end)


def _find_resources(
    state: State, query: Query, start: Position | None, limit: int
) -> Steps[SearchPage]:
    """Return patterns of many names first, then names."""
    page = _ResourcePage(state, query, limit)
    if start is None or start.code not in (_NAMES, _FIRST_NAME):
        yield from page.add_patterns(start)
    if page.end is None:
        yield from page.add_names(start.name if start and start.code == _NAMES else None)
    context = SearchContext(
        offset=state.snapshot.offset,
        everything=query.principal in state.settings.super_users,
        unlisted=state.settings.allow_everyone_if_no_acl_found,
        patterns_left_out=page.patterns_left_out,
    )
    return SearchPage(tuple(page.results), context, page.end)


class _ResourcePage:
    """A page of a search for resources, while it is made."""

    def __init__(self, state: State, query: Query, limit: int) -> None:
        assert query.principal is not None
        assert query.operation is not None
        self._state: Final = state
        self._query: Final = query
        self._principal: Final = query.principal
        self._operation: Final = query.operation
        self._limit: Final = limit
        self._characters = 0
        self.results: list[FoundResource] = []
        self.end: Position | None = None
        self.patterns_left_out = 0

    @property
    def _is_full(self) -> bool:
        return len(self.results) >= self._limit or self._characters > PAGE_CHARACTERS_MAX

    def add_patterns(self, start: Position | None) -> Steps[None]:
        """Add the patterns after ``start``, except those of a single name."""
        found = yield from find_resources(
            self._state.snapshot,
            self._state.settings,
            self._principal,
            self._operation,
            self._query.resource_type,
            after=None if start is None else (start.code, start.name),
        )
        patterns = list(found.patterns)
        if found.everything and start is None:
            patterns.append(_everything(self._query.resource_type, self._operation))
        del found
        last = start
        for number, pattern in enumerate(patterns, 1):
            if self._is_full:
                self.end = last
                break
            self._add_pattern(pattern)
            last = Position(pattern.pattern_type, pattern.name)
            if not number % _ITEMS_PER_STEP:
                yield
        yield from free(patterns)

    def _add_pattern(self, pattern: PatternAccess) -> None:
        is_single = pattern.pattern_type != _PREFIXED and pattern.name != WILDCARD
        # ``find_names`` finds single names, also those that another principal's ACL has.
        if is_single or not pattern.hosts.allows(self._query.host):
            return
        if not self._is_allowed(pattern.name):
            self.patterns_left_out += 1
            return
        exceptions = pattern.exceptions[:SHOWN_EXCEPTIONS_MAX]
        properties = PatternProperties(
            PatternType.read(pattern.pattern_type).name,
            tuple(PatternException(PatternType.read(code).name, name) for code, name in exceptions),
            len(pattern.exceptions) - len(exceptions),
        )
        self._add(FoundResource(self._query.resource_type_name, pattern.name, properties))
        self._characters += sum(len(name) for _, name in exceptions)

    def add_names(self, after: str | None) -> Steps[None]:
        """Add the names after ``after``; None adds all."""
        if self._is_full:
            self.end = Position(_FIRST_NAME, "")
            return
        is_topic = self._query.resource_type == ResourceType.TOPIC
        names = yield from find_names(
            self._state.snapshot,
            self._state.settings,
            self._principal,
            self._query.host,
            self._operation,
            self._query.resource_type,
            self._state.topics if is_topic else (),
            after=after,
            limit=self._limit - len(self.results) + 1,
        )
        for name in names:
            if self._is_full:
                self.end = Position(_NAMES, self.results[-1].id)
                return
            self._add(FoundResource(self._query.resource_type_name, name))

    def _add(self, result: FoundResource) -> None:
        self.results.append(result)
        self._characters += len(result.id)

    def _is_allowed(self, name: str) -> bool:
        return authorize(
            self._state.snapshot,
            self._state.settings,
            self._principal,
            self._query.host,
            self._operation,
            self._query.resource_type,
            name,
        )


def _everything(resource_type: int, operation: int) -> PatternAccess:
    """Return the pattern that stands for all names."""
    return PatternAccess(resource_type, PatternType.LITERAL, WILDCARD, operation, EVERYWHERE, ())
