"""One page of a search's results.

**Invariant:** each result, asked as an evaluation with the same host, is allowed by the same state.
With ``list_hosts``, it is allowed from each of its hosts instead, and nothing else is from any. All
pages together are the whole search: each begins where the one before has ended, and nothing occurs
twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.errors import SearchLimitError
from authorizerd.acl.model import WILDCARD, PatternType, ResourceType
from authorizerd.acl.range_index import NO_RANGES
from authorizerd.acl.search.actions import find_actions
from authorizerd.acl.search.hosts import EVERYWHERE, HostAccess
from authorizerd.acl.search.names import find_names
from authorizerd.acl.search.releases import any_allows, list_releases
from authorizerd.acl.search.resources import PatternAccess, find_resources
from authorizerd.acl.search.subjects import PAGE_CHARACTERS_MAX, find_subjects
from authorizerd.acl.snapshot import AclSnapshot, Rules, rules_of
from authorizerd.protocol.decisions.hosts import Hosts, new_hosts
from authorizerd.protocol.decisions.page_tokens import Position, fits_token
from authorizerd.protocol.decisions.searches import (
    SHOWN_EXCEPTIONS_MAX,
    Found,
    FoundAction,
    FoundResource,
    FoundSubject,
    HostProperties,
    PatternException,
    PatternProperties,
    Query,
    SearchContext,
    name_action,
)

HOST_CHARACTERS_MAX: Final = 1024 * 1024
"""The maximum length of the hosts of one result together. Kafka does not limit a host's length."""
LONG_PAGE_CHARACTERS_MAX: Final = 4 * 1024 * 1024
"""The maximum length of a page whose names are too long for the token of a next one."""
_CHARACTERS_PER_HOST: Final = 32
"""The cost of a host beyond its characters: short ones take as long to write as longer ones."""
_PREFIXED: Final = int(PatternType.PREFIXED)
_NAME_RANK: Final = 2
EXCEPTIONS_MAX: Final = 10_000
"""The maximum number of exceptions of one pattern, so that they are copied in a short step."""
FIRST: Final = Position(-1, "")
"""The position before the first result."""


class State(msgspec.Struct, frozen=True, gc=False):
    """The state that is searched.

    ``topics`` are the names of the cluster's topics. With ``own_only``, a principal sees those that
    it may DESCRIBE by ``describable``, or if that is None, by ``snapshot``.
    """

    snapshot: AclSnapshot
    settings: AuthorizerSettings
    topics: Iterable[str] = ()
    own_only: bool = False
    describable: AclSnapshot | None = None


class SearchPage(msgspec.Struct, frozen=True, gc=False):
    """A page. ``end`` is where the next one begins, or None if this is the last one."""

    results: tuple[Found, ...]
    context: SearchContext
    end: Position | None = None


def find_page(state: State, query: Query, start: Position | None, limit: int) -> SearchPage:
    """Return the page that begins after ``start``.

    It may have fewer results than ``limit``, even none, although there are more.

    Args:
        limit: the maximum number of results, at least 1.

    Raises:
        InvalidQuestionError: the principal is ``User:*``, which means everyone.
        SearchLimitError: the ACLs are too many for a search.
    """
    start = start or FIRST
    if query.principal is None:
        return _find_subjects(state, query, start, limit)
    if query.resource_name is None:
        return _find_resources(state, query, start, limit)
    return _find_actions(state, query, start, limit)


def _find_subjects(state: State, query: Query, start: Position, limit: int) -> SearchPage:
    assert query.operation is not None
    assert query.resource_name is not None
    found = find_subjects(
        state.snapshot,
        state.settings,
        query.operation,
        query.resource_type,
        query.resource_name,
        after=start.other,
        limit=limit,
    )
    prefix = f"{query.principal_type}:"
    listed, denied = found.split(query.is_listed)
    chosen = [each for each in listed if each.principal.startswith(prefix)]
    subjects: list[FoundSubject] = []
    for each in chosen:
        name = each.principal.removeprefix(prefix)
        is_super = each.principal in state.settings.super_users
        properties = _host_properties(query, each.hosts, super_user=is_super)
        subjects.append(FoundSubject(query.subject_type, name, properties))
    excluded = [
        each.principal.removeprefix(prefix) for each in denied if each.principal.startswith(prefix)
    ]
    everyone, needs_host = query.is_listed(found.everyone), partial(_needs_host, query)
    shown = (*listed, *(found.excluded if everyone else ()))
    differ = any(each.by_release for each in (found.everyone, *(each.hosts for each in shown)))
    facts = SearchContext(
        offset=state.snapshot.offset,
        everyone=everyone,
        releases=_name_releases(state, differ=differ),
    )
    if query.list_hosts:
        context = msgspec.structs.replace(
            facts,
            everyone_except=tuple(excluded),
            everyone_hosts=_bound_hosts(found.everyone) if everyone else None,
            other_types=len(listed) - len(chosen),
        )
    else:
        named = (each for each in found.named if each.principal.startswith(prefix))
        context = msgspec.structs.replace(
            facts,
            everyone_except=tuple(excluded[:SHOWN_EXCEPTIONS_MAX]),
            everyone_except_left_out=max(0, len(excluded) - SHOWN_EXCEPTIONS_MAX),
            some_hosts=sum(needs_host(each.hosts) for each in named),
            everyone_some_hosts=needs_host(found.everyone),
        )
    end = None if found.next_after is None else Position(FIRST.code, FIRST.name, found.next_after)
    return SearchPage(tuple(subjects), context, end)


def _find_actions(state: State, query: Query, start: Position, limit: int) -> SearchPage:
    assert query.principal is not None
    assert query.resource_name is not None
    found = find_actions(
        state.snapshot, state.settings, query.principal, query.resource_type, query.resource_name
    )
    actions: list[FoundAction] = []
    some_hosts = waiting = characters = 0
    last, end = start.code, None
    for each in found:
        if each.operation <= start.code:
            continue
        if not query.is_listed(each.hosts):
            waiting += _needs_host(query, each.hosts)
            continue
        if len(actions) == limit or characters > PAGE_CHARACTERS_MAX:
            end = Position(last, "")
            break
        properties = _host_properties(query, each.hosts)
        actions.append(FoundAction(name_action(each.operation), properties))
        characters += _count_characters(each.hosts) if query.list_hosts else 0
        some_hosts, waiting, last = some_hosts + waiting, 0, each.operation
    else:
        some_hosts += waiting
    context = SearchContext(
        offset=state.snapshot.offset,
        some_hosts=some_hosts,
        releases=_name_releases(state, differ=any(each.hosts.by_release for each in found)),
    )
    return SearchPage(tuple(actions), context, end)


def _find_resources(state: State, query: Query, start: Position, limit: int) -> SearchPage:
    """Return patterns of many names and single names, in the order of their names."""
    assert query.principal is not None
    assert query.operation is not None
    found = find_resources(
        state.snapshot,
        state.settings,
        query.principal,
        query.operation,
        query.resource_type,
        after=None if start.code == FIRST.code else (start.code, start.name),
        limit=limit,
        exceptions_max=EXCEPTIONS_MAX,
        # Else, single names are among the names, if they are allowed from this host.
        literals=query.list_hosts,
    )
    names: tuple[str, ...] = ()
    if not query.list_hosts:
        is_topic = query.resource_type == ResourceType.TOPIC
        names = find_names(
            state.snapshot,
            state.settings,
            query.principal,
            query.host,
            query.operation,
            query.resource_type,
            state.topics if is_topic else (),
            after=start.other,
            limit=limit + 1,
            own_only=state.own_only,
            describable=state.describable,
        )
    patterns = found.patterns
    if found.everything and start.code == FIRST.code:
        patterns = (_everything(query.resource_type, query.operation),)
    page = _ResourcePage(state, query, limit, start)
    page.merge(patterns, names[:limit], found.next_after is not None, len(names) > limit)
    context = SearchContext(
        offset=state.snapshot.offset,
        everything=found.everything,
        unlisted=found.unlisted,
        patterns_left_out=page.patterns_left_out,
        hosts_matter=not found.everything and _may_need_host(state.snapshot, query),
        releases=_name_releases(
            state, differ=not found.everything and _has_ranges(state.snapshot, query)
        ),
    )
    return SearchPage(tuple(page.results), context, page.end)


def _needs_host(query: Query, access: HostAccess) -> bool:
    """Return True if something is left out, because it is allowed from some hosts only."""
    return access.may_allow(query.host) and not query.is_listed(access)


def _host_properties(
    query: Query, access: HostAccess, *, super_user: bool = False
) -> HostProperties | None:
    if not query.list_hosts:
        return None
    return HostProperties(_bound_hosts(access), super_user)


def _bound_hosts(access: HostAccess) -> Hosts:
    """Return the document of ``access``.

    Raises:
        SearchLimitError: the hosts are too long for an answer.
    """
    if access.characters > HOST_CHARACTERS_MAX:
        raise SearchLimitError(
            f"the hosts of one answer have more than {HOST_CHARACTERS_MAX} characters: ask about"
            " one host with a decision"
        )
    return new_hosts(access)


def _count_characters(access: HostAccess) -> int:
    """Return how much the hosts add to a page."""
    return access.characters + _CHARACTERS_PER_HOST * access.count


def _name_releases(state: State, *, differ: bool) -> tuple[str, ...]:
    """Return the releases that may judge, if they are several that differ."""
    releases = state.snapshot.rules.releases
    return tuple(map(str, releases)) if differ and len(releases) > 1 else ()


def _list_rules(snapshot: AclSnapshot, query: Query) -> tuple[Rules, Rules]:
    """Return the rules that name the principal of the query, and those for everyone."""
    assert query.principal is not None
    index = snapshot.types[query.resource_type]
    return rules_of(index, query.principal), index.everyone


def _has_ranges(snapshot: AclSnapshot, query: Query) -> bool:
    """Return True if rules that may matter are for ranges of addresses."""
    return any(each.ranges is not NO_RANGES for each in _list_rules(snapshot, query))


def _may_need_host(snapshot: AclSnapshot, query: Query) -> bool:
    """Return True if resources may be allowed from some hosts only, and the host is unknown.

    They are not counted: that takes a decision for every name and host.
    """
    if query.host is not None or query.list_hosts:
        return False
    return any(len(each.hosts) for each in _list_rules(snapshot, query))


class _ResourcePage:
    """A page of a search for resources, while it is made.

    ``end`` is where the next page begins, or None once nothing is left.
    """

    def __init__(self, state: State, query: Query, limit: int, start: Position) -> None:
        self._state: Final = state
        self._snapshots: Final = list_releases(state.snapshot)
        self._query: Final = query
        self._limit: Final = limit
        self._characters = 0
        self.results: list[FoundResource] = []
        self.end: Position | None = start
        self.patterns_left_out = 0

    def merge(
        self,
        patterns: Sequence[PatternAccess],
        names: Sequence[str],
        has_more_patterns: bool,
        has_more_names: bool,
    ) -> None:
        """Add the first results of both, in order, until the page is full or one of them ends.

        If one ends but has more, what follows of the other may not be next.
        """
        at_pattern = at_name = 0
        while at_pattern < len(patterns) or at_name < len(names):
            if len(self.results) == self._limit or self._is_long():
                return
            if at_pattern == len(patterns) and has_more_patterns:
                return
            if at_name == len(names) and has_more_names:
                return
            if at_name == len(names) or (
                at_pattern < len(patterns)
                and _sort_key(patterns[at_pattern]) <= (names[at_name], _NAME_RANK)
            ):
                self._add_pattern(patterns[at_pattern])
                at_pattern += 1
            else:
                self._add_name(names[at_name])
                at_name += 1
        if not (has_more_patterns or has_more_names):
            self.end = None

    def _is_long(self) -> bool:
        """Return True if the page is to end because of its names.

        It goes on after a long name, with which no request could ask for the next page.
        """
        if self._characters <= PAGE_CHARACTERS_MAX:
            return False
        assert self.end is not None
        return fits_token(self.end) or self._characters > LONG_PAGE_CHARACTERS_MAX

    def _add_pattern(self, pattern: PatternAccess) -> None:
        assert self.end is not None
        self.end = Position(pattern.pattern_type, pattern.name, self.end.other)
        query = self._query
        if not query.is_listed(pattern.hosts):
            return
        if not (query.list_hosts or self._is_allowed(pattern.name)):
            self.patterns_left_out += 1
            return
        exceptions = pattern.exceptions[:SHOWN_EXCEPTIONS_MAX]
        properties = PatternProperties(
            PatternType.read(pattern.pattern_type).name,
            tuple(PatternException(PatternType.read(code).name, name) for code, name in exceptions),
            len(pattern.exceptions) - len(exceptions),
            _bound_hosts(pattern.hosts) if query.list_hosts else None,
        )
        self._add(FoundResource(query.resource_type_name, pattern.name, properties))
        self._characters += sum(len(name) for _, name in exceptions)
        if query.list_hosts:
            self._characters += _count_characters(pattern.hosts)

    def _add_name(self, name: str) -> None:
        assert self.end is not None
        self.end = Position(self.end.code, self.end.name, name)
        self._add(FoundResource(self._query.resource_type_name, name))

    def _add(self, result: FoundResource) -> None:
        self.results.append(result)
        self._characters += len(result.id)

    def _is_allowed(self, name: str) -> bool:
        query = self._query
        assert query.principal is not None
        assert query.operation is not None
        return any_allows(
            self._snapshots,
            self._state.settings,
            query.principal,
            query.host,
            query.operation,
            query.resource_type,
            name,
        )


def _sort_key(pattern: PatternAccess) -> tuple[str, int]:
    """Return the place of a prefix or of the wildcard among names; a prefix precedes its name."""
    return (pattern.name, 0) if pattern.pattern_type == _PREFIXED else ("", 1)


def _everything(resource_type: int, operation: int) -> PatternAccess:
    """Return the pattern that stands for all names."""
    return PatternAccess(resource_type, PatternType.LITERAL, WILDCARD, operation, EVERYWHERE, ())
