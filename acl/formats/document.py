"""ACLs in a YAML or JSON document of a small, strict form.

    acls:
      - principal: User:alice
        host: 10.0.0.7            # default: every host, "*"
        operation: [READ, WRITE]  # one, or a list
        permission_type: ALLOW
        resource_type: TOPIC
        resource_name: orders
        pattern_type: PREFIXED    # default: LITERAL

The optional block ``manages`` (see ``managed``) says which other ACLs a plan may remove.
A written document has one entry for each principal, resource pattern, host and permission, sorted
in this order, so that two documents differ only where their ACLs do.

**Invariant:** nothing is guessed. An unknown key, a value of the wrong type, a repeated key or ACL,
and an ACL that Kafka would reject are errors that name their place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from authorizerd.acl.formats.limits import check_creatable, why_not_creatable
from authorizerd.acl.formats.managed import MANAGES, read_managed
from authorizerd.acl.formats.model import AclsRead, AclsWritten, AclTextError
from authorizerd.acl.formats.parsing import parse_json, parse_yaml
from authorizerd.acl.formats.values import (
    DOCUMENT,
    Value,
    check_code,
    check_keys,
    check_list,
    check_text,
)
from authorizerd.acl.formats.writing import keep_writable
from authorizerd.acl.formats.yaml_text import Node, write_yaml
from authorizerd.acl.model import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)

_REQUIRED: Final = (
    "principal",
    "operation",
    "permission_type",
    "resource_type",
    "resource_name",
)
_OPTIONAL: Final = {"host": WILDCARD, "pattern_type": "LITERAL"}


def read_yaml(text: str) -> AclsRead:
    """Return the ACLs of a YAML document.

    Raises:
        AclTextError: the text is not YAML, or does not have the form above.
    """
    return _read(parse_yaml(text))


def read_json(text: str) -> AclsRead:
    """Return the ACLs of a JSON document.

    Raises:
        AclTextError: the text is not JSON, or does not have the form above.
    """
    return _read(parse_json(text))


def _read(value: Value) -> AclsRead:
    acls = tuple(read_document(value))
    return AclsRead(acls, scope=read_managed(value))


def write_yaml_document(acls: Sequence[Acl]) -> AclsWritten:
    """Return the ACLs as YAML. The losses are those that Kafka cannot create."""
    kept, losses = keep_writable(acls, why_not_creatable)
    return AclsWritten(write_yaml(make_document(kept)), losses)


def write_json_document(acls: Sequence[Acl]) -> AclsWritten:
    """Return the ACLs as JSON. The losses are those that Kafka cannot create."""
    kept, losses = keep_writable(acls, why_not_creatable)
    text = json.dumps(make_document(kept), indent=2, ensure_ascii=False)
    return AclsWritten(f"{text}\n", losses)


def read_document(value: Value) -> Iterator[Acl]:
    """Yield the ACLs of a parsed document, in its order.

    Raises:
        AclTextError: the document does not have the form above.
    """
    check_keys(DOCUMENT, value, required=("acls",), optional=(MANAGES,))
    places: dict[Acl, str] = {}
    for place, entry in check_list("acls", value["acls"], "ACLs"):
        for acl in read_entry(place, entry):
            if acl in places:
                raise AclTextError(place, f"repeats {places[acl]}: {acl}")
            places[acl] = place
            yield acl


def read_entry(place: str, entry: Value) -> Iterator[Acl]:
    """Yield the ACLs of one entry, one for each operation.

    Raises:
        AclTextError: the entry does not have the form above.
    """
    check_keys(place, entry, required=_REQUIRED, optional=_OPTIONAL)
    fields: Mapping[str, Value] = {**_OPTIONAL, **entry}
    for operation_place, operation in _operations_of(place, fields["operation"]):
        acl = Acl(
            int(check_code(f"{place}.resource_type", fields["resource_type"], ResourceType)),
            check_text(f"{place}.resource_name", fields["resource_name"]),
            int(check_code(f"{place}.pattern_type", fields["pattern_type"], PatternType)),
            check_text(f"{place}.principal", fields["principal"]),
            check_text(f"{place}.host", fields["host"]),
            int(check_code(operation_place, operation, Operation)),
            int(check_code(f"{place}.permission_type", fields["permission_type"], PermissionType)),
        )
        yield check_creatable(place, acl)


def _operations_of(place: str, value: Value) -> Iterable[tuple[str, Value]]:
    """Return each operation of an entry, with its place."""
    place = f"{place}.operation"
    if not isinstance(value, list):
        return [(place, value)]
    if not value:
        raise AclTextError(place, "expected at least one operation, found an empty list")
    return check_list(place, value, "operations")


def make_document(acls: Sequence[Acl]) -> dict[str, Node]:
    """Return the document of ACLs that Kafka can create."""
    entries: list[Node] = []
    ordered = sorted(set(acls), key=lambda acl: (_entry_of(acl), acl.operation))
    for entry, group in groupby(ordered, key=_entry_of):
        principal, resource_type, resource_name, pattern_type, host, permission_type = entry
        fields: dict[str, Node] = {
            "principal": principal,
            "host": host,
            "operation": [Operation(acl.operation).name for acl in group],
            "permission_type": PermissionType(permission_type).name,
            "resource_type": ResourceType(resource_type).name,
            "resource_name": resource_name,
            "pattern_type": PatternType(pattern_type).name,
        }
        entries.append({key: value for key, value in fields.items() if value != _OPTIONAL.get(key)})
    return {"acls": entries}


def _entry_of(acl: Acl) -> tuple[str, int, str, int, str, int]:
    """Return the fields that the ACLs of one entry share."""
    return (
        acl.principal,
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.host,
        acl.permission_type,
    )
