"""The metadata records whose contents the daemon does not keep: nodes, quotas, tokens.

The daemon decides without them, so it skips them. The metadata shell shows them. Their classes
declare their bytes, see ``protocol.kafka.wire_types``.

**Invariant:** a record is read completely or not at all. A record with a later version or unknown
tagged fields gives None. A delegation token's record contains no secret: no record contains the
token's HMAC.

Source: KIP-631 (brokers, quotas, producer ids), KIP-900 (tokens), KIP-919 (controllers), KIP-858
(directories), KIP-966 (ClearElr), KIP-1066 (cordoned directories); Kafka 4.4 message definitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Annotated, Final

import msgspec

from authorizerd.protocol.kafka.body_reader import BodyReader
from authorizerd.protocol.kafka.codec import Shape
from authorizerd.protocol.kafka.wire_types import (
    Only,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    raw_uuid,
    text,
    uint16,
)


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

    name: text
    host: text
    port: uint16
    security_protocol: int16


class FeatureLevels(msgspec.Struct, frozen=True, gc=False):
    """The lowest and the highest level of a feature that a node supports."""

    name: text
    lowest: int16
    highest: int16


class BrokerRegistered(msgspec.Struct, frozen=True, kw_only=True):
    """A RegisterBrokerRecord. Ids have 16 bytes."""

    id: int32
    is_migrating: Annotated[boolean, Only(since=2)] = False
    incarnation_id: raw_uuid
    epoch: int64
    endpoints: Sequence[NodeEndpoint]
    features: Sequence[FeatureLevels]
    rack: text | None
    is_fenced: boolean
    is_shutting_down: Annotated[boolean, Only(since=1)] = False
    directories: Annotated[Sequence[raw_uuid], Only(tag=0)] = ()
    cordoned: Annotated[Sequence[raw_uuid] | None, Only(tag=1)] = None


class BrokerUnregistered(msgspec.Struct, frozen=True):
    """An UnregisterBrokerRecord."""

    id: int32
    epoch: int64


class BrokerChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a registered broker. None leaves a field unchanged."""

    id: int
    epoch: int
    is_fenced: bool | None = None
    is_shutting_down: bool | None = None
    directories: Sequence[bytes] | None = None
    cordoned: Sequence[bytes] | None = None


class _BrokerRegistrationChange(msgspec.Struct):
    """The fields of a BrokerRegistrationChangeRecord: 1 fences and shuts down, -1 unfences."""

    id: int32
    epoch: int64
    fenced: Annotated[int8, Only(tag=0)] = 0
    shutting_down: Annotated[int8, Only(tag=1)] = 0
    directories: Annotated[Sequence[raw_uuid], Only(tag=2)] = ()
    cordoned: Annotated[Sequence[raw_uuid] | None, Only(tag=3)] = None


def _make_change(
    *,
    id: int,
    epoch: int,
    fenced: int = 0,
    shutting_down: int = 0,
    directories: Sequence[bytes] = (),
    cordoned: Sequence[bytes] | None = None,
) -> BrokerChanged:
    """Return the change. An empty list of cordoned directories replaces the earlier one."""
    return BrokerChanged(
        id=id,
        epoch=epoch,
        is_fenced={1: True, -1: False}.get(fenced),
        is_shutting_down=True if shutting_down == 1 else None,
        directories=directories or None,
        cordoned=cordoned,
    )


class ControllerRegistered(msgspec.Struct, frozen=True, kw_only=True):
    """A RegisterControllerRecord; see ``BrokerRegistered``."""

    id: int32
    incarnation_id: raw_uuid
    is_migration_ready: boolean
    endpoints: Sequence[NodeEndpoint]
    features: Sequence[FeatureLevels]


class ControllerUnregistered(msgspec.Struct, frozen=True):
    """An UnregisterControllerRecord."""

    id: int32


class QuotaEntity(msgspec.Struct, frozen=True, gc=False):
    """Part of the entity that a quota is for. A name of None means the default."""

    kind: text
    name: text | None


class QuotaChanged(msgspec.Struct, frozen=True):
    """A ClientQuotaRecord."""

    entity: Sequence[QuotaEntity]
    key: text
    value: float64
    is_removed: boolean


class ProducerIdsAllocated(msgspec.Struct, frozen=True):
    """A ProducerIdsRecord."""

    broker_id: int32
    broker_epoch: int64
    next_producer_id: int64


class TokenAdded(msgspec.Struct, frozen=True, kw_only=True):
    """A DelegationTokenRecord. Times are milliseconds since 1970."""

    owner: text
    requester: text
    renewers: Sequence[text]
    issue_time_ms: int64
    max_time_ms: int64
    expiration_time_ms: int64
    id: text


class TokenRemoved(msgspec.Struct, frozen=True):
    """A RemoveDelegationTokenRecord."""

    id: text


class ElrCleared(msgspec.Struct, frozen=True):
    """A ClearElrRecord: forget the eligible leaders of a topic, or of all if its name is empty."""

    topic: text


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

_SHAPES: Final[Mapping[int, Shape]] = {
    ForeignType.REGISTER_BROKER: Shape(BrokerRegistered),
    ForeignType.UNREGISTER_BROKER: Shape(BrokerUnregistered),
    ForeignType.FENCE_BROKER: Shape(BrokerUnregistered, partial(BrokerChanged, is_fenced=True)),
    ForeignType.UNFENCE_BROKER: Shape(BrokerUnregistered, partial(BrokerChanged, is_fenced=False)),
    ForeignType.DELEGATION_TOKEN: Shape(TokenAdded),
    ForeignType.CLIENT_QUOTA: Shape(QuotaChanged),
    ForeignType.PRODUCER_IDS: Shape(ProducerIdsAllocated),
    ForeignType.BROKER_REGISTRATION_CHANGE: Shape(_BrokerRegistrationChange, _make_change),
    ForeignType.REMOVE_DELEGATION_TOKEN: Shape(TokenRemoved),
    ForeignType.REGISTER_CONTROLLER: Shape(ControllerRegistered),
    ForeignType.CLEAR_ELR: Shape(ElrCleared),
    ForeignType.UNREGISTER_CONTROLLER: Shape(ControllerUnregistered),
}
_LAST_VERSIONS: Final[Mapping[int, int]] = {
    ForeignType.REGISTER_BROKER: 4,
    ForeignType.BROKER_REGISTRATION_CHANGE: 3,
}


def decode_foreign(data: bytes, start: int, end: int) -> ForeignRecord | None:
    """Return the record in ``data[start:end]``, or None if its type or version is not known.

    Raises:
        DecodeError: the bytes are not such a record.
    """
    reader = BodyReader(data, flexible=True, position=start, end=end)
    reader.unsigned_varint("frame version")
    record_type = reader.unsigned_varint("record type")
    version = reader.unsigned_varint("record version")
    shape = _SHAPES.get(record_type)
    if shape is None or version > _LAST_VERSIONS.get(record_type, 0):
        return None
    record: ForeignRecord = shape.compile(version, flexible=True).read(reader, "metadata record")
    if reader.has_unknown_tags:
        return None
    reader.expect_end("metadata record")
    return record
