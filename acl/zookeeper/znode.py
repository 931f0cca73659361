"""The JSON in a pattern's znode: its ACLs.

    {"acls":[{"principal":"User:a","permissionType":"Allow","host":"*","operation":"Read"}],"version":1}

**Invariant:** reading is strict where Kafka is not. Kafka reads malformed JSON as no ACLs, and an
unknown operation as UNKNOWN; here both are errors, so that no DENY is lost. As in Kafka, unknown
fields are ignored, and a znode without data has no ACLs.

Source: Kafka 3.9 AclEntry.fromBytes and toJsonCompatibleMap.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from authorizerd.acl.decoding_errors import DECODING_ERRORS, describe_decoding_error
from authorizerd.acl.formats.model import AclTextError
from authorizerd.acl.model import Acl, Operation, PermissionType
from authorizerd.acl.zookeeper.names import (
    OPERATION_NAMES,
    PERMISSION_TYPE_NAMES,
    read_operation,
    read_permission_type,
)
from authorizerd.acl.zookeeper.paths import Pattern, pattern_path

VERSION: Final = 1


class _Entry(msgspec.Struct, frozen=True, gc=False):
    """An element of ``acls``. The fields have the order in which Kafka writes them."""

    principal: str
    permission_type: str = msgspec.field(name="permissionType")
    host: str
    operation: str


class _Versioned(msgspec.Struct, frozen=True):
    """The version, which is checked before the other fields are read."""

    version: int


class _Znode(msgspec.Struct, frozen=True):
    """The data of a pattern's znode. The order is Kafka's too."""

    acls: tuple[_Entry, ...]
    version: int


_VERSIONED: Final = msgspec.json.Decoder(_Versioned)
_ZNODE: Final = msgspec.json.Decoder(_Znode)
_ENCODER: Final = msgspec.json.Encoder()


def why_no_principal(principal: str) -> str | None:
    """Return why Kafka cannot read this principal from ZooKeeper; None if it can.

    A broker that reads such a principal does not start.
    """
    return None if ":" in principal else "expected a principal TYPE:NAME, with a colon"


def read_acls(pattern: Pattern, data: bytes | None) -> tuple[Acl, ...]:
    """Return the ACLs of a pattern's znode, in their order and without repeats.

    Raises:
        AclTextError: the data has another form. The place is the znode's path.
    """
    if not data:
        return ()
    path = pattern_path(pattern)
    try:
        version = _VERSIONED.decode(data).version
        if version != VERSION:
            raise AclTextError(path, f"unknown version {version}: expected {VERSION}")
        entries = _ZNODE.decode(data).acls
    except DECODING_ERRORS as error:
        reason = describe_decoding_error(error)
        raise AclTextError(path, f"expected the JSON of ACLs: {reason}") from None
    return tuple(dict.fromkeys(_read_entry(path, pattern, each) for each in entries))


def _read_entry(path: str, pattern: Pattern, entry: _Entry) -> Acl:
    operation = read_operation(entry.operation)
    if operation is None:
        raise AclTextError(path, f"unknown operation {entry.operation!r}")
    permission_type = read_permission_type(entry.permission_type)
    if permission_type is None:
        raise AclTextError(path, f"unknown permission type {entry.permission_type!r}")
    if reason := why_no_principal(entry.principal):
        raise AclTextError(path, f"invalid principal {entry.principal!r}: {reason}")
    return Acl(*pattern, entry.principal, entry.host, operation, permission_type)


def write_acls(acls: Iterable[Acl]) -> bytes:
    """Return the data of a znode with these ACLs of one pattern, sorted.

    The caller has checked that Kafka has names for their codes.
    """
    entries = sorted(
        (each.principal, each.permission_type, each.operation, each.host) for each in acls
    )
    return _ENCODER.encode(
        _Znode(
            tuple(
                _Entry(
                    principal,
                    PERMISSION_TYPE_NAMES[PermissionType(permission_type)],
                    host,
                    OPERATION_NAMES[Operation(operation)],
                )
                for principal, permission_type, operation, host in entries
            ),
            VERSION,
        )
    )
