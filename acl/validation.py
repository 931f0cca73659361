"""What Kafka refuses in a creation or a filter, with Kafka's own texts.

Source: Kafka 4.3 AclApis.handleCreateAcls (``validate_resource``), AclControlManager.validateNewAcl
and validateFilter.
"""

from __future__ import annotations

from acl.errors import InvalidAclError
from acl.model import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)


def validate_resource(acl: Acl) -> None:
    """Check what a broker checks of a creation before its authorizer sees it.

    Raises:
        InvalidAclError: Kafka's INVALID_REQUEST, with its text.
    """
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise InvalidAclError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise InvalidAclError("Invalid empty resource name")


def validate_new_acl(acl: Acl) -> None:
    """Check a binding as Kafka's controller does.

    Raises:
        InvalidAclError: Kafka's INVALID_REQUEST, with its text.
    """
    resource_type = ResourceType.read(acl.resource_type)
    if resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise InvalidAclError(f"Invalid resourceType {resource_type.name}")
    pattern_type = PatternType.read(acl.pattern_type)
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidAclError(f"Invalid patternType {pattern_type.name}")
    operation = Operation.read(acl.operation)
    if operation in (Operation.UNKNOWN, Operation.ANY):
        raise InvalidAclError(f"Invalid operation {operation.name}")
    permission_type = PermissionType.read(acl.permission_type)
    if permission_type not in (PermissionType.DENY, PermissionType.ALLOW):
        raise InvalidAclError(f"Invalid permissionType {permission_type.name}")
    if not acl.resource_name:
        raise InvalidAclError("Resource name should not be empty")
    if ":" not in acl.principal:
        raise InvalidAclError(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )


def validate_filter(filter: AclFilter) -> None:
    """Check a filter of a describe or delete.

    Raises:
        InvalidAclError: Kafka's INVALID_REQUEST, with its text.
    """
    if not (ResourceType.read(filter.resource_type) and PatternType.read(filter.pattern_type)):
        raise InvalidAclError("Unknown patternFilter.")
    if not (Operation.read(filter.operation) and PermissionType.read(filter.permission_type)):
        raise InvalidAclError("Unknown entryFilter.")
