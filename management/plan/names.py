"""The names of Kafka's codes in plans, and the conversion between ACLs with names and with
codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from authorizerd.acl.model import (
    OPERATIONS,
    RESOURCE_TYPES,
    Acl,
    Code,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.text.named_acl import NamedAcl

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


CODES: Final[Mapping[str, type[Code]]] = {
    "resource_type": ResourceType,
    "pattern_type": PatternType,
    "operation": Operation,
    "permission_type": PermissionType,
}
"""The fields of an ACL that are codes."""


def name_fields(acl: Acl) -> dict[str, str]:
    """Return the fields of an ACL, with Kafka's names for its codes, which must be known."""
    fields: dict[str, Any] = msgspec.structs.asdict(acl)
    return fields | {field: codes(fields[field]).name for field, codes in CODES.items()}


def parse_acl(named: NamedAcl) -> Acl:
    fields = msgspec.structs.asdict(named)
    return Acl(**fields | {field: int(codes[fields[field]]) for field, codes in CODES.items()})


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
