"""One principal's reach: all resources that it may use, by operation and host.

**Invariant:** the reach is what ``acl.search`` finds: it includes what ACLs of ``User:*`` allow,
and nothing that a DENY covers. Rows that are left out are counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.model import WILDCARD, WILDCARD_PRINCIPAL, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.search.hosts import HostAccess
from authorizerd.acl.search.pattern_rules import PREFIXED, Pattern
from authorizerd.acl.search.resources import find_resources
from authorizerd.acl.snapshot import NO_RULES, AclSnapshot, rules_of
from authorizerd.daemon.queries.matrix import NOBODY, find_part
from authorizerd.daemon.queries.tables import cut
from authorizerd.protocol.queries import ReachQuestion

PATTERNS_MAX: Final = 100
"""With more patterns of one resource type than this, those with the same beginning are one row."""
ROWS_MAX: Final = 200
_PHRASES_MAX: Final = 3
_NO_SETTINGS: Final = AuthorizerSettings()


class ReachRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pattern of resources that the principal may use, or all with the same beginning.

    Attributes:
        name: the name, or the beginning of names and an ellipsis.
        patterns: their number.
        operations: by name: True if they are allowed from every host, everywhere in the row.
        hosts: phrases such as "only from 10.0.0.9".
        exceptions: the number of patterns inside to which the row does not apply.
        everyone: the operations that are allowed to everyone.
    """

    resource_type: str
    name: str
    patterns: int
    operations: dict[str, bool]
    hosts: tuple[str, ...]
    exceptions: int
    everyone: tuple[str, ...]


class Reach(msgspec.Struct, frozen=True):
    """The rows, those with the most patterns first, and the number of rows left out."""

    rows: tuple[ReachRow, ...]
    rows_left: int
    offset: int


class _Allowed(NamedTuple):
    """From where a pattern allows an operation, and whether it allows everyone the same."""

    hosts: HostAccess
    exceptions: int
    is_everyones: bool


_ByOperation: TypeAlias = dict[str, _Allowed]


def find_reach(question: ReachQuestion, snapshot: AclSnapshot) -> Reach:
    """Return what ACLs allow a principal, without regard to super users.

    Raises:
        SearchLimitError: see ``find_resources``.
    """
    principal = question.principal
    if principal == WILDCARD_PRINCIPAL:
        principal = NOBODY
    rows = [row for kind in SUPPORTED for row in _list_rows(snapshot, principal, kind)]
    rows.sort(key=lambda row: -row.patterns)  # which keeps the order of the others
    return Reach(tuple(rows[:ROWS_MAX]), max(len(rows) - ROWS_MAX, 0), snapshot.offset)


def _list_rows(snapshot: AclSnapshot, principal: str, kind: ResourceType) -> Iterator[ReachRow]:
    found = _find_patterns(snapshot, principal, kind)
    groups: defaultdict[tuple[str, bool], dict[Pattern, _ByOperation]] = defaultdict(dict)
    for (pattern_type, name), allowed in sorted(found.items(), key=lambda item: item[0][1]):
        is_prefix = pattern_type == PREFIXED
        key = name, is_prefix
        if len(found) > PATTERNS_MAX and name != WILDCARD:
            key = find_part(name), True
        groups[key][pattern_type, name] = allowed
    for (name, is_prefix), members in groups.items():
        if len(members) == 1:
            ((pattern_type, name),) = members
            is_prefix = pattern_type == PREFIXED
        yield _make_row(kind, name, is_prefix, [*members.values()])


def _find_patterns(
    snapshot: AclSnapshot, principal: str, kind: ResourceType
) -> dict[Pattern, _ByOperation]:
    found: defaultdict[Pattern, _ByOperation] = defaultdict(dict)
    index = snapshot.types[kind]
    if index.everyone is NO_RULES and rules_of(index, principal) is NO_RULES:
        return found
    for operation in SUPPORTED[kind]:
        common = find_resources(snapshot, _NO_SETTINGS, NOBODY, operation, kind).patterns
        everyones = {(each.pattern_type, each.name): each.hosts for each in common}
        for each in find_resources(snapshot, _NO_SETTINGS, principal, operation, kind).patterns:
            pattern = each.pattern_type, each.name
            allowed = _Allowed(
                each.hosts, len(each.exceptions), everyones.get(pattern) == each.hosts
            )
            found[pattern][operation.name] = allowed
    return found


def _make_row(
    kind: ResourceType, name: str, is_prefix: bool, members: Sequence[_ByOperation]
) -> ReachRow:
    operations: dict[str, bool] = {}
    everyones: dict[str, bool] = {}
    phrases: dict[HostAccess, None] = {}
    for member in members:
        for operation, (hosts, _, is_everyones) in member.items():
            operations[operation] = operations.get(operation, True) and hosts.is_everywhere
            everyones[operation] = everyones.get(operation, True) and is_everyones
            phrases[hosts] = None
    texts = [cut(str(each)) for each in list(phrases)[:_PHRASES_MAX]]
    if len(phrases) > _PHRASES_MAX:
        texts.append(f"{len(phrases) - _PHRASES_MAX} more answers")
    return ReachRow(
        resource_type=kind.name,
        name=f"{cut(name)}…" if is_prefix else cut(name),
        patterns=len(members),
        operations={
            each.name: operations[each.name] for each in SUPPORTED[kind] if each.name in operations
        },
        hosts=tuple(texts),
        exceptions=sum(max(each.exceptions for each in member.values()) for member in members),
        everyone=tuple(each for each, is_everyones in everyones.items() if is_everyones),
    )
