"""One page of a search's results.

**Invariant:** an evaluation of each result with the same host is allowed by the same state. With
``list_hosts``, it is instead allowed from each of its hosts, and nothing that is not listed is
allowed from any host. All pages together are the whole search: each begins where the previous one
ended, and nothing occurs twice.
"""

from __future__ import annotations

from functools import partial

import msgspec

from authorizerd.acl.index.range_index import NO_RANGES
from authorizerd.acl.model import WILDCARD, PatternType, ResourceType
from authorizerd.acl.search.actions import find_actions
from authorizerd.acl.search.hosts import EVERYWHERE, HostAccess
from authorizerd.acl.search.names import find_names
from authorizerd.acl.search.resources import PatternAccess, find_resources
from authorizerd.acl.search.subjects import PAGE_CHARACTERS_MAX, find_subjects
from authorizerd.acl.snapshot import AclSnapshot, Rules, rules_of
from authorizerd.protocol.decisions.page_tokens import Position
from authorizerd.protocol.decisions.search_results import (
    FIRST,
    ResourcePage,
    SearchPage,
    State,
    bound_hosts,
    count_characters,
)
from authorizerd.protocol.decisions.searches import (
    SHOWN_EXCEPTIONS_MAX,
    FoundAction,
    FoundSubject,
    HostProperties,
    Query,
    SearchContext,
    name_action,
)


def find_page(state: State, query: Query, start: Position | None, limit: int) -> SearchPage:
    """Return the page that begins after ``start``.

    It may have fewer results than ``limit``, even none, although more follow.

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
            everyone_hosts=bound_hosts(found.everyone) if everyone else None,
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
        characters += count_characters(each.hosts) if query.list_hosts else 0
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
    """Return patterns of many names, and single names, sorted by name."""
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
        # Otherwise, single names allowed from this host are among ``names``.
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
    page = ResourcePage(state, query, limit, start)
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
    """Return True if something that is allowed only from some hosts is left out."""
    return access.may_allow(query.host) and not query.is_listed(access)


def _host_properties(
    query: Query, access: HostAccess, *, super_user: bool = False
) -> HostProperties | None:
    if not query.list_hosts:
        return None
    return HostProperties(bound_hosts(access), super_user)


def _name_releases(state: State, *, differ: bool) -> tuple[str, ...]:
    """Return the releases that may judge, if there are several and they differ."""
    releases = state.snapshot.rules.releases
    return tuple(map(str, releases)) if differ and len(releases) > 1 else ()


def _list_rules(snapshot: AclSnapshot, query: Query) -> tuple[Rules, Rules]:
    """Return the rules for the query's principal, and the rules for everyone."""
    assert query.principal is not None
    index = snapshot.types[query.resource_type]
    return rules_of(index, query.principal), index.everyone


def _has_ranges(snapshot: AclSnapshot, query: Query) -> bool:
    """Return True if rules that may matter are for ranges of addresses."""
    return any(rule.ranges is not NO_RANGES for rule in _list_rules(snapshot, query))


def _may_need_host(snapshot: AclSnapshot, query: Query) -> bool:
    """Return True if resources may be allowed from some hosts only, and the host is unknown.

    They are not counted: that would take a decision for every name and host.
    """
    if query.host is not None or query.list_hosts:
        return False
    return any(len(rule.hosts) for rule in _list_rules(snapshot, query))


def _everything(resource_type: int, operation: int) -> PatternAccess:
    """Return the pattern that stands for all names."""
    return PatternAccess(resource_type, PatternType.LITERAL, WILDCARD, operation, EVERYWHERE, ())
