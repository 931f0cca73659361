"""``authorizerd what-can``: the resources that a principal may use, and how.

Resources are patterns, because a principal may also use resources that do not exist yet. Next to a
pattern are the names of known topics that it covers.

**Invariant:** denials are subtracted. A pattern inside a wider one is an exception to it if the
access there is different. It also gets its own entry if anything is allowed there.
"""

from __future__ import annotations

import argparse
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeAlias

import msgspec

from authorizerd.acl.known_settings import ALLOW_EVERYONE, SUPER_USERS
from authorizerd.acl.model import CLUSTER_NAME, WILDCARD, Operation, PatternType, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.patterns import look_up, misses_wildcard
from authorizerd.acl.search.actions import find_actions
from authorizerd.acl.search.hosts import EVERYWHERE, HostAccess
from authorizerd.acl.search.resources import find_resources
from authorizerd.cli import question_words as asked
from authorizerd.cli.acl_source import AclSource, add_source_arguments, read_source
from authorizerd.cli.flags import Refuse, add_json_argument, add_list, add_switch
from authorizerd.cli.output import align, indent, print_answer
from authorizerd.cli.questions import phrases
from authorizerd.protocol.decisions.hosts import new_hosts

NAMES_SHOWN: Final = 10

Pattern: TypeAlias = tuple[int, str]
"""A pattern's type and name."""
NO_ACL: Final[Pattern] = (0, "")
"""Stands for all names that no ACL's pattern matches."""


class Entry(msgspec.Struct, frozen=True):
    """Resources that a principal may use in the same way. ``topics`` are the known topics."""

    resource_type: ResourceType
    pattern: Pattern
    exceptions: tuple[Pattern, ...]
    hosts: HostAccess
    operations: tuple[int, ...]
    topics: tuple[str, ...]


def add_what_can_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    asked.add_principal_argument(parser)
    text = f"show only this operation; may be repeated. {asked.OPERATION_HELP}"
    add_list(parser, "--operation", "NAME", text)
    text = "show only resources of this type, for example topic; may be repeated"
    add_list(parser, "--resource-type", "TYPE", text)
    asked.add_host_argument(parser, "show all hosts")
    text = f"print every name (default: the first {NAMES_SHOWN} of each list, and a count)"
    add_switch(parser, "--all-names", text)
    add_json_argument(parser)
    add_source_arguments(parser)


def _run(arguments: argparse.Namespace) -> int:
    refuse: Refuse = arguments.refuse
    principal = asked.read_asked_principal(arguments, refuse)
    wanted = _read_filters(arguments, refuse)
    host = asked.read_host(arguments.host, refuse)
    source = read_source(arguments)
    entries = [*find_entries(source, principal, host, wanted)]
    names_max = None if arguments.all_names else NAMES_SHOWN
    return print_answer(
        as_json=arguments.json,
        document=lambda: _document(source, principal, host, entries),
        lines=lambda: _lines(source, principal, host, entries, names_max),
        is_positive=bool(entries),
    )


Wanted: TypeAlias = dict[ResourceType, tuple[int, ...]]
"""The requested operations, for each resource type that has any of them."""


def _read_filters(arguments: argparse.Namespace, refuse: Refuse) -> Wanted:
    operations = {asked.read_operation(text, "--operation", refuse) for text in arguments.operation}
    types = {
        asked.read_resource_type(text, "--resource-type", refuse)
        for text in arguments.resource_type
    }
    wanted: Wanted = {}
    for resource_type, supported in SUPPORTED.items():
        chosen = tuple(each for each in supported if not operations or each in operations)
        if chosen and (not types or resource_type in types):
            wanted[resource_type] = chosen
    if not wanted:
        refuse("--operation: expected an operation of the resource types in --resource-type")
    return wanted


class _Access(msgspec.Struct, frozen=True):
    """The patterns where an operation is allowed, and from which hosts."""

    pattern: Pattern
    exceptions: tuple[Pattern, ...]
    hosts: HostAccess


EVERY_NAME: Final[Pattern] = (int(PatternType.PREFIXED), "")
"""Not the literal ``*``, because that skips names that begin with ``*``."""
THE_CLUSTER: Final[Pattern] = (int(PatternType.LITERAL), CLUSTER_NAME)


def find_entries(
    source: AclSource, principal: str, host: str | None, wanted: Wanted
) -> Iterator[Entry]:
    """Yield what the principal may do, by resource type and pattern."""
    for resource_type, operations in wanted.items():
        found: dict[_Access, list[int]] = {}
        for operation in operations:
            for access in _find_access(source, principal, resource_type, operation):
                if access.hosts.may_allow(host):
                    found.setdefault(access, []).append(operation)
        for access in sorted(
            found, key=lambda each: (each.pattern == NO_ACL, *each.pattern[::-1], each.exceptions)
        ):
            yield Entry(
                resource_type=resource_type,
                pattern=access.pattern,
                exceptions=access.exceptions,
                hosts=access.hosts,
                operations=tuple(found[access]),
                topics=_find_topics(source, resource_type, access),
            )


def _find_access(
    source: AclSource, principal: str, resource_type: ResourceType, operation: int
) -> Iterator[_Access]:
    snapshot, settings = source.snapshot, source.settings.least
    if resource_type is ResourceType.CLUSTER:
        # There is only one cluster, no matter which patterns match its name.
        for action in find_actions(snapshot, settings, principal, resource_type, CLUSTER_NAME):
            if action.operation == operation:
                yield _Access(THE_CLUSTER, (), action.hosts)
        return
    found = find_resources(snapshot, settings, principal, operation, resource_type)
    if found.everything:
        yield _Access(EVERY_NAME, (), EVERYWHERE)
    for pattern in found.patterns:
        yield _Access((pattern.pattern_type, pattern.name), pattern.exceptions, pattern.hosts)
    if found.unlisted:
        yield _Access(NO_ACL, (), EVERYWHERE)


def _find_topics(
    source: AclSource, resource_type: ResourceType, access: _Access
) -> tuple[str, ...]:
    if resource_type is not ResourceType.TOPIC:
        return ()
    if access.pattern == NO_ACL:
        patterns = source.snapshot.types[resource_type].resources
        return tuple(name for name in source.topics if not look_up(patterns, name))
    return tuple(find_covered(source.topics, *access.pattern, access.exceptions))


def _lines(
    source: AclSource,
    principal: str,
    host: str | None,
    entries: Sequence[Entry],
    names_max: int | None,
) -> Iterator[str]:
    who = phrases.describe_principal(source, principal)
    where = phrases.describe_place(host)
    doubts = [*_describe_doubts(source, principal)]
    if entries:
        yield f"{who} may do this{where}:"
    else:
        yield f"{who} has none of this access{where}{', but perhaps:' if doubts else ''}"
    by_pattern = attrgetter("resource_type", "pattern", "exceptions")
    for _, group in groupby(entries, key=by_pattern):
        same = [*group]
        yield from indent(_describe_pattern(same, host, names_max))
    yield from indent(doubts)
    yield from source.describe()


def _find_unknown(source: AclSource, principal: str) -> tuple[str, ...]:
    """Return the unknown settings that may allow the principal more."""
    settings = source.settings
    return () if settings.is_super_user(principal) else settings.unknown


def _describe_doubts(source: AclSource, principal: str) -> Iterator[str]:
    """Yield what unknown settings may allow the principal."""
    unknown = _find_unknown(source, principal)
    if SUPER_USERS in unknown:
        yield f"everything, if {principal} is a super user, which is unknown"
    if ALLOW_EVERYONE in unknown:
        yield f"everything that no ACL names, if {ALLOW_EVERYONE} is true, which is unknown"


def _describe_pattern(
    entries: Sequence[Entry], host: str | None, names_max: int | None
) -> Iterator[str]:
    """Yield the lines of one pattern, whose entries differ in their hosts and operations."""
    first = entries[0]
    text = phrases.describe_pattern(first.resource_type, *first.pattern)
    if first.exceptions:
        names = [phrases.describe_exception(*exception) for exception in first.exceptions]
        text += f", except {phrases.list_names(names, names_max)}"
    yield text
    by_hosts: dict[str, list[int]] = {}
    for entry in entries:
        by_hosts.setdefault(phrases.describe_hosts(entry.hosts, host), []).extend(entry.operations)
    yield from align(
        [
            (phrases.describe_operations(first.resource_type, operations), where)
            for where, operations in by_hosts.items()
        ]
    )
    if first.topics and first.topics != first.pattern[1:]:
        yield from indent([f"known topics: {phrases.list_names(first.topics, names_max)}"])


def _document(
    source: AclSource, principal: str, host: str | None, entries: Iterable[Entry]
) -> dict[str, object]:
    return {
        "principal": principal,
        "named": phrases.is_named(source, principal),
        "super_user": source.settings.is_super_user(principal),
        "host": host,
        "resources": [*map(_document_of, entries)],
        "unknown_settings": _find_unknown(source, principal),
        "source": source.document,
    }


def _document_of(entry: Entry) -> dict[str, object]:
    """Return an entry as JSON. Without a pattern, it covers all names that no pattern matches."""
    return {
        "resource_type": entry.resource_type.name,
        "pattern": None if entry.pattern == NO_ACL else _document_of_pattern(entry.pattern),
        "except": [*map(_document_of_pattern, entry.exceptions)],
        "operations": [Operation(code).name for code in sorted(entry.operations)],
        "hosts": new_hosts(entry.hosts),
        "known_topics": entry.topics,
    }


def _document_of_pattern(pattern: Pattern) -> dict[str, str]:
    return {"pattern_type": PatternType(pattern[0]).name, "resource_name": pattern[1]}


def find_covered(
    topics: Sequence[str],
    pattern_type: int,
    name: str,
    exceptions: Iterable[tuple[int, str]] = (),
) -> list[str]:
    """Return the names that a pattern matches, and none of its exceptions.

    Args:
        topics: sorted names.
        exceptions: the types and names of patterns.
    """
    literals: set[str] = set()
    prefixes: list[str] = []
    for exception_type, exception in exceptions:
        if exception_type == PatternType.PREFIXED:
            prefixes.append(exception)
        else:
            literals.add(exception)
    excepted = tuple(prefixes)
    return [
        topic
        for topic in _find_matches(topics, pattern_type, name)
        if topic not in literals and not topic.startswith(excepted)
    ]


def _find_matches(topics: Sequence[str], pattern_type: int, name: str) -> Sequence[str]:
    start = bisect_left(topics, name)
    if pattern_type == PatternType.PREFIXED:
        end = start
        while end < len(topics) and topics[end].startswith(name):
            end += 1
        return topics[start:end]
    if name == WILDCARD:
        return [topic for topic in topics if not misses_wildcard(topic)]
    return [name] if start < len(topics) and topics[start] == name else []
