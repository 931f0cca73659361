"""The names of Kafka's codes in plans, and the ACLs whose codes have names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from authorizerd.acl.model import (
    OPERATIONS,
    RESOURCE_TYPES,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.text.named_acl import CODES

if TYPE_CHECKING:
    ResourceTypeName: TypeAlias = str
    PatternFilterName: TypeAlias = str
    OperationName: TypeAlias = str
    PermissionName: TypeAlias = str
else:
    ResourceTypeName = Literal[tuple(ResourceType(code).name for code in RESOURCE_TYPES)]
    PatternFilterName = Literal[tuple(code.name for code in PatternType if code)]
    OperationName = Literal[tuple(Operation(code).name for code in OPERATIONS)]
    PermissionName = Literal["ALLOW", "DENY"]


def name_fields(acl: Acl) -> dict[str, str]:
    """Return the fields of an ACL, with Kafka's names for its codes, which must be known."""
    fields: dict[str, Any] = msgspec.structs.asdict(acl)
    return fields | {field: codes(fields[field]).name for field, codes in CODES.items()}


_KNOWN: Final = (
    RESOURCE_TYPES,
    range(PatternType.LITERAL, PatternType.PREFIXED + 1),
    OPERATIONS,
    range(PermissionType.DENY, PermissionType.ALLOW + 1),
)


def has_known_codes(acl: Acl) -> bool:
    """Return True if this version knows every code of ``acl``, and none is only for filters."""
    codes = (acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type)
    return all(code in known for code, known in zip(codes, _KNOWN, strict=True))
