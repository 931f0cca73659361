"""The fields of PartitionRecord and PartitionChangeRecord. A log may have tens of thousands.

**Invariant:** a record is read completely or not at all. A record with unknown tagged fields gives
None.

Source: KIP-631, KIP-858 (directories, version 1), KIP-966 (eligible leaders, version 2).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar

from authorizerd.image.changes import (
    LEADER_UNCHANGED,
    RECOVERY_STATE_UNCHANGED,
    Partition,
    PartitionAdded,
    PartitionChanged,
    Replicas,
)
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.primitives import WireReader, unsigned_varint

LAST_VERSION: Final = 2
"""The last known version of both records."""

_DIRECTORIES_VERSION: Final = 1
"""The first version with directories. In a PartitionRecord they are not a tagged field."""
_ID_SIZE: Final = 16
_INT32_SIZE: Final = 4
_LEADERSHIP: Final = struct.Struct(">iii")
_INT8: Final = struct.Struct(">b").pack
_INT32: Final = struct.Struct(">i").pack
_LISTS_KEPT: Final = 4096
_KEPT_BYTES_MAX: Final = 64
"""Many partitions have the same few replicas, so lists up to this size are cached."""

T = TypeVar("T")


def decode_partition(reader: WireReader, version: int) -> PartitionAdded | None:
    """Return the PartitionRecord whose fields begin at ``reader``.

    Raises:
        DecodeError: the bytes are not such a record.
    """
    number = reader.int32("partition id")
    topic_id = reader.take(_ID_SIZE, "topic id")
    replicas = _present_replicas(reader, "replicas")
    isr = _present_replicas(reader, "isr")
    removing = _present_replicas(reader, "removing replicas")
    adding = _present_replicas(reader, "adding replicas")
    leader, leader_epoch, partition_epoch = _LEADERSHIP.unpack(
        reader.take(_LEADERSHIP.size, "leader and epochs")
    )
    directories = b""
    if version >= _DIRECTORIES_VERSION:
        directories = _present(_ids(reader, "directories"), reader, "directories")
    tags = _Tags(reader)
    recovery_state = tags.take(0, "leader recovery state", WireReader.int8)
    eligible = tags.take(1, "eligible leader replicas", _replicas)
    last_known = tags.take(2, "last known eligible replicas", _replicas)
    partition = Partition(
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        removing_replicas=removing,
        adding_replicas=adding,
        leader_recovery_state=recovery_state or 0,
        directories=directories,
        eligible_leader_replicas=eligible or (),
        last_known_eligible=last_known or (),
        version=version,
    )
    return None if tags.are_left else PartitionAdded(topic_id, number, partition)


def decode_partition_change(reader: WireReader, version: int) -> PartitionChanged | None:
    """Return the PartitionChangeRecord whose fields begin at ``reader``.

    Raises:
        DecodeError: the bytes are not such a record.
    """
    number = reader.int32("partition id")
    topic_id = reader.take(_ID_SIZE, "topic id")
    tags = _Tags(reader)
    leader = tags.take(1, "leader", WireReader.int32)
    recovery_state = tags.take(5, "leader recovery state", WireReader.int8)
    changed = PartitionChanged(
        topic_id=topic_id,
        number=number,
        isr=tags.take(0, "isr", _replicas),
        leader=LEADER_UNCHANGED if leader is None else leader,
        replicas=tags.take(2, "replicas", _replicas),
        removing_replicas=tags.take(3, "removing replicas", _replicas),
        adding_replicas=tags.take(4, "adding replicas", _replicas),
        leader_recovery_state=(
            RECOVERY_STATE_UNCHANGED if recovery_state is None else recovery_state
        ),
        eligible_leader_replicas=tags.take(6, "eligible leader replicas", _replicas),
        last_known_eligible=tags.take(7, "last known eligible replicas", _replicas),
        # Version 0 does not have tag 8. The tag is then left over, and the record is skipped.
        directories=tags.take(8, "directories", _ids) if version >= _DIRECTORIES_VERSION else None,
        version=version,
    )
    return None if tags.are_left else changed


class _Tags:
    """The tagged fields at the end of a record. A fault is reported at their start."""

    def __init__(self, reader: WireReader) -> None:
        self._start = reader.position
        self._fields = reader.tagged_fields()
        reader.expect_end("metadata record")

    @property
    def are_left(self) -> bool:
        """True if any field has not been taken."""
        return bool(self._fields)

    def take(self, tag: int, what: str, read: Callable[[WireReader, str], T]) -> T | None:
        """Return the result of ``read`` for a field, or None if the field is absent."""
        field = self._fields.pop(tag, None)
        if field is None:
            return None
        within = WireReader(field, 0, len(field))
        try:
            value = read(within, what)
            within.expect_end(what)
        except DecodeError as error:
            raise DecodeError(error.reason, self._start) from None
        return value


def _items(reader: WireReader, what: str, item_size: int) -> bytes | None:
    """Return the bytes of an array's items, None for a null array."""
    count = reader.unsigned_varint(what) - 1
    return None if count < 0 else reader.take(count * item_size, what)


def _ids(reader: WireReader, what: str) -> bytes | None:
    return _items(reader, what, _ID_SIZE)


def _replicas(reader: WireReader, what: str) -> Replicas | None:
    items = _items(reader, what, _INT32_SIZE)
    if items is None:
        return None
    return _unpack(items) if len(items) > _KEPT_BYTES_MAX else _unpack_once(items)


def _unpack(items: bytes) -> Replicas:
    return struct.unpack(f">{len(items) // _INT32_SIZE}i", items)


_unpack_once: Final = lru_cache(_LISTS_KEPT)(_unpack)


def _present_replicas(reader: WireReader, what: str) -> Replicas:
    return _present(_replicas(reader, what), reader, what)


def _present(items: T | None, reader: WireReader, what: str) -> T:
    if items is None:
        raise DecodeError(f"{what}: expected an array, found null", reader.position - 1)
    return items


def encode_partition(added: PartitionAdded) -> bytes:
    """Return the fields of a PartitionRecord of the partition's version."""
    partition = added.partition
    has_directories = partition.version >= _DIRECTORIES_VERSION
    return (
        _INT32(added.number)
        + added.topic_id
        + _array(partition.replicas)
        + _array(partition.isr)
        + _array(partition.removing_replicas)
        + _array(partition.adding_replicas)
        + _INT32(partition.leader)
        + _INT32(partition.leader_epoch)
        + _INT32(partition.partition_epoch)
        + (_id_array(partition.directories) if has_directories else b"")
        + _tagged(
            (0, _unless(0, partition.leader_recovery_state, _INT8)),
            (1, _unless((), partition.eligible_leader_replicas, _array)),
            (2, _unless((), partition.last_known_eligible, _array)),
        )
    )


def encode_partition_change(change: PartitionChanged) -> bytes:
    """Return the fields of a PartitionChangeRecord: only those that change."""
    return (
        _INT32(change.number)
        + change.topic_id
        + _tagged(
            (0, _unless(None, change.isr, _array)),
            (1, _unless(LEADER_UNCHANGED, change.leader, _INT32)),
            (2, _unless(None, change.replicas, _array)),
            (3, _unless(None, change.removing_replicas, _array)),
            (4, _unless(None, change.adding_replicas, _array)),
            (5, _unless(RECOVERY_STATE_UNCHANGED, change.leader_recovery_state, _INT8)),
            (6, _unless(None, change.eligible_leader_replicas, _array)),
            (7, _unless(None, change.last_known_eligible, _array)),
            (8, _unless(None, change.directories, _id_array)),
        )
    )


def _array(replicas: Replicas) -> bytes:
    return unsigned_varint(len(replicas) + 1) + struct.pack(f">{len(replicas)}i", *replicas)


def _id_array(ids: bytes) -> bytes:
    return unsigned_varint(len(ids) // _ID_SIZE + 1) + ids


def _unless(default: T | None, value: T | None, write: Callable[[T], bytes]) -> bytes | None:
    """Return the bytes of ``value``, or None for the default, which is omitted."""
    return None if value is None or value == default else write(value)


def _tagged(*fields: tuple[int, bytes | None]) -> bytes:
    """Return the present tagged fields, with their count."""
    present = [(tag, field) for tag, field in fields if field is not None]
    pieces = [unsigned_varint(len(present))]
    for tag, field in present:
        pieces += unsigned_varint(tag), unsigned_varint(len(field)), field
    return b"".join(pieces)
