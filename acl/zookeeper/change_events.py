"""Change events: znodes that tell running brokers to read a pattern's ACLs again.

**Invariant:** brokers of the given version read the event as the pattern that it was made for. One
that cannot read an event ignores the change until it is restarted, and before 2.0 all later ones.

Source: KIP-290; Kafka ZkData (ZkAclChangeStore) of 1.1, 2.0, 2.4, 2.5 and 3.9.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from authorizerd.acl.model import PatternType, ResourceType
from authorizerd.acl.zookeeper.broker_version import ENUM_NAMES_SINCE, BrokerVersion
from authorizerd.acl.zookeeper.names import RESOURCE_TYPE_NAMES
from authorizerd.acl.zookeeper.paths import CHANGE_ROOTS, Pattern

VERSION: Final = 1
NODE_PREFIX: Final = "acl_changes_"
"""ZooKeeper appends a sequence number of ten digits."""

_ENCODER: Final = msgspec.json.Encoder()


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


def new_change_event(pattern: Pattern, oldest: BrokerVersion) -> ChangeEvent:
    """Return the event after a change of the pattern's ACLs, in the spelling of ``oldest``."""
    resource_type, pattern_type = (
        ResourceType(pattern.resource_type),
        PatternType(pattern.pattern_type),
    )
    kind = RESOURCE_TYPE_NAMES[resource_type] if oldest < ENUM_NAMES_SINCE else resource_type.name
    if pattern_type is PatternType.LITERAL:
        data = f"{kind}:{pattern.resource_name}".encode()
    else:
        event = _ExtendedEvent(VERSION, kind, pattern.resource_name, pattern_type.name)
        data = _ENCODER.encode(event)
    return ChangeEvent(f"{CHANGE_ROOTS[pattern_type]}/{NODE_PREFIX}", data)
