"""kafka-acls' flags for an ACL.

**Invariant:** a command with these flags affects exactly its ACL, whatever characters the names
contain. An ACL that kafka-acls cannot express is rejected, not approximated.

Source: Kafka 4.3 AclCommand, which trims names, principals and hosts.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from authorizerd.acl.errors import InvalidAclError
from authorizerd.acl.model import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.validation import validate_new_acl

_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))  # the characters that String.trim removes
RESOURCE_FLAGS: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
"""The types whose resources have names, by their flags without ``--``."""
_FLAGS: Final = {resource_type: f"--{flag}" for flag, resource_type in RESOURCE_FLAGS.items()}


def why_inexpressible(acl: Acl, *, removes: bool = False) -> str | None:
    """Return why kafka-acls cannot add or remove exactly ``acl``; None if it can.

    Args:
        removes: whether to remove it. ``authorizerd acls`` also removes an ACL whose principal has
            no colon.
    """
    is_removable = removes and ":" not in acl.principal
    try:
        validate_new_acl(replace(acl, principal=f":{acl.principal}") if is_removable else acl)
    except InvalidAclError as error:
        return str(error)
    resource_type = ResourceType(acl.resource_type)
    if acl.operation not in (Operation.ALL, *SUPPORTED[resource_type]):
        return f"kafka-acls does not accept {Operation(acl.operation).name} on {resource_type.name}"
    if resource_type == ResourceType.CLUSTER:
        if (acl.resource_name, acl.pattern_type) != (CLUSTER_NAME, PatternType.LITERAL):
            return f"kafka-acls only accepts the literal name {CLUSTER_NAME} for the cluster"
        texts: tuple[str, ...] = (acl.principal, acl.host)
    else:
        texts = (acl.resource_name, acl.principal, acl.host)
    if any("\0" in text for text in texts):
        return "a command line cannot contain the character NUL"
    if resource_type == ResourceType.TRANSACTIONAL_ID:
        texts = texts[1:]  # kafka-acls does not trim this name
    if any(text != text.strip(_JAVA_BLANKS) for text in texts):
        return "kafka-acls removes blanks at the ends of names"
    return None if acl.host else "kafka-acls does not accept an empty host"


def entry_arguments(acl: Acl) -> list[str]:
    """Return the flags after ``--add`` or ``--remove``, for an ACL that is expressible."""
    kind = "allow" if acl.permission_type == PermissionType.ALLOW else "deny"
    operation = Operation(acl.operation).name.title().replace("_", "")
    arguments = [f"--{kind}-principal", acl.principal, f"--{kind}-host", acl.host]
    arguments += ["--operation", operation]
    if acl.resource_type == ResourceType.CLUSTER:
        return [*arguments, "--cluster"]
    pattern_type = PatternType(acl.pattern_type).name.lower()
    flag = _FLAGS[ResourceType(acl.resource_type)]
    return [*arguments, flag, acl.resource_name, "--resource-pattern-type", pattern_type]
