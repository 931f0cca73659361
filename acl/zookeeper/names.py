"""Kafka's spellings of codes in ZooKeeper: TransactionalId, Read, Allow.

**Invariant:** each spelling that is written is read back as the same code. A spelling that Kafka
would read as UNKNOWN is not read at all.

Source: Kafka 3.9 SecurityUtils.toPascalCase and valueFromMap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from authorizerd.acl.letter_case import ascii_upper
from authorizerd.acl.model import (
    OPERATIONS,
    RESOURCE_TYPES,
    Operation,
    PermissionType,
    ResourceType,
)

AnyCode = TypeVar("AnyCode", ResourceType, Operation, PermissionType)


def _spell(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


RESOURCE_TYPE_NAMES: Final[Mapping[ResourceType, str]] = {
    ResourceType(code): _spell(ResourceType(code).name) for code in RESOURCE_TYPES
}
OPERATION_NAMES: Final[Mapping[Operation, str]] = {
    Operation(code): _spell(Operation(code).name) for code in OPERATIONS
}
PERMISSION_TYPE_NAMES: Final[Mapping[PermissionType, str]] = {
    code: _spell(code.name) for code in (PermissionType.DENY, PermissionType.ALLOW)
}

# The names of directories must match exactly: Kafka lists them, but then reads its own spelling.
RESOURCE_TYPES_BY_NAME: Final = {name: code for code, name in RESOURCE_TYPE_NAMES.items()}
_OPERATIONS: Final = {ascii_upper(name): code for code, name in OPERATION_NAMES.items()}
_PERMISSION_TYPES: Final = {ascii_upper(name): code for code, name in PERMISSION_TYPE_NAMES.items()}


def read_operation(text: str) -> Operation | None:
    """Return the operation with this spelling, in any case as in Kafka; None if there is none."""
    return _OPERATIONS.get(ascii_upper(text))


def read_permission_type(text: str) -> PermissionType | None:
    """Return the permission type with this spelling, in any case; None if there is none."""
    return _PERMISSION_TYPES.get(ascii_upper(text))
