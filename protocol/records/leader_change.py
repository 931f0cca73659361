"""The LeaderChange record: the leader of the epoch that it begins, and the voters.

Source: KIP-595, KIP-853; Kafka 4.3 LeaderChangeMessage (versions 0 and 1).
"""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.primitives import WireReader
from authorizerd.protocol.records.batch import HEADER_SIZE, ControlType, RecordBatch, read_record

NODE_ID_SIZE: Final = 4
DIRECTORY_ID_SIZE: Final = 16


class LeaderChange(msgspec.Struct, frozen=True, kw_only=True):
    """The leader of an epoch. ``voters`` are node ids."""

    leader_id: int
    voters: tuple[int, ...]


def decode_leader_change(batch: RecordBatch) -> LeaderChange | None:
    """Return the LeaderChange of a control batch, or None if it has none of a known version.

    Raises:
        DecodeError: it cannot be read. The position counts from the batch's start.
    """
    position = HEADER_SIZE
    for _ in range(batch.count):
        record = read_record(batch.data, position)
        key = WireReader(batch.data, record.key_start, record.key_end)
        key.int16("control record version")
        if key.int16("control record type") == ControlType.LEADER_CHANGE:
            return _decode(WireReader(batch.data, record.value_start, record.value_end))
        position = record.next
    return None


def _decode(reader: WireReader) -> LeaderChange | None:
    version = reader.int16("LeaderChange version")
    if version not in (0, 1):
        return None
    leader_id = _node_id(reader)
    voters = _voters(reader, version)
    _voters(reader, version)  # those that granted their vote
    reader.tagged_fields()
    reader.expect_end("LeaderChange")
    return LeaderChange(leader_id=leader_id, voters=voters)


def _voters(reader: WireReader, version: int) -> tuple[int, ...]:
    count = reader.unsigned_varint("number of voters") - 1
    if count > reader.remaining // NODE_ID_SIZE:
        raise DecodeError(
            f"voters: {count} announced, {reader.remaining} bytes left", reader.position
        )
    voters = []
    for _ in range(count):
        voters.append(_node_id(reader))
        if version:
            reader.take(DIRECTORY_ID_SIZE, "voter's directory id")
        reader.tagged_fields()
    return tuple(voters)


def _node_id(reader: WireReader) -> int:
    return int.from_bytes(reader.take(NODE_ID_SIZE, "node id"), "big", signed=True)
