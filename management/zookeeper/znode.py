"""The data of a pattern's znode, and the change events that let running brokers read it again.

    {"acls":[{"principal":"User:a","permissionType":"Allow","host":"*","operation":"Read"}],"version":1}

**Invariant:** reading is strict where Kafka is not. Kafka reads malformed JSON as no ACLs, and an
unknown operation as UNKNOWN; here both are errors, so that no DENY is lost. As in Kafka, unknown
fields are ignored, and a znode without data has no ACLs. Brokers of the given version read an event
as the intended pattern. A broker that cannot read an event ignores the change until it restarts;
before 2.0, it also ignores all later changes.

Source: KIP-290; Kafka 3.9 AclEntry.fromBytes and toJsonCompatibleMap; ZkData (ZkAclChangeStore) of
1.1, 2.0, 2.4, 2.5 and 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.acl.text.decoding_errors import DECODING_ERRORS, describe_decoding_error
from authorizerd.acl.text.letter_case import ascii_upper
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.zookeeper import paths
from authorizerd.management.zookeeper.broker_version import ENUM_NAMES_SINCE, BrokerVersion

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
    """The data of a pattern's znode, in Kafka's order."""

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


def read_acls(pattern: paths.Pattern, data: bytes | None) -> tuple[Acl, ...]:
    """Return the ACLs of a pattern's znode, in their order and without repeats."""
    if not data:
        return ()
    path = paths.pattern_path(pattern)
    try:
        version = _VERSIONED.decode(data).version
        if version != VERSION:
            raise AclTextError(path, f"unknown version {version}: expected {VERSION}")
        entries = _ZNODE.decode(data).acls
    except DECODING_ERRORS as error:
        reason = describe_decoding_error(error)
        raise AclTextError(path, f"expected the JSON of ACLs: {reason}") from None
    return tuple(dict.fromkeys(_read_entry(path, pattern, entry) for entry in entries))


def _read_entry(path: str, pattern: paths.Pattern, entry: _Entry) -> Acl:
    operation = paths.OPERATIONS_BY_NAME.get(ascii_upper(entry.operation))
    if operation is None:
        raise AclTextError(path, f"unknown operation {entry.operation!r}")
    permission_type = paths.PERMISSION_TYPES_BY_NAME.get(ascii_upper(entry.permission_type))
    if permission_type is None:
        raise AclTextError(path, f"unknown permission type {entry.permission_type!r}")
    if reason := why_no_principal(entry.principal):
        raise AclTextError(path, f"invalid principal {entry.principal!r}: {reason}")
    return Acl(*pattern, entry.principal, entry.host, operation, permission_type)


def write_acls(acls: Iterable[Acl]) -> bytes:
    """Return the data of a znode with these ACLs of one pattern, sorted.

    The caller has checked that Kafka has names for their codes.
    """
    entries = sorted((acl.principal, acl.permission_type, acl.operation, acl.host) for acl in acls)
    return _ENCODER.encode(
        _Znode(
            tuple(
                _Entry(
                    principal,
                    paths.PERMISSION_TYPE_NAMES[PermissionType(permission_type)],
                    host,
                    paths.OPERATION_NAMES[Operation(operation)],
                )
                for principal, permission_type, operation, host in entries
            ),
            VERSION,
        )
    )


EVENT_VERSION: Final = 1
NODE_PREFIX: Final = "acl_changes_"
"""ZooKeeper appends a sequence number of ten digits."""


class ChangeEvent(NamedTuple):
    """A sequential znode to create: its path without the number, and its data."""

    path: str
    data: bytes


class _ExtendedEvent(msgspec.Struct, frozen=True):
    """The data of an event about a pattern that is not literal."""

    version: int
    resource_type: str = msgspec.field(name="resourceType")
    name: str
    pattern_type: str = msgspec.field(name="patternType")


def new_change_event(pattern: paths.Pattern, oldest: BrokerVersion) -> ChangeEvent:
    """Return the event after a change of the pattern's ACLs, in the spelling of ``oldest``."""
    resource_type, pattern_type = (
        ResourceType(pattern.resource_type),
        PatternType(pattern.pattern_type),
    )
    kind = (
        paths.RESOURCE_TYPE_NAMES[resource_type]
        if oldest < ENUM_NAMES_SINCE
        else resource_type.name
    )
    if pattern_type is PatternType.LITERAL:
        data = f"{kind}:{pattern.resource_name}".encode()
    else:
        event = _ExtendedEvent(EVENT_VERSION, kind, pattern.resource_name, pattern_type.name)
        data = _ENCODER.encode(event)
    return ChangeEvent(f"{paths.CHANGE_ROOTS[pattern_type]}/{NODE_PREFIX}", data)
