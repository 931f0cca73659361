"""The metadata records whose contents the daemon does not keep: nodes, quotas, tokens.

The daemon decides without them, so it skips them. The metadata shell shows them.

**Invariant:** a record is read completely or not at all. A record of a later version, or with
unknown tagged fields at its end, gives None. A delegation token's record contains no secret: the
token's HMAC is in no record.

Source: KIP-631 (brokers, quotas, producer ids), KIP-900 (tokens), KIP-919 (controllers), KIP-858
(directories), KIP-966 (ClearElr), KIP-1066 (cordoned directories); Kafka 4.4 message definitions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

import msgspec

from authorizerd.protocol.primitives import WireReader

T = TypeVar("T")

_ID_SIZE: Final = 16
_DOUBLE: Final = struct.Struct(">d")


class ForeignType(IntEnum):
    """The types that ``decode_foreign`` reads."""

    REGISTER_BROKER = 0
    UNREGISTER_BROKER = 1
    FENCE_BROKER = 7
    UNFENCE_BROKER = 8
    DELEGATION_TOKEN = 10
    CLIENT_QUOTA = 14
    PRODUCER_IDS = 15
    BROKER_REGISTRATION_CHANGE = 17
    REMOVE_DELEGATION_TOKEN = 26
    REGISTER_CONTROLLER = 27
    CLEAR_ELR = 28
    UNREGISTER_CONTROLLER = 29


class NodeEndpoint(msgspec.Struct, frozen=True, gc=False):
    """A listener of a node. ``security_protocol`` is a raw int16."""

    name: str
    host: str
    port: int
    security_protocol: int


class BrokerRegistered(msgspec.Struct, frozen=True, kw_only=True):
    """A RegisterBrokerRecord. ``features`` has the lowest and the highest supported level.

    Ids have 16 bytes.
    """

    id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[NodeEndpoint, ...]
    features: dict[str, tuple[int, int]]
    rack: str | None
    is_fenced: bool
    is_shutting_down: bool = False
    is_migrating: bool = False
    directories: tuple[bytes, ...] = ()
    cordoned: tuple[bytes, ...] = ()


class BrokerUnregistered(msgspec.Struct, frozen=True):
    """An UnregisterBrokerRecord."""

    id: int


class BrokerChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a registered broker. None leaves a field unchanged."""

    id: int
    epoch: int
    is_fenced: bool | None = None
    is_shutting_down: bool | None = None
    directories: tuple[bytes, ...] | None = None
    cordoned: tuple[bytes, ...] | None = None


class ControllerRegistered(msgspec.Struct, frozen=True, kw_only=True):
    """A RegisterControllerRecord; see ``BrokerRegistered``."""

    id: int
    incarnation_id: bytes
    is_migration_ready: bool
    endpoints: tuple[NodeEndpoint, ...]
    features: dict[str, tuple[int, int]]


class ControllerUnregistered(msgspec.Struct, frozen=True):
    """An UnregisterControllerRecord."""

    id: int


class QuotaChanged(msgspec.Struct, frozen=True):
    """A ClientQuotaRecord. A value of None removes the key.

    ``entity`` has pairs of a type and a name. A name of None is the default.
    """

    entity: tuple[tuple[str, str | None], ...]
    key: str
    value: float | None


class ProducerIdsAllocated(msgspec.Struct, frozen=True):
    """A ProducerIdsRecord."""

    next_producer_id: int


class TokenAdded(msgspec.Struct, frozen=True, kw_only=True):
    """A DelegationTokenRecord. Times are milliseconds since 1970."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_time_ms: int
    max_time_ms: int
    expiration_time_ms: int
    id: str


class TokenRemoved(msgspec.Struct, frozen=True):
    """A RemoveDelegationTokenRecord."""

    id: str


class ElrCleared(msgspec.Struct, frozen=True):
    """A ClearElrRecord: forget the eligible leaders of a topic, or of all if its name is empty."""

    topic: str


ForeignRecord = (
    BrokerRegistered
    | BrokerUnregistered
    | BrokerChanged
    | ControllerRegistered
    | ControllerUnregistered
    | QuotaChanged
    | ProducerIdsAllocated
    | TokenAdded
    | TokenRemoved
    | ElrCleared
)


def decode_foreign(data: bytes, start: int, end: int) -> ForeignRecord | None:
    """Return the record in ``data[start:end]``, or None if its type or version is not known.

    Raises:
        DecodeError: the bytes are not such a record.
    """
    reader = WireReader(data, start, end)
    reader.unsigned_varint("frame version")
    codec = _CODECS.get(reader.unsigned_varint("record type"))
    version = reader.unsigned_varint("record version")
    if codec is None or version > codec.last_version:
        return None
    record = codec.decode(reader, version)
    reader.expect_end("metadata record")
    return record


def _number(reader: WireReader, size: int, what: str) -> int:
    return int.from_bytes(reader.take(size, what), "big", signed=True)


def _flag(reader: WireReader, what: str) -> bool:
    return reader.take(1, what) != b"\0"


def _array(reader: WireReader, what: str, read: Callable[[WireReader], T]) -> tuple[T, ...]:
    """Return an array; a null array is empty."""
    count = reader.unsigned_varint(f"number of {what}") - 1
    # One by one: a record may announce more items than it has bytes.
    return tuple(read(reader) for _ in range(max(count, 0)))


def _end(reader: WireReader) -> bool:
    """Read the tagged fields of a structure that has none. Return True if there are none."""
    return not reader.tagged_fields()


def _id(reader: WireReader) -> bytes:
    return reader.take(_ID_SIZE, "id")


def _endpoint(reader: WireReader) -> NodeEndpoint:
    name, host = reader.compact_string("listener name"), reader.compact_string("host")
    port = int.from_bytes(reader.take(2, "port"), "big")
    endpoint = NodeEndpoint(name, host, port, reader.int16("security protocol"))
    _end(reader)
    return endpoint


def _feature(reader: WireReader) -> tuple[str, tuple[int, int]]:
    name = reader.compact_string("feature name")
    levels = reader.int16("lowest level"), reader.int16("highest level")
    _end(reader)
    return name, levels


def _directories(field: bytes | None) -> tuple[bytes, ...] | None:
    if field is None:
        return None
    reader = WireReader(field, 0, len(field))
    found = _array(reader, "directories", _id)
    reader.expect_end("directories")
    return found


def _register_broker(reader: WireReader, version: int) -> ForeignRecord | None:
    node_id = reader.int32("broker id")
    is_migrating = version >= 2 and _flag(reader, "migration flag")
    incarnation_id = _id(reader)
    epoch = _number(reader, 8, "broker epoch")
    endpoints = _array(reader, "endpoints", _endpoint)
    features = dict(_array(reader, "features", _feature))
    rack = reader.compact_nullable_string("rack")
    is_fenced = _flag(reader, "fenced flag")
    is_shutting_down = version >= 1 and _flag(reader, "shutdown flag")
    tags = reader.tagged_fields()
    if tags.keys() - {0, 1}:
        return None
    return BrokerRegistered(
        id=node_id,
        epoch=epoch,
        incarnation_id=incarnation_id,
        endpoints=endpoints,
        features=features,
        rack=rack,
        is_fenced=is_fenced,
        is_shutting_down=is_shutting_down,
        is_migrating=is_migrating,
        directories=_directories(tags.get(0)) or (),
        cordoned=_directories(tags.get(1)) or (),
    )


def _unregister_broker(reader: WireReader, version: int) -> ForeignRecord | None:
    node_id = reader.int32("broker id")
    _number(reader, 8, "broker epoch")
    return BrokerUnregistered(node_id) if _end(reader) else None


def _fence(*, is_fenced: bool) -> Callable[[WireReader, int], ForeignRecord | None]:
    def decode(reader: WireReader, version: int) -> ForeignRecord | None:
        node_id, epoch = reader.int32("broker id"), _number(reader, 8, "broker epoch")
        changed = BrokerChanged(id=node_id, epoch=epoch, is_fenced=is_fenced)
        return changed if _end(reader) else None

    return decode


def _change_broker(reader: WireReader, version: int) -> ForeignRecord | None:
    node_id, epoch = reader.int32("broker id"), _number(reader, 8, "broker epoch")
    tags = reader.tagged_fields()
    if tags.keys() - {0, 1, 2, 3}:
        return None
    return BrokerChanged(
        id=node_id,
        epoch=epoch,
        # -1 unfences, 1 fences.
        is_fenced={b"\1": True, b"\xff": False}.get(tags.get(0, b"\0")),
        is_shutting_down=True if tags.get(1) == b"\1" else None,
        directories=_directories(tags.get(2)) or None,
        cordoned=_nullable_directories(tags.get(3)),
    )


def _nullable_directories(field: bytes | None) -> tuple[bytes, ...] | None:
    """Return the directories. An empty list replaces the earlier ones, null does not."""
    return None if field == b"\0" else _directories(field)


def _register_controller(reader: WireReader, version: int) -> ForeignRecord | None:
    registered = ControllerRegistered(
        id=reader.int32("controller id"),
        incarnation_id=_id(reader),
        is_migration_ready=_flag(reader, "migration flag"),
        endpoints=_array(reader, "endpoints", _endpoint),
        features=dict(_array(reader, "features", _feature)),
    )
    return registered if _end(reader) else None


def _unregister_controller(reader: WireReader, version: int) -> ForeignRecord | None:
    unregistered = ControllerUnregistered(reader.int32("controller id"))
    return unregistered if _end(reader) else None


def _entity(reader: WireReader) -> tuple[str, str | None]:
    pair = reader.compact_string("entity type"), reader.compact_nullable_string("entity name")
    _end(reader)
    return pair


def _client_quota(reader: WireReader, version: int) -> ForeignRecord | None:
    entity = _array(reader, "entities", _entity)
    key = reader.compact_string("quota")
    value: float = _DOUBLE.unpack(reader.take(_DOUBLE.size, "quota value"))[0]
    is_removed = _flag(reader, "removal flag")
    changed = QuotaChanged(entity, key, None if is_removed else value)
    return changed if _end(reader) else None


def _producer_ids(reader: WireReader, version: int) -> ForeignRecord | None:
    reader.int32("broker id")
    _number(reader, 8, "broker epoch")
    allocated = ProducerIdsAllocated(_number(reader, 8, "next producer id"))
    return allocated if _end(reader) else None


def _token(reader: WireReader, version: int) -> ForeignRecord | None:
    token = TokenAdded(
        owner=reader.compact_string("owner"),
        requester=reader.compact_string("requester"),
        renewers=_array(reader, "renewers", lambda each: each.compact_string("renewer")),
        issue_time_ms=_number(reader, 8, "issue time"),
        max_time_ms=_number(reader, 8, "maximum time"),
        expiration_time_ms=_number(reader, 8, "expiration time"),
        id=reader.compact_string("token id"),
    )
    return token if _end(reader) else None


def _remove_token(reader: WireReader, version: int) -> ForeignRecord | None:
    removed = TokenRemoved(reader.compact_string("token id"))
    return removed if _end(reader) else None


def _clear_elr(reader: WireReader, version: int) -> ForeignRecord | None:
    cleared = ElrCleared(reader.compact_string("topic name"))
    return cleared if _end(reader) else None


class _Codec(NamedTuple):
    decode: Callable[[WireReader, int], ForeignRecord | None]
    last_version: int = 0


_CODECS: Final[Mapping[int, _Codec]] = {
    ForeignType.REGISTER_BROKER: _Codec(_register_broker, 4),
    ForeignType.UNREGISTER_BROKER: _Codec(_unregister_broker),
    ForeignType.FENCE_BROKER: _Codec(_fence(is_fenced=True)),
    ForeignType.UNFENCE_BROKER: _Codec(_fence(is_fenced=False)),
    ForeignType.DELEGATION_TOKEN: _Codec(_token),
    ForeignType.CLIENT_QUOTA: _Codec(_client_quota),
    ForeignType.PRODUCER_IDS: _Codec(_producer_ids),
    ForeignType.BROKER_REGISTRATION_CHANGE: _Codec(_change_broker, 3),
    ForeignType.REMOVE_DELEGATION_TOKEN: _Codec(_remove_token),
    ForeignType.REGISTER_CONTROLLER: _Codec(_register_controller),
    ForeignType.CLEAR_ELR: _Codec(_clear_elr),
    ForeignType.UNREGISTER_CONTROLLER: _Codec(_unregister_controller),
}
