"""Metadata records whose contents the daemon does not keep, byte by byte."""

import struct

from authorizerd.protocol.primitives import compact_string, unsigned_varint
from authorizerd.protocol.records.foreign import ForeignType

ONE_ID = b"\2" + bytes(range(16))
TWO_IDS = b"\3" + b"\x80" + bytes(15) + bytes(16)
"""Arrays of ids, as tagged fields have them."""


def frame(kind: ForeignType | int, *fields: bytes, version: int = 0, tags: bytes = b"\0") -> bytes:
    return bytes((1, kind, version)) + b"".join(fields) + tags


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


def array(*items: bytes) -> bytes:
    return unsigned_varint(len(items) + 1) + b"".join(items)


def endpoint(name: str, port: int, protocol: int) -> bytes:
    listener = compact_string(name) + compact_string("h")
    return listener + struct.pack(">Hh", port, protocol) + b"\0"


def feature(name: str, lowest: int, highest: int) -> bytes:
    return compact_string(name) + struct.pack(">hh", lowest, highest) + b"\0"


def broker(version: int = 4, tags: bytes = b"\0") -> bytes:
    """Return a RegisterBrokerRecord of broker 1 in epoch 5."""
    return frame(
        ForeignType.REGISTER_BROKER,
        int32(1),
        b"\1" if version >= 2 else b"",
        bytes(16),
        int64(5),
        array(endpoint("PLAIN", 9092, 0), endpoint("B", 65535, 3), endpoint("C", 1, 1)),
        array(feature("f", 1, 1), feature("e", 0, 2), feature("g", 3, 32767)),
        compact_string("r1"),
        b"\1",
        b"\0" if version >= 1 else b"",
        version=version,
        tags=tags,
    )


def quota(key: str, value: float, *, is_removed: bool = False, **entity: str | None) -> bytes:
    pairs = [
        compact_string(kind.replace("_", "-")) + compact_string(name) + b"\0"
        for kind, name in entity.items()
    ]
    number = struct.pack(">d", value)
    return frame(
        ForeignType.CLIENT_QUOTA,
        array(*pairs),
        compact_string(key),
        number,
        b"\1" if is_removed else b"\0",
    )


def token(name: str) -> bytes:
    renewers = array(compact_string("User:r"), compact_string("User:s"))
    times = int64(1) + int64(2) + int64(3)
    owners = compact_string("User:o") + compact_string("User:q")
    return frame(ForeignType.DELEGATION_TOKEN, owners, renewers, times, compact_string(name))


def controller() -> bytes:
    return frame(
        ForeignType.REGISTER_CONTROLLER, int32(7), bytes(range(16)), b"\0",
        array(endpoint("C", 9093, 2)), array(feature("f", 0, 1)),
    )  # fmt: skip


def changed(epoch: int = 5, tags: bytes = b"\0") -> bytes:
    """Return a BrokerRegistrationChangeRecord of broker 1."""
    fields = int32(1), int64(epoch)
    return frame(ForeignType.BROKER_REGISTRATION_CHANGE, *fields, version=3, tags=tags)


def node(
    node_id: int, level: int | None, *, is_controller: bool = False, version: int | None = None
) -> bytes:
    """Return the registration of a broker or a controller that supports metadata.version."""
    levels = () if level is None else (feature("metadata.version", 7, level),)
    if is_controller:
        kind = ForeignType.REGISTER_CONTROLLER
        fields = b"\0" + array() + array(*levels)
        return frame(kind, int32(node_id), bytes(16), fields, version=version or 0)
    fields = int64(5) + array() + array(*levels) + b"\0\1\0"
    kind = ForeignType.REGISTER_BROKER
    version = 3 if version is None else version
    return frame(kind, int32(node_id), b"\0", bytes(16), fields, version=version)


def unregistered(node_id: int, *, is_controller: bool = False) -> bytes:
    """Return the record that ends a node's registration."""
    if is_controller:
        return frame(29, int32(node_id))
    return frame(ForeignType.UNREGISTER_BROKER, int32(node_id), int64(5))
