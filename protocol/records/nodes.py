"""The releases of brokers and controllers, as far as their records prove them.

Other fields of these records are not kept, so a log with them still counts as one with foreign
records. A registration whose fields cannot be read, for example of a later version, counts as a
node of unknown release.

Source: KIP-631, KIP-919; Kafka 4.4 RegisterBrokerRecord, RegisterControllerRecord.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from authorizerd.image.changes import UNKNOWN_LEVEL, NodeRegistered, NodeUnregistered
from authorizerd.image.features import METADATA_VERSION_FEATURE
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.primitives import WireReader
from authorizerd.protocol.records.foreign import (
    BrokerRegistered,
    ControllerRegistered,
    ForeignType,
    decode_foreign,
)

UNKNOWN_ID: Final = -2
_REGISTRATIONS: Final = frozenset((ForeignType.REGISTER_BROKER, ForeignType.REGISTER_CONTROLLER))
_REMOVALS: Final = frozenset((ForeignType.UNREGISTER_BROKER, ForeignType.UNREGISTER_CONTROLLER))
_OF_CONTROLLERS: Final = frozenset(
    (ForeignType.REGISTER_CONTROLLER, ForeignType.UNREGISTER_CONTROLLER)
)


def decode_node(data: bytes, start: int, end: int) -> NodeRegistered | NodeUnregistered | None:
    """Return the change in ``data[start:end]``, or None if the record has another type.

    A registration whose id cannot be read stands for a node that is never unregistered.

    Raises:
        DecodeError: the bytes do not begin like a metadata record.
    """
    reader = WireReader(data, start, end)
    reader.unsigned_varint("frame version")
    number = reader.unsigned_varint("record type")
    if number not in _REGISTRATIONS and number not in _REMOVALS:
        return None
    reader.unsigned_varint("record version")
    is_controller, node_id = number in _OF_CONTROLLERS, UNKNOWN_ID
    with suppress(DecodeError):
        node_id = reader.int32("node id")
    if number in _REMOVALS:
        return NodeUnregistered(is_controller, node_id)
    level = _read_level(data, start, end)
    return NodeRegistered(is_controller, node_id, level, data[start:end])


def _read_level(data: bytes, start: int, end: int) -> int:
    """Return the highest level of metadata.version that a node supports."""
    with suppress(DecodeError):
        match decode_foreign(data, start, end):
            case BrokerRegistered(features=features) | ControllerRegistered(features=features):
                levels = {feature.name: feature.highest for feature in features}
                return levels.get(METADATA_VERSION_FEATURE, UNKNOWN_LEVEL)
    return UNKNOWN_LEVEL
