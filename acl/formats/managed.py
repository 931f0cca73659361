"""The block ``manages`` of our documents: which ACLs a plan of this file may remove.

    manages:                        # an ACL is managed if it meets one of the entries
      - principal_prefix: "User:team-a-"
      - resource_type: TOPIC        # the fields of an entry narrow each other
        resource_name_prefix: team-a.
    acls: […]

**Invariant:** an entry that says nothing, or contradicts itself, is an error. So no typo makes a
plan manage more than it should.
"""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.acl.formats.model import AclTextError, Scope
from authorizerd.acl.formats.values import Value, check_code, check_keys, check_list, check_text
from authorizerd.acl.model import Code, Operation, PatternType, PermissionType, ResourceType
from authorizerd.acl.plan.errors import PlanError
from authorizerd.acl.plan.selector import Managed, check_entry

MANAGES: Final = "manages"

_CODES: Final[dict[str, type[Code]]] = {
    "resource_type": ResourceType,
    "pattern_type": PatternType,
    "operation": Operation,
    "permission_type": PermissionType,
}


def read_managed(document: dict[str, Value]) -> Scope | None:
    """Return what a document manages; None, which means everything, without the block.

    Raises:
        AclTextError: the block does not have the form above.
    """
    if MANAGES not in document:
        return None
    entries = tuple(
        _read_entry(place, entry)
        for place, entry in check_list(MANAGES, document[MANAGES], "entries")
    )
    if not entries:
        raise AclTextError(
            MANAGES,
            "expected at least one entry, found none: without the block, all ACLs are managed",
        )
    return Scope(entries=entries)


def _read_entry(place: str, entry: Value) -> Managed:
    check_keys(place, entry, required=(), optional=Managed.__struct_fields__)
    fields = {name: _read_field(f"{place}.{name}", name, value) for name, value in entry.items()}
    try:
        managed = msgspec.convert(fields, Managed)
        check_entry(managed, place)
    except msgspec.ValidationError as error:  # UNKNOWN, or ANY where it has no meaning
        raise AclTextError(place, str(error)) from error
    except PlanError as error:
        raise AclTextError(error.place, error.reason) from error
    return managed


def _read_field(place: str, name: str, value: Value) -> str:
    codes = _CODES.get(name)
    return check_text(place, value) if codes is None else check_code(place, value, codes).name
