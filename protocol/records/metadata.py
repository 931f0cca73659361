"""Encode and decode the metadata records that the daemon uses. Other records are skipped.

A record's value is a frame version (1), a type and a version, then the fields in the flexible
encoding. ACL records above version 0 are rejected, never read partially.
``protocol.records.cluster`` has the fields of records other than ACLs.

Source: KIP-801 (ACLs), KIP-868 (transactions), KIP-584 (features); Kafka 4.3 message definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import cache
from typing import Final

import msgspec

from authorizerd.acl.model import Acl, AclAdded, AclRemoved
from authorizerd.image.changes import (
    ClusterChange,
    FeatureLevel,
    NodeRegistered,
    NodeUnregistered,
    VotersChanged,
)
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.primitives import WireReader, compact_string, unsigned_varint
from authorizerd.protocol.records.cluster import decode_cluster_record, encode_cluster_record

FRAME_VERSION: Final = 1
ID_SIZE: Final = 16


class RecordType(IntEnum):
    FEATURE_LEVEL = 12
    ACCESS_CONTROL_ENTRY = 18
    REMOVE_ACCESS_CONTROL_ENTRY = 19
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25


NO_OP_TYPE: Final = 20
"""The type of empty records, which a controller writes from time to time."""


class BeginTransaction(msgspec.Struct, frozen=True, gc=False):
    """The following records become visible only once an EndTransaction follows."""

    name: str | None = None


class EndTransaction(msgspec.Struct, frozen=True, gc=False):
    """The records since BeginTransaction become visible."""


class AbortTransaction(msgspec.Struct, frozen=True, gc=False):
    """The records since BeginTransaction never become visible."""

    reason: str | None = None


MetadataRecord = (
    AclAdded | AclRemoved | ClusterChange | BeginTransaction | EndTransaction | AbortTransaction
)


def record_type(data: bytes, start: int, end: int) -> int:
    """Return the type of the record in ``data[start:end]``, known or not.

    Raises:
        DecodeError: the bytes do not begin like a metadata record.
    """
    reader = WireReader(data, start, end)
    reader.unsigned_varint("frame version")
    return reader.unsigned_varint("record type")


def decode_value(data: bytes, start: int, end: int) -> MetadataRecord | None:
    """Return the record in ``data[start:end]``, or None if its type is skipped.

    Raises:
        DecodeError: the bytes are not a metadata record, or have a version that must not be
            skipped.
    """
    reader = WireReader(data, start, end)
    frame_version = reader.unsigned_varint("frame version")
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"expected frame version 1, found {frame_version}", start)
    number = reader.unsigned_varint("record type")
    version = reader.unsigned_varint("record version")
    decode = _DECODERS.get(number)
    if decode is None:
        return decode_cluster_record(number, version, reader)
    if version != 0:
        raise DecodeError(
            f"{RecordType(number).name} record: expected version 0, found {version}", start
        )
    return decode(reader)


def _end(reader: WireReader) -> None:
    reader.tagged_fields()
    reader.expect_end("metadata record")


def _acl_added(reader: WireReader) -> AclAdded:
    acl_id = reader.take(ID_SIZE, "ACL id")
    acl = Acl(
        resource_type=reader.int8("resource type"),
        resource_name=reader.compact_string("resource name"),
        pattern_type=reader.int8("pattern type"),
        principal=reader.compact_string("principal"),
        host=reader.compact_string("host"),
        operation=reader.int8("operation"),
        permission_type=reader.int8("permission type"),
    )
    _end(reader)
    return AclAdded(acl_id, acl)


def _acl_removed(reader: WireReader) -> AclRemoved:
    removed = AclRemoved(reader.take(ID_SIZE, "ACL id"))
    _end(reader)
    return removed


def _feature_level(reader: WireReader) -> FeatureLevel:
    feature = FeatureLevel(reader.compact_string("feature name"), reader.int16("feature level"))
    _end(reader)
    return feature


def _optional_text(reader: WireReader, what: str) -> str | None:
    """Return the text of tag 0, and end the record."""
    start = reader.position
    field = reader.tagged_fields().get(0)
    reader.expect_end("metadata record")
    if field is None:
        return None
    within = WireReader(field, 0, len(field))
    try:
        text = within.compact_nullable_string(what)
        within.expect_end(what)
    except DecodeError as error:
        # The error's position is relative to the field, so it would be misleading.
        raise DecodeError(error.reason, start) from None
    return text


def _begin(reader: WireReader) -> BeginTransaction:
    return BeginTransaction(_optional_text(reader, "transaction name"))


def _end_transaction(reader: WireReader) -> EndTransaction:
    _end(reader)
    return EndTransaction()


def _abort(reader: WireReader) -> AbortTransaction:
    return AbortTransaction(_optional_text(reader, "reason of the abort"))


_DECODERS: Final[dict[int, Callable[[WireReader], MetadataRecord]]] = {
    RecordType.FEATURE_LEVEL: _feature_level,
    RecordType.ACCESS_CONTROL_ENTRY: _acl_added,
    RecordType.REMOVE_ACCESS_CONTROL_ENTRY: _acl_removed,
    RecordType.BEGIN_TRANSACTION: _begin,
    RecordType.END_TRANSACTION: _end_transaction,
    RecordType.ABORT_TRANSACTION: _abort,
}


_ACL_ADDED_FRAME: Final = bytes((FRAME_VERSION, RecordType.ACCESS_CONTROL_ENTRY, 0))
_BYTES: Final = tuple(bytes((byte,)) for byte in range(256))
"""By code. A negative int8 indexes from the end, and so finds its byte."""


def encode_value(record: MetadataRecord) -> bytes:
    """Return the value of ``record``, including its frame."""
    match record:
        case AclAdded(id, acl):
            return _encode_acl_added(id, acl, compact_string)
        case AclRemoved(id):
            return _frame(RecordType.REMOVE_ACCESS_CONTROL_ENTRY) + id + b"\0"
        case FeatureLevel(name, level):
            level_bytes = level.to_bytes(2, "big", signed=True)
            return _frame(RecordType.FEATURE_LEVEL) + compact_string(name) + level_bytes + b"\0"
        case BeginTransaction(name):
            return _frame(RecordType.BEGIN_TRANSACTION) + _tagged_text(name)
        case EndTransaction():
            return _frame(RecordType.END_TRANSACTION) + b"\0"
        case AbortTransaction(reason):
            return _frame(RecordType.ABORT_TRANSACTION) + _tagged_text(reason)
        case NodeRegistered(value=value):
            assert value, "a broker that was only asked has no record"
            return value
        case NodeUnregistered() | VotersChanged():
            raise AssertionError("only the cluster itself writes these records")
        case _:
            record_type, version, fields = encode_cluster_record(record)
            return _frame(record_type, version) + fields


def encode_values(records: Iterable[MetadataRecord]) -> list[bytes]:
    """Return the value of each record, as ``encode_value`` does."""
    # The ACLs of one batch often have the same few principals and hosts.
    encode_text = cache(compact_string)
    return [
        _encode_acl_added(record.id, record.acl, encode_text)
        if type(record) is AclAdded
        else encode_value(record)
        for record in records
    ]


def _encode_acl_added(id: bytes, acl: Acl, encode_text: Callable[[str], bytes]) -> bytes:
    return b"".join(
        (
            _ACL_ADDED_FRAME,
            id,
            _BYTES[acl.resource_type],
            compact_string(acl.resource_name),
            _BYTES[acl.pattern_type],
            encode_text(acl.principal),
            encode_text(acl.host),
            _BYTES[acl.operation],
            _BYTES[acl.permission_type],
            b"\0",
        )
    )


def _frame(record_type: int, version: int = 0) -> bytes:
    return bytes((FRAME_VERSION, record_type, version))


def _tagged_text(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    field = compact_string(text)
    return b"\1\0" + unsigned_varint(len(field)) + field
