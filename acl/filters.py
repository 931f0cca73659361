"""Decide which ACLs a filter matches.

Source: KIP-140, KIP-290; Kafka 4.3 ResourcePatternFilter.matches, AccessControlEntryFilter.matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Final, TypeAlias

from authorizerd.acl.model import (
    OPERATIONS,
    RESOURCE_TYPES,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import in_chunks

_Field: TypeAlias = tuple[Callable[[Acl], object], object]
"""A function that returns a field of an ACL, and the value that the field must have."""

_ANY: Final = 1
"""The code of ANY, which all of Kafka's enumerations share."""
_OPEN: Final = (AclFilter(), AclFilter(pattern_type=PatternType.MATCH))
"""The filters that match every ACL."""
_PERMISSION_TYPES: Final = (PermissionType.DENY, PermissionType.ALLOW)
_PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)


def accepts(filter: AclFilter, acl: Acl) -> bool:
    """Return True if ``filter`` matches ``acl``. Unknown codes count as UNKNOWN.

    MATCH with a name matches the literal pattern of that name, each prefixed pattern that the name
    begins with, and the literal ``*``. ANY with a name matches exactly that name, with either
    pattern type.
    """
    return (
        (filter.principal is None or filter.principal == acl.principal)
        and (filter.host is None or filter.host == acl.host)
        and filter.resource_type in (_ANY, ResourceType.read(acl.resource_type))
        and filter.operation in (_ANY, Operation.read(acl.operation))
        and filter.permission_type in (_ANY, PermissionType.read(acl.permission_type))
        and _accepts_pattern(filter, acl)
    )


def filter_of(acl: Acl) -> AclFilter:
    """Return the filter that matches exactly ``acl``, if this version knows all its codes."""
    return AclFilter(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _accepts_pattern(filter: AclFilter, acl: Acl) -> bool:
    wanted, name, pattern_name = filter.pattern_type, filter.resource_name, acl.resource_name
    stored = PatternType.read(acl.pattern_type)
    if wanted not in (PatternType.ANY, PatternType.MATCH, stored):
        return False
    if name is None:
        return True
    if wanted != PatternType.MATCH:
        return name == pattern_name
    if stored == PatternType.LITERAL:
        return pattern_name in (name, WILDCARD)
    return name.startswith(pattern_name)


def scan_acls(snapshot: AclSnapshot, filter: AclFilter) -> Iterator[list[tuple[bytes, Acl]]]:
    """Yield the ids and ACLs that ``filter`` matches, in no particular order.

    Each list has the matches in the next chunk of ACLs, and may be empty. Building and freeing a
    single list would block the thread.
    """
    matches_all = filter in _OPEN
    for chunk in in_chunks(snapshot.acls.items()):
        yield chunk if matches_all else [item for item in chunk if accepts(filter, item[1])]


def match_acls(snapshot: AclSnapshot, filter: AclFilter) -> Iterator[list[Acl]]:
    """Yield the ACLs that ``filter`` matches, as ``scan_acls`` does, but without their ids."""
    fields, are_all = _compared_fields(filter)
    for chunk in in_chunks(snapshot.acls.values()):
        for get, value in fields:
            chunk = [acl for acl in chunk if get(acl) == value]
        yield chunk if are_all else [acl for acl in chunk if accepts(filter, acl)]


def _compared_fields(
    filter: AclFilter,
) -> tuple[list[tuple[Callable[[Acl], object], object]], bool]:
    """Return the fields of an ACL that must equal a value, and True if nothing else matters.

    Comparing one field of all ACLs takes a tenth of the time of ``accepts``. UNKNOWN matches any
    code that this version does not know, and MATCH with a name compares more than one pattern.
    """
    fields: list[_Field] = []
    are_all = True
    if filter.principal is not None:
        fields.append((attrgetter("principal"), filter.principal))
    if filter.host is not None:
        fields.append((attrgetter("host"), filter.host))
    codes = (
        ("resource_type", filter.resource_type, RESOURCE_TYPES),
        ("operation", filter.operation, OPERATIONS),
        ("permission_type", filter.permission_type, _PERMISSION_TYPES),
        ("pattern_type", filter.pattern_type, _PATTERN_TYPES),
    )
    for name, code, known in codes:
        if code in known:
            fields.append((attrgetter(name), code))
        elif code != _ANY:
            are_all = False
    if filter.resource_name is not None and filter.pattern_type != PatternType.MATCH:
        fields.append((attrgetter("resource_name"), filter.resource_name))
    return fields, are_all or filter in _OPEN
