"""An ACL in JSON, with Kafka's names in place of its codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from authorizerd.acl.model import Acl, Code, Operation, PatternType, PermissionType, ResourceType


class AclAnswer(msgspec.Struct, frozen=True, gc=False):
    """An ACL, with Kafka's names in capitals. A code of a later Kafka version reads UNKNOWN."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission_type: str


def _names(codes: type[Code]) -> Mapping[int, str]:
    return {int(code): code.name for code in codes}


# Why tables? A listing has an answer for each ACL, and members of enums take longer to look up.
_UNKNOWN: Final = "UNKNOWN"
_RESOURCE_TYPES: Final = _names(ResourceType)
_PATTERN_TYPES: Final = _names(PatternType)
_OPERATIONS: Final = _names(Operation)
_PERMISSION_TYPES: Final = _names(PermissionType)


def make_acl_answer(acl: Acl) -> AclAnswer:
    """Return an ACL with names instead of codes."""
    return AclAnswer(
        _RESOURCE_TYPES.get(acl.resource_type, _UNKNOWN),
        acl.resource_name,
        _PATTERN_TYPES.get(acl.pattern_type, _UNKNOWN),
        acl.principal,
        acl.host,
        _OPERATIONS.get(acl.operation, _UNKNOWN),
        _PERMISSION_TYPES.get(acl.permission_type, _UNKNOWN),
    )
