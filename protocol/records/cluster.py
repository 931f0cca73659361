"""Encode and decode the metadata records of topics, configs and SCRAM credentials.

**Invariant:** a record is kept completely or not at all. A record with a later version or unknown
tagged fields is skipped like records of other types. If it is about credentials, it is rejected
instead: otherwise a removed credential might still be accepted.

Source: KIP-631, KIP-900; Kafka 4.3 message definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, assert_never

from authorizerd.image.changes import (
    ConfigChanged,
    CredentialAdded,
    CredentialRemoved,
    PartitionAdded,
    PartitionChanged,
    ScramCredential,
    TopicAdded,
    TopicRemoved,
)
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.primitives import WireReader, compact_string, unsigned_varint
from authorizerd.protocol.records.partition import (
    LAST_VERSION,
    decode_partition,
    decode_partition_change,
    encode_partition,
    encode_partition_change,
)

ClusterRecord = (
    TopicAdded
    | PartitionAdded
    | PartitionChanged
    | TopicRemoved
    | ConfigChanged
    | CredentialAdded
    | CredentialRemoved
)


class ClusterRecordType(IntEnum):
    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    REMOVE_TOPIC = 9
    USER_SCRAM_CREDENTIAL = 11
    REMOVE_USER_SCRAM_CREDENTIAL = 22


_ID_SIZE: Final = 16
_NO_TAGS: Final = b"\0"


def decode_cluster_record(type: int, version: int, reader: WireReader) -> ClusterRecord | None:
    """Return the record whose fields begin at ``reader``, or None if it is skipped.

    Raises:
        DecodeError: the bytes are not such a record, or an unknown form of a credential record.
    """
    codec = _CODECS.get(type)
    if codec is None:
        return None
    start = reader.position
    record = codec.decode(reader, version) if version <= codec.last_version else None
    if record is None and codec.is_of_credentials:
        name = ClusterRecordType(type).name
        raise DecodeError(f"unknown fields in a {name} record of version {version}", start)
    return record


def _whole(reader: WireReader, record: ClusterRecord) -> ClusterRecord | None:
    """End a record. Return it if it has no tagged fields, since none are known."""
    tags = reader.tagged_fields()
    reader.expect_end("metadata record")
    return None if tags else record


def _topic(reader: WireReader, version: int) -> ClusterRecord | None:
    name = reader.compact_string("topic name")
    return _whole(reader, TopicAdded(name, reader.take(_ID_SIZE, "topic id")))


def _topic_removed(reader: WireReader, version: int) -> ClusterRecord | None:
    return _whole(reader, TopicRemoved(reader.take(_ID_SIZE, "topic id")))


def _config(reader: WireReader, version: int) -> ClusterRecord | None:
    changed = ConfigChanged(
        reader.int8("resource type"),
        reader.compact_string("resource name"),
        reader.compact_string("config name"),
        reader.compact_nullable_string("config value"),
    )
    return _whole(reader, changed)


def _credential(reader: WireReader, version: int) -> ClusterRecord | None:
    user, mechanism = reader.compact_string("user name"), reader.int8("mechanism")
    credential = ScramCredential(
        _compact_bytes(reader, "salt"),
        _compact_bytes(reader, "stored key"),
        _compact_bytes(reader, "server key"),
        reader.int32("iterations"),
    )
    return _whole(reader, CredentialAdded(user, mechanism, credential))


def _credential_removed(reader: WireReader, version: int) -> ClusterRecord | None:
    user = reader.compact_string("user name")
    return _whole(reader, CredentialRemoved(user, reader.int8("mechanism")))


def _compact_bytes(reader: WireReader, what: str) -> bytes:
    start = reader.position
    size = reader.unsigned_varint(what) - 1
    if size < 0:
        raise DecodeError(f"{what}: expected bytes, found null", start)
    return reader.take(size, what)


class _Codec(NamedTuple):
    decode: Callable[[WireReader, int], ClusterRecord | None]
    last_version: int = 0
    is_of_credentials: bool = False


_CODECS: Final[Mapping[int, _Codec]] = {
    ClusterRecordType.TOPIC: _Codec(_topic),
    ClusterRecordType.PARTITION: _Codec(decode_partition, LAST_VERSION),
    ClusterRecordType.CONFIG: _Codec(_config),
    ClusterRecordType.PARTITION_CHANGE: _Codec(decode_partition_change, LAST_VERSION),
    ClusterRecordType.REMOVE_TOPIC: _Codec(_topic_removed),
    ClusterRecordType.USER_SCRAM_CREDENTIAL: _Codec(_credential, is_of_credentials=True),
    ClusterRecordType.REMOVE_USER_SCRAM_CREDENTIAL: _Codec(
        _credential_removed, is_of_credentials=True
    ),
}


def encode_cluster_record(record: ClusterRecord) -> tuple[int, int, bytes]:
    """Return the type of ``record``, its version, and its fields."""
    match record:
        case TopicAdded(name, id):
            return ClusterRecordType.TOPIC, 0, compact_string(name) + id + _NO_TAGS
        case TopicRemoved(id):
            return ClusterRecordType.REMOVE_TOPIC, 0, id + _NO_TAGS
        case PartitionAdded():
            return ClusterRecordType.PARTITION, record.partition.version, encode_partition(record)
        case PartitionChanged():
            fields = encode_partition_change(record)
            return ClusterRecordType.PARTITION_CHANGE, record.version, fields
        case ConfigChanged():
            return ClusterRecordType.CONFIG, 0, _config_fields(record)
        case CredentialAdded():
            return ClusterRecordType.USER_SCRAM_CREDENTIAL, 0, _credential_fields(record)
        case CredentialRemoved(user, mechanism):
            fields = compact_string(user) + _int8(mechanism) + _NO_TAGS
            return ClusterRecordType.REMOVE_USER_SCRAM_CREDENTIAL, 0, fields
        case _:
            assert_never(record)


def _config_fields(changed: ConfigChanged) -> bytes:
    return (
        _int8(changed.resource_type)
        + compact_string(changed.resource_name)
        + compact_string(changed.key)
        + compact_string(changed.value)
        + _NO_TAGS
    )


def _credential_fields(added: CredentialAdded) -> bytes:
    credential = added.credential
    keys = credential.salt, credential.stored_key, credential.server_key
    return (
        compact_string(added.user)
        + _int8(added.mechanism)
        + b"".join(unsigned_varint(len(key) + 1) + key for key in keys)
        + credential.iterations.to_bytes(4, "big", signed=True)
        + _NO_TAGS
    )


def _int8(code: int) -> bytes:
    return code.to_bytes(1, "big", signed=True)
