"""An ACL with Kafka's names in place of its codes, as JSON documents have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from authorizerd.acl.model import Acl, Code, Operation, PatternType, PermissionType, ResourceType

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


def _names(codes: type[Code]) -> Mapping[int, str]:
    return {int(code): code.name for code in codes}


# Why tables? A listing has an answer for each ACL, and members of enums take longer to look up.
_UNKNOWN: Final = "UNKNOWN"
_RESOURCE_TYPES: Final = _names(ResourceType)
_PATTERN_TYPES: Final = _names(PatternType)
_OPERATIONS: Final = _names(Operation)
_PERMISSION_TYPES: Final = _names(PermissionType)


def name_acl(acl: Acl) -> NamedAcl:
    """Return an ACL with names instead of codes."""
    return NamedAcl(
        _RESOURCE_TYPES.get(acl.resource_type, _UNKNOWN),
        acl.resource_name,
        _PATTERN_TYPES.get(acl.pattern_type, _UNKNOWN),
        acl.principal,
        acl.host,
        _OPERATIONS.get(acl.operation, _UNKNOWN),
        _PERMISSION_TYPES.get(acl.permission_type, _UNKNOWN),
    )
