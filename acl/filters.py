"""Which ACLs a filter means.

Source: KIP-140, KIP-290; Kafka 4.3 ResourcePatternFilter.matches, AccessControlEntryFilter.matches.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from acl.model import WILDCARD, Acl, AclFilter, Operation, PatternType, PermissionType, ResourceType
from acl.snapshot import AclSnapshot
from acl.steps import Steps

ACLS_PER_STEP: Final = 512

_ANY: Final = 1
"""What leaves a field open, whichever of Kafka's enumerations its codes are of."""
_OPEN: Final = (AclFilter(), AclFilter(pattern_type=PatternType.MATCH))
"""The filters that mean every ACL."""


def accepts(filter: AclFilter, acl: Acl) -> bool:
    """Say whether ``filter`` means ``acl``. Codes from the future count as UNKNOWN.

    MATCH means every pattern that a resource of the filter's name would meet; ANY with a name
    means exactly that name, in either pattern type.
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


def find_acls(snapshot: AclSnapshot, filter: AclFilter) -> Steps[list[tuple[bytes, Acl]]]:
    """Return, in steps, the id and ACL of all that ``filter`` means, in no order.

    It yields between small pieces of work: a filter is laid over every ACL.
    """
    found: list[tuple[bytes, Acl]] = []
    items = iter(snapshot.acls.items())
    means_all = filter in _OPEN
    while piece := list(islice(items, ACLS_PER_STEP)):
        found += piece if means_all else [item for item in piece if accepts(filter, item[1])]
        yield
    return found


def acls_of(snapshot: AclSnapshot, filter: AclFilter) -> Iterator[tuple[bytes, Acl]]:
    """Yield the id and ACL of all that ``filter`` means, in no order."""
    return (item for item in snapshot.acls.items() if accepts(filter, item[1]))
