"""ACLs in a YAML or JSON document of a small, strict form.

    manages:                      # optional: the other ACLs that a plan may remove
      - principal_prefix: "User:team-a-"
      - resource_type: TOPIC      # the fields of an entry narrow each other
        resource_name_prefix: team-a.
    acls:
      - principal: User:alice
        host: 10.0.0.7            # default: every host, "*"
        operation: [READ, WRITE]  # one, or a list
        permission_type: ALLOW
        resource_type: TOPIC
        resource_name: orders
        pattern_type: PREFIXED    # default: LITERAL

A written document has one entry for each principal, resource pattern, host and permission, sorted
in this order, so that two documents differ only where their ACLs do.

In lines of JSON, as the web console downloads them, each line is an entry, and an ACL may be
repeated.

**Invariant:** nothing is guessed. An unknown key, a value of the wrong type, a repeated key or ACL,
an ACL that Kafka would reject, and an empty or contradictory entry of ``manages`` are errors that
name their place. So no typo makes a plan manage more than it should.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import msgspec
from msgspec.structs import astuple

from authorizerd.acl.model import WILDCARD, Acl, Operation
from authorizerd.acl.text.named_acl import CODES, name_acl
from authorizerd.management.formats import values
from authorizerd.management.formats.model import AclsRead, AclsWritten, AclTextError, Scope
from authorizerd.management.formats.parsing import parse_json, parse_yaml
from authorizerd.management.formats.yaml_text import Node, write_yaml
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.selector import Managed, check_entry

MANAGES: Final = "manages"


def read_managed(document: dict[str, values.Value]) -> Scope | None:
    """Return what a document manages; None (everything) without the block."""
    if MANAGES not in document:
        return None
    entries = tuple(
        _read_entry(place, entry)
        for place, entry in values.check_list(MANAGES, document[MANAGES], "entries")
    )
    if not entries:
        raise AclTextError(
            MANAGES,
            "expected at least one entry, found none: without the block, all ACLs are managed",
        )
    return Scope(entries=entries)


def _read_entry(place: str, entry: values.Value) -> Managed:
    values.check_keys(place, entry, required=(), optional=Managed.__struct_fields__)
    fields = {
        name: values.check_code(f"{place}.{name}", value, CODES[name]).name
        if name in CODES
        else values.check_text(f"{place}.{name}", value)
        for name, value in entry.items()
    }
    try:
        managed = msgspec.convert(fields, Managed)
        check_entry(managed, place)
    except msgspec.ValidationError as error:  # UNKNOWN, or ANY where it has no meaning
        raise AclTextError(place, str(error)) from error
    except PlanError as error:
        raise AclTextError(error.place, error.reason) from error
    return managed


_SHAPE: Final = values.AclShape(
    {
        field: field
        for field in (
            *("principal", "host", "operation", "permission_type"),
            *("resource_type", "resource_name", "pattern_type"),
        )
    }
)
_OPTIONAL: Final = {"host": WILDCARD, "pattern_type": "LITERAL"}
_REQUIRED: Final = ("principal", "operation", "permission_type", "resource_type", "resource_name")


def read_yaml(text: str) -> AclsRead:
    """Return the ACLs of a YAML document."""
    return _read(parse_yaml(text))


def read_json(text: str) -> AclsRead:
    """Return the ACLs of a JSON document."""
    return _read(parse_json(text))


def _read(value: values.Value) -> AclsRead:
    acls = tuple(read_document(value))
    return AclsRead(acls, scope=read_managed(value))


def write_yaml_document(acls: Sequence[Acl]) -> AclsWritten:
    """Return the ACLs as YAML. The losses are ACLs that Kafka cannot create."""
    kept, losses = values.keep_writable(acls, values.why_not_creatable)
    return AclsWritten(write_yaml(make_document(kept)), losses)


def write_json_document(acls: Sequence[Acl]) -> AclsWritten:
    """Return the ACLs as JSON. The losses are ACLs that Kafka cannot create."""
    kept, losses = values.keep_writable(acls, values.why_not_creatable)
    text = json.dumps(make_document(kept), indent=2, ensure_ascii=False)
    return AclsWritten(f"{text}\n", losses)


def read_document(value: values.Value) -> Iterator[Acl]:
    """Yield the ACLs of a parsed document, in its order."""
    values.check_keys(values.DOCUMENT, value, required=("acls",), optional=(MANAGES,))
    places: dict[Acl, str] = {}
    for place, entry in values.check_list("acls", value["acls"], "ACLs"):
        for acl in read_entry(place, entry):
            if acl in places:
                raise AclTextError(place, f"repeats {places[acl]}: {acl}")
            places[acl] = place
            yield acl


def read_entry(place: str, entry: values.Value) -> Iterator[Acl]:
    """Yield the ACLs of one entry, one for each operation."""
    values.check_keys(place, entry, required=_REQUIRED, optional=_OPTIONAL)
    fields: Mapping[str, values.Value] = {**_OPTIONAL, **entry}
    for operation_place, operation in _operations_of(place, fields["operation"]):
        code = int(values.check_code(operation_place, operation, Operation))
        yield values.check_creatable(place, _SHAPE.read(place, fields, operation=code))


def _operations_of(place: str, value: values.Value) -> Iterable[tuple[str, values.Value]]:
    """Return each operation of an entry, with its place."""
    place = f"{place}.operation"
    if not isinstance(value, list):
        return [(place, value)]
    if not value:
        raise AclTextError(place, "expected at least one operation, found an empty list")
    return values.check_list(place, value, "operations")


def make_document(acls: Sequence[Acl]) -> dict[str, Node]:
    """Return the document of ACLs that Kafka can create."""
    entries: list[Node] = []
    ordered = sorted(set(acls), key=lambda acl: (_entry_of(acl), acl.operation))
    for _, group in groupby(ordered, key=_entry_of):
        first, *others = group
        names = [Operation(acl.operation).name for acl in (first, *others)]
        fields: dict[str, Node] = {**_SHAPE.write(first), "operation": [*names]}
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


def read_lines(text: str) -> AclsRead:
    """Return the ACLs of the lines."""
    acls = tuple(dict.fromkeys(_read_lines(text)))
    return AclsRead(acls, scope=None if acls else Scope())


def _read_lines(text: str) -> Iterator[Acl]:
    # splitlines would also cut names at Unicode's line separators, which JSON may contain.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            value = parse_json(line)
        except AclTextError as error:
            raise AclTextError(place, error.reason) from error
        yield from read_entry(place, value)


def write_lines(acls: Sequence[Acl]) -> AclsWritten:
    """Return a line for each ACL. The losses are ACLs that Kafka cannot create."""
    kept, losses = values.keep_writable(acls, values.why_not_creatable)
    lines = (msgspec.json.encode(name_acl(acl)).decode() for acl in sorted(kept, key=astuple))
    return AclsWritten("".join(f"{line}\n" for line in lines), losses)
