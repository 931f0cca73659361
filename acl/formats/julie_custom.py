"""Julie Ops' file of custom roles: each is a list of ACLs, whose names may have placeholders.

The file is the second document of a text, after the topology. Julie itself reads it from the place
that its configuration ``julie.roles`` names.

Source: Julie Ops 4: JulieRoles, JulieRoleAcl, BuildBindingsForRole, Other.asMap, and
AclsBindingsBuilder, which makes an ALLOW of every ACL, whatever its permission type is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from authorizerd.acl.formats.model import AclTextError
from authorizerd.acl.formats.values import (
    Value,
    check_code,
    check_keys,
    check_list,
    check_text,
    check_word,
)
from authorizerd.acl.formats.yaml_text import Node
from authorizerd.acl.letter_case import ascii_upper
from authorizerd.acl.model import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)

USER_KEYS: Final = ("topic", "group", "subject", "connector", "transactionId", "idempotence")
"""The keys of a principal with a custom role."""

_PLACEHOLDER: Final = re.compile(r"\{\{\s*(topic|group|subject|connector|transactionId)\s*\}\}")
_TEMPLATE: Final = re.compile(r"\{[{%#]")
_REQUIRED: Final = ("resourceType", "resourceName", "patternType", "host")
_NEWER: Final = "Julie Ops does not know the operation TWO_PHASE_COMMIT"
_PATTERN_TYPES: Final = {each.name: each for each in (PatternType.LITERAL, PatternType.PREFIXED)}


class RoleAcl(NamedTuple):
    """An ACL of a role, without its principal; ``name`` may have placeholders."""

    place: str
    resource_type: int
    name: str
    pattern_type: int
    host: str
    operation: int


CustomRoles: TypeAlias = Mapping[str, Sequence[RoleAcl]]
"""The ACLs of each role, by its name."""


def read_roles(place: str, value: Value) -> CustomRoles:
    """Return the roles of the parsed file.

    Raises:
        AclTextError: it has another form, or a role would not have the permission that it says.
    """
    check_keys(place, value, required=("roles",))
    roles: dict[str, list[RoleAcl]] = {}
    for role_place, role in check_list(f"{place}.roles", value["roles"], "roles"):
        check_keys(role_place, role, required=("name", "acls"))
        name = check_text(f"{role_place}.name", role["name"])
        if name in roles:
            raise AclTextError(role_place, f"repeats the role {name}")
        items = check_list(f"{role_place}.acls", role["acls"], "ACLs")
        roles[name] = [_read_acl(*item) for item in items]
    return roles


def _read_acl(place: str, value: Value) -> RoleAcl:
    check_keys(place, value, required=_REQUIRED, optional=("operation", "role", "permissionType"))
    permission_type = check_text(f"{place}.permissionType", value.get("permissionType", "ALLOW"))
    if ascii_upper(permission_type) != PermissionType.ALLOW.name:
        raise AclTextError(
            f"{place}.permissionType",
            f"expected ALLOW, found {permission_type!r}: Julie would allow it",
        )
    key = "operation" if "operation" in value else "role"
    name = check_text(f"{place}.resourceName", value["resourceName"])
    if _TEMPLATE.search(_PLACEHOLDER.sub("-", name)):
        raise AclTextError(
            f"{place}.resourceName",
            f"expected only placeholders such as {{{{topic}}}}, found {name[:80]!r}",
        )
    operation = check_code(f"{place}.{key}", value.get(key), Operation)
    if operation == Operation.TWO_PHASE_COMMIT:
        raise AclTextError(f"{place}.{key}", _NEWER)
    return RoleAcl(
        place,
        int(check_code(f"{place}.resourceType", value["resourceType"], ResourceType)),
        name,
        int(check_word(f"{place}.patternType", value["patternType"], _PATTERN_TYPES)),
        check_text(f"{place}.host", value["host"]),
        int(operation),
    )


def fill_in(
    acls: Sequence[RoleAcl], place: str, principal: str, fields: Mapping[str, Value]
) -> Iterator[Acl]:
    """Yield the ACLs of a principal with a role.

    Args:
        fields: of the principal in the topology; ``place`` is where they are.

    Raises:
        AclTextError: a field has another type, or is a template itself.
    """
    values = {"topic": "", "group": WILDCARD, "subject": "", "connector": "", "transactionId": ""}
    for key in values.keys() & fields.keys():
        values[key] = check_text(f"{place}.{key}", fields[key])
        if _TEMPLATE.search(values[key]):
            raise AclTextError(f"{place}.{key}", f"expected no template, found {values[key]!r}")
    for acl in acls:
        name = _PLACEHOLDER.sub(lambda found: values[found[1]], acl.name)
        yield Acl(
            acl.resource_type,
            name,
            acl.pattern_type,
            principal,
            acl.host,
            acl.operation,
            int(PermissionType.ALLOW),
        )


def why_not_custom(acl: Acl) -> str | None:
    """Return why no custom role can have ``acl``, an ALLOW that Kafka accepts; None if one can."""
    if acl.operation == Operation.TWO_PHASE_COMMIT:
        return _NEWER
    if _TEMPLATE.search(acl.resource_name):
        return "Julie reads names with {{, {% or {# as templates"
    if "\n" in acl.resource_name or "\r" in acl.resource_name:
        return "Julie's templates change line breaks in names"
    return None


def make_role(name: str, acls: Sequence[Acl]) -> Node:
    """Return a role with exactly these ACLs, as the file of roles has it."""
    return {
        "name": name,
        "acls": [
            {
                "resourceType": ResourceType(acl.resource_type).name,
                "resourceName": acl.resource_name,
                "patternType": PatternType(acl.pattern_type).name,
                "host": acl.host,
                "operation": Operation(acl.operation).name,
                "permissionType": PermissionType.ALLOW.name,
            }
            for acl in acls
        ],
    }
