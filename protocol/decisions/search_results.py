"""The parts of a page of a search's results.

**Invariant:** a page's results have a bounded number of characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.errors import SearchLimitError
from authorizerd.acl.model import PatternType
from authorizerd.acl.search.hosts import HostAccess
from authorizerd.acl.search.releases import any_allows, list_releases
from authorizerd.acl.search.resources import PatternAccess
from authorizerd.acl.search.subjects import PAGE_CHARACTERS_MAX
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.protocol.decisions.hosts import Hosts, new_hosts
from authorizerd.protocol.decisions.page_tokens import Position, fits_token
from authorizerd.protocol.decisions.searches import (
    SHOWN_EXCEPTIONS_MAX,
    Found,
    FoundResource,
    PatternException,
    PatternProperties,
    Query,
    SearchContext,
)

HOST_CHARACTERS_MAX: Final = 1024 * 1024
"""The maximum total length of the hosts of one result. Kafka does not limit a host's length."""
LONG_PAGE_CHARACTERS_MAX: Final = 4 * 1024 * 1024
"""The maximum length of a page whose names are too long for the next page's token."""
_CHARACTERS_PER_HOST: Final = 32
"""The extra cost per host: short ones take as long to write as longer ones."""
_PREFIXED: Final = int(PatternType.PREFIXED)
_NAME_RANK: Final = 2
FIRST: Final = Position(-1, "")
"""The position before the first result."""


class State(msgspec.Struct, frozen=True, gc=False):
    """The state to search.

    ``topics`` are the names of the cluster's topics. With ``own_only``, a principal sees the topics
    that it may DESCRIBE according to ``describable``, or if that is None, according to
    ``snapshot``.
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


def bound_hosts(access: HostAccess) -> Hosts:
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


def count_characters(access: HostAccess) -> int:
    """Return the characters that the hosts add to a page."""
    return access.characters + _CHARACTERS_PER_HOST * access.count


class ResourcePage:
    """A page of a search for resources, while it is being built.

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

        If one of them ends but has more results later, the merge stops: the other's next result may
        not be the next one overall.
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
        """Return True if the page must end because of its names.

        The page does not end at a very long name, since no request could continue from there.
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
            bound_hosts(pattern.hosts) if query.list_hosts else None,
        )
        self._add(FoundResource(query.resource_type_name, pattern.name, properties))
        self._characters += sum(len(name) for _, name in exceptions)
        if query.list_hosts:
            self._characters += count_characters(pattern.hosts)

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
    """Return the position of a prefix or wildcard among names; a prefix precedes its name."""
    return (pattern.name, 0) if pattern.pattern_type == _PREFIXED else ("", 1)
