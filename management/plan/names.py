"""ACLs in a plan: Kafka's names in capitals instead of codes.

**Invariant:** only ACLs that Kafka can create have names here, so every name has one code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

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

ResourceTypeName: TypeAlias = Literal[
    "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"
]
PatternTypeName: TypeAlias = Literal["LITERAL", "PREFIXED"]
PatternFilterName: TypeAlias = Literal["LITERAL", "PREFIXED", "ANY", "MATCH"]
OperationName: TypeAlias = Literal[
    "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
]  # fmt: skip
PermissionName: TypeAlias = Literal["ALLOW", "DENY"]


class PlannedAcl(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An ACL, with the fields of ``smallest_change.acl`` in explanations."""

    resource_type: ResourceTypeName
    resource_name: str
    pattern_type: PatternTypeName
    principal: str
    host: str
    operation: OperationName
    permission_type: PermissionName


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


def name_acl(acl: Acl) -> PlannedAcl:
    """Return an ACL with names. All its codes must be known (``has_known_codes``)."""
    return msgspec.convert(name_fields(acl), PlannedAcl)


def parse_acl(named: PlannedAcl) -> Acl:
    """Return the ACL with codes."""
    fields = msgspec.structs.asdict(named)
    return Acl(**fields | {field: int(codes[fields[field]]) for field, codes in CODES.items()})


_KNOWN: Final = (
    RESOURCE_TYPES,
    range(PatternType.LITERAL, PatternType.PREFIXED + 1),
    OPERATIONS,
    range(PermissionType.DENY, PermissionType.ALLOW + 1),
)


def has_known_codes(acl: Acl) -> bool:
    """Return True if this version knows every code of ``acl``, and it is not one of filters."""
    codes = (acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type)
    return all(code in known for code, known in zip(codes, _KNOWN, strict=True))
