"""What Kafka accepts as an ACL, and what tools of the time before Kafka 3 know."""

from __future__ import annotations

from typing import Final

from authorizerd.acl.errors import InvalidAclError
from authorizerd.acl.formats.model import AclTextError
from authorizerd.acl.model import Acl, Code, Operation, ResourceType
from authorizerd.acl.validation import validate_new_acl, validate_resource

OLD_OPERATIONS: Final = tuple(
    map(Operation, range(Operation.ALL, Operation.IDEMPOTENT_WRITE + 1)),
)
"""The operations before Kafka 3.3, which added those on users."""
OLD_RESOURCE_TYPES: Final = tuple(
    map(ResourceType, range(ResourceType.TOPIC, ResourceType.DELEGATION_TOKEN + 1)),
)
"""The resource types before Kafka 3.3, which added USER."""


def why_not_creatable(acl: Acl) -> str | None:
    """Return why Kafka would refuse to create ``acl``; None if it would not.

    Such ACLs can be in a log, from a newer Kafka version or from its earliest releases.
    """
    try:
        validate_resource(acl)
        validate_new_acl(acl)
    except InvalidAclError as error:
        return f"Kafka does not accept such an ACL: {error}"
    return None


def check_creatable(place: str, acl: Acl) -> Acl:
    """Return ``acl``, if Kafka would create it.

    Raises:
        AclTextError: it would not.
    """
    try:
        validate_resource(acl)
        validate_new_acl(acl)
    except InvalidAclError as error:
        raise AclTextError(place, str(error)) from error
    return acl


def why_not_old(acl: Acl, tool: str) -> str | None:
    """Return why a tool without the additions of Kafka 3.3 cannot say ``acl``; None if it can."""
    if acl.resource_type not in OLD_RESOURCE_TYPES:
        return f"{tool} does not know the resource type {ResourceType.read(acl.resource_type).name}"
    if acl.operation not in OLD_OPERATIONS:
        return f"{tool} does not know the operation {Operation.read(acl.operation).name}"
    return None


def spell(code: Code) -> str:
    """Return the name of a code as many tools spell it: ``AlterConfigs``."""
    return code.name.title().replace("_", "")
