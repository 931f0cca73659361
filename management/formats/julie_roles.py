"""The ACLs that Julie Ops creates for each role, and its file of custom roles.

With Julie's default configuration, a name of a group or a transactional id that ends with ``*`` is
a prefix; ``*`` alone is the wildcard. A custom role is a list of ACLs, whose names may have
placeholders. The custom roles are the second document of a text, after the topology. Julie itself
reads them from the file that ``julie.roles`` names.

Source: Julie Ops 4: AclsBindingsBuilder, which turns every ACL into an ALLOW, whatever its
permission type; Connector, SchemaRegistryInstance, KsqlServerInstance, JulieRoles, JulieAcl,
BuildBindingsForRole, Other.asMap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from authorizerd.acl.model import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.text.letter_case import ascii_upper
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.formats.values import (
    PATTERN_TYPES,
    AclShape,
    Value,
    allow,
    by_name,
    check_code,
    check_keys,
    check_list,
    check_text,
)
from authorizerd.management.formats.yaml_text import Node

_REGISTRY_OPERATIONS: Final = (
    Operation.CREATE,
    Operation.DESCRIBE_CONFIGS,
    Operation.DESCRIBE,
    Operation.WRITE,
    Operation.READ,
)


def _allow_pattern(
    principal: str, operation: Operation, resource_type: ResourceType, pattern: str
) -> Acl:
    if pattern.endswith(WILDCARD) and pattern != WILDCARD:
        prefix = pattern.removesuffix(WILDCARD)
        return allow(principal, operation, resource_type, prefix, PatternType.PREFIXED)
    return allow(principal, operation, resource_type, pattern)


def _allow_prefix(principal: str, operation: Operation, kind: ResourceType, prefix: str) -> Acl:
    return allow(principal, operation, kind, prefix, PatternType.PREFIXED)


def consume(principal: str, topic: str, group: str) -> Iterator[Acl]:
    yield allow(principal, Operation.DESCRIBE, ResourceType.TOPIC, topic)
    yield allow(principal, Operation.READ, ResourceType.TOPIC, topic)
    yield _allow_pattern(principal, Operation.READ, ResourceType.GROUP, group)


def produce(
    principal: str, topic: str, transactional_id: str | None, is_idempotent: bool
) -> Iterator[Acl]:
    """Yield the ACLs of a producer to one topic."""
    yield allow(principal, Operation.DESCRIBE, ResourceType.TOPIC, topic)
    yield allow(principal, Operation.WRITE, ResourceType.TOPIC, topic)
    if transactional_id is not None:
        for operation in (Operation.DESCRIBE, Operation.WRITE):
            kind = ResourceType.TRANSACTIONAL_ID
            yield _allow_pattern(principal, operation, kind, transactional_id)
    if transactional_id is not None or is_idempotent:
        yield allow(principal, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)


def _use_topics(principal: str, read: Iterable[str], written: Iterable[str]) -> Iterator[Acl]:
    for topic in read:
        yield allow(principal, Operation.READ, ResourceType.TOPIC, topic)
    for topic in written:
        yield allow(principal, Operation.WRITE, ResourceType.TOPIC, topic)


def stream(
    principal: str, prefix: str, read: Iterable[str], written: Iterable[str], is_exactly_once: bool
) -> Iterator[Acl]:
    yield from _use_topics(principal, read, written)
    yield _allow_prefix(principal, Operation.ALL, ResourceType.TOPIC, prefix)
    yield _allow_prefix(principal, Operation.READ, ResourceType.GROUP, prefix)
    if is_exactly_once:
        for operation in (Operation.WRITE, Operation.DESCRIBE):
            yield _allow_prefix(principal, operation, ResourceType.TRANSACTIONAL_ID, prefix)


def run_ksql_application(
    principal: str, prefix: str, read: Iterable[str], written: Iterable[str]
) -> Iterator[Acl]:
    yield from _use_topics(principal, read, written)
    yield _allow_prefix(principal, Operation.ALL, ResourceType.TOPIC, prefix)
    yield _allow_prefix(principal, Operation.ALL, ResourceType.GROUP, prefix)


def connect(
    principal: str,
    own_topics: Sequence[str],
    group: str,
    read: Iterable[str],
    written: Iterable[str],
) -> Iterator[Acl]:
    """Yield the ACLs of a connector; ``own_topics`` are those of status, offsets and configs."""
    yield from _use_topics(principal, own_topics, own_topics)
    yield allow(principal, Operation.CREATE, ResourceType.CLUSTER)
    yield allow(principal, Operation.READ, ResourceType.GROUP, group)
    yield from _use_topics(principal, read, written)


def run_schema_registry(
    principal: str, topic: str, offsets_topic: str, group: str
) -> Iterator[Acl]:
    for operation in _REGISTRY_OPERATIONS:
        yield allow(principal, operation, ResourceType.TOPIC, topic)
    yield allow(principal, Operation.DESCRIBE, ResourceType.TOPIC, offsets_topic)
    yield allow(principal, Operation.READ, ResourceType.GROUP, group)


def run_ksql_server(principal: str, name: str) -> Iterator[Acl]:
    prefix = f"_confluent-ksql-{name}"
    yield allow(principal, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
    yield _allow_prefix(principal, Operation.ALL, ResourceType.TOPIC, prefix)
    yield allow(principal, Operation.ALL, ResourceType.TOPIC, f"{name}ksql_processing_log")
    yield _allow_prefix(principal, Operation.ALL, ResourceType.GROUP, prefix)


USER_KEYS: Final = ("topic", "group", "subject", "connector", "transactionId", "idempotence")
"""The keys of a principal with a custom role."""

_PLACEHOLDER: Final = re.compile(r"\{\{\s*(topic|group|subject|connector|transactionId)\s*\}\}")
_TEMPLATE: Final = re.compile(r"\{[{%#]")
_REQUIRED: Final = ("resourceType", "resourceName", "patternType", "host")
_NEWER: Final = "Julie Ops does not know the operation TWO_PHASE_COMMIT"
_ALLOW: Final = int(PermissionType.ALLOW)
_SHAPE: Final = AclShape(
    {
        "resourceType": "resource_type",
        "resourceName": "resource_name",
        "patternType": "pattern_type",
        "host": "host",
        "operation": "operation",
        "permissionType": "permission_type",
    },
    {"pattern_type": by_name(*PATTERN_TYPES)},
)


CustomRoles: TypeAlias = Mapping[str, Sequence[Acl]]
"""The ACLs of each role, by its name, without a principal. Names may have placeholders."""


def read_roles(place: str, value: Value) -> CustomRoles:
    check_keys(place, value, required=("roles",))
    roles: dict[str, list[Acl]] = {}
    for role_place, role in check_list(f"{place}.roles", value["roles"], "roles"):
        check_keys(role_place, role, required=("name", "acls"))
        name = check_text(f"{role_place}.name", role["name"])
        if name in roles:
            raise AclTextError(role_place, f"repeats the role {name}")
        items = check_list(f"{role_place}.acls", role["acls"], "ACLs")
        roles[name] = [_read_acl(*item) for item in items]
    return roles


def _read_acl(place: str, value: Value) -> Acl:
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
    return _SHAPE.read(place, value, operation=int(operation), permission_type=_ALLOW, principal="")


def fill_in(
    acls: Sequence[Acl], place: str, principal: str, fields: Mapping[str, Value]
) -> Iterator[Acl]:
    """Yield the ACLs of a principal with a role.

    Args:
        fields: the principal's fields in the topology; ``place`` is their place.
    """
    values = {"topic": "", "group": WILDCARD, "subject": "", "connector": "", "transactionId": ""}
    for key in values.keys() & fields.keys():
        values[key] = check_text(f"{place}.{key}", fields[key])
        if _TEMPLATE.search(values[key]):
            raise AclTextError(f"{place}.{key}", f"expected no template, found {values[key]!r}")
    for acl in acls:
        name = _PLACEHOLDER.sub(lambda found: values[found[1]], acl.resource_name)
        yield replace(acl, resource_name=name, principal=principal)


def why_not_custom(acl: Acl) -> str | None:
    """Return why no custom role can have ``acl``, a valid ALLOW; None if a role can."""
    if acl.operation == Operation.TWO_PHASE_COMMIT:
        return _NEWER
    if _TEMPLATE.search(acl.resource_name):
        return "Julie reads names with {{, {% or {# as templates"
    if "\n" in acl.resource_name or "\r" in acl.resource_name:
        return "Julie's templates change line breaks in names"
    return None


def make_role(name: str, acls: Sequence[Acl]) -> Node:
    """Return a role with exactly these ACLs, in the form of the file of roles."""
    return {"name": name, "acls": [{**_SHAPE.write(acl)} for acl in acls]}
