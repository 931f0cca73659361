"""An ACL with Kafka's names in place of its codes, as JSON documents have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from authorizerd.acl.model import (
    OPERATION_NAMES,
    PATTERN_TYPE_NAMES,
    PERMISSION_TYPE_NAMES,
    RESOURCE_TYPE_NAMES,
    Acl,
    Code,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)

if TYPE_CHECKING:
    ResourceTypeName: TypeAlias = str
    PatternTypeName: TypeAlias = str
    OperationName: TypeAlias = str
    PermissionTypeName: TypeAlias = str
else:
    ResourceTypeName = Literal[tuple(ResourceType.__members__)]
    PatternTypeName = Literal[tuple(PatternType.__members__)]
    OperationName = Literal[tuple(Operation.__members__)]
    PermissionTypeName = Literal[tuple(PermissionType.__members__)]


class NamedAcl(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An ACL, with Kafka's names in capitals. A code of a later Kafka version reads UNKNOWN."""

    resource_type: ResourceTypeName
    resource_name: str
    pattern_type: PatternTypeName
    principal: str
    host: str
    operation: OperationName
    permission_type: PermissionTypeName


def name_acl(acl: Acl) -> NamedAcl:
    """Return an ACL with names instead of codes."""
    return NamedAcl(
        RESOURCE_TYPE_NAMES[acl.resource_type],
        acl.resource_name,
        PATTERN_TYPE_NAMES[acl.pattern_type],
        acl.principal,
        acl.host,
        OPERATION_NAMES[acl.operation],
        PERMISSION_TYPE_NAMES[acl.permission_type],
    )


CODES: Final[Mapping[str, type[Code]]] = {
    "resource_type": ResourceType,
    "pattern_type": PatternType,
    "operation": Operation,
    "permission_type": PermissionType,
}
"""The fields of an ACL that are codes."""


def parse_acl(named: NamedAcl) -> Acl:
    """Return the ACL with these names. UNKNOWN gives the code 0, whatever the code was before."""
    return Acl(
        int(ResourceType[named.resource_type]),
        named.resource_name,
        int(PatternType[named.pattern_type]),
        named.principal,
        named.host,
        int(Operation[named.operation]),
        int(PermissionType[named.permission_type]),
    )
