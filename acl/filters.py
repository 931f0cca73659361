"""Decide which ACLs a filter matches.

Source: KIP-140, KIP-290; Kafka 4.3 ResourcePatternFilter.matches, AccessControlEntryFilter.matches.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from authorizerd.acl.model import (
    OPERATIONS,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.snapshot import AclSnapshot

ACLS_PER_STEP: Final = 256

_ANY: Final = 1
"""The code of ANY, which all of Kafka's enumerations share."""
_OPEN: Final = (AclFilter(), AclFilter(pattern_type=PatternType.MATCH))
"""The filters that match every ACL."""


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

    Each list has the matches among the next ``ACLS_PER_STEP`` ACLs, and may be empty. Why not one
    list? Building and freeing it would block the thread.
    """
    items = iter(snapshot.acls.items())
    matches_all = filter in _OPEN
    while some := list(islice(items, ACLS_PER_STEP)):
        yield some if matches_all else [item for item in some if accepts(filter, item[1])]


def match_acls(snapshot: AclSnapshot, filter: AclFilter) -> Iterator[list[Acl]]:
    """Yield the ACLs that ``filter`` matches, as ``scan_acls`` does, but without their ids."""
    acls = iter(snapshot.acls.values())
    matches_all = filter in _OPEN
    while some := list(islice(acls, ACLS_PER_STEP)):
        yield some if matches_all else _select(filter, some)


def _select(filter: AclFilter, acls: list[Acl]) -> list[Acl]:
    """Return the ACLs that ``filter`` matches.

    Comparing one field of all ACLs takes a tenth of the time of ``accepts``. So the fields that are
    compared as they are come first, and usually leave few.
    """
    principal, host, operation = filter.principal, filter.host, filter.operation
    if principal is not None:
        acls = [acl for acl in acls if acl.principal == principal]
    if host is not None:
        acls = [acl for acl in acls if acl.host == host]
    if operation in OPERATIONS:
        acls = [acl for acl in acls if acl.operation == operation]
    if filter.resource_name is not None and filter.pattern_type != PatternType.MATCH:
        acls = [acl for acl in acls if acl.resource_name == filter.resource_name]
    return [acl for acl in acls if accepts(filter, acl)]
