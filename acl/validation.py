"""Validate creations and filters, with Kafka's own error texts.

Source: Kafka 4.3 AclApis.handleCreateAcls (``validate_resource``), AclControlManager.validateNewAcl
and validateFilter; Kafka 4.4 AclControlManager.validateHostPattern.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from authorizerd.acl.errors import InvalidAclError, UnsupportedAclError
from authorizerd.acl.host_ranges import InvalidRangeError, read_range
from authorizerd.acl.model import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.releases import ReleaseRules

_RESOURCE_TYPES: Final = frozenset(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}
_PATTERN_TYPES: Final = frozenset((PatternType.LITERAL, PatternType.PREFIXED))
_OPERATIONS: Final = frozenset(Operation) - {Operation.UNKNOWN, Operation.ANY}
_PERMISSION_TYPES: Final = frozenset((PermissionType.DENY, PermissionType.ALLOW))


def validate_resource(acl: Acl) -> None:
    """Do a broker's checks of a creation, which precede the call of its authorizer.

    Raises:
        InvalidAclError: Kafka's INVALID_REQUEST, with its text.
    """
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise InvalidAclError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise InvalidAclError("Invalid empty resource name")


def find_creation_fault(acl: Acl) -> str | None:
    """Return why Kafka would refuse to create ``acl``; None if it would not."""
    try:
        validate_resource(acl)
        validate_new_acl(acl)
    except InvalidAclError as error:
        return str(error)
    return None


def validate_new_acl(acl: Acl, rules: ReleaseRules | None = None) -> None:
    """Check a binding as Kafka's controller does.

    Args:
        rules: those of the release that creates it. None accepts whatever any release accepts.

    Raises:
        InvalidAclError: Kafka's INVALID_REQUEST, with its text.
        UnsupportedAclError: Kafka's UNSUPPORTED_VERSION, with its text.
    """
    if acl.resource_type not in _RESOURCE_TYPES:
        raise _invalid("resourceType", ResourceType.read(acl.resource_type))
    if acl.pattern_type not in _PATTERN_TYPES:
        raise _invalid("patternType", PatternType.read(acl.pattern_type))
    if acl.operation not in _OPERATIONS:
        raise _invalid("operation", Operation.read(acl.operation))
    if acl.permission_type not in _PERMISSION_TYPES:
        raise _invalid("permissionType", PermissionType.read(acl.permission_type))
    if not acl.resource_name:
        raise InvalidAclError("Resource name should not be empty")
    if ":" not in acl.principal:
        raise InvalidAclError(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )
    if rules is not None and rules.range_denies:
        _validate_host(acl.host, rules)


def _validate_host(host: str, rules: ReleaseRules) -> None:
    if not host:
        raise InvalidAclError("Host pattern cannot be null or empty")
    if "/" not in host:
        return
    if not rules.can_create_ranges:
        raise UnsupportedAclError(
            "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
        )
    try:
        read_range(host)
    except InvalidRangeError as error:
        raise InvalidAclError(f"Invalid CIDR notation '{host}': {error}") from error


def _invalid(field: str, code: IntEnum) -> InvalidAclError:
    return InvalidAclError(f"Invalid {field} {code.name}")


def validate_filter(filter: AclFilter) -> None:
    """Check a filter of a describe or delete.

    Raises:
        InvalidAclError: Kafka's INVALID_REQUEST, with its text.
    """
    if not (ResourceType.read(filter.resource_type) and PatternType.read(filter.pattern_type)):
        raise InvalidAclError("Unknown patternFilter.")
    if not (Operation.read(filter.operation) and PermissionType.read(filter.permission_type)):
        raise InvalidAclError("Unknown entryFilter.")
