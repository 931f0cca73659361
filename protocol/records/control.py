"""The control records that frame a metadata log and a checkpoint.

Source: KIP-595 (LeaderChangeMessage), KIP-630 (SnapshotHeaderRecord, SnapshotFooterRecord),
KIP-482 (readers skip the tagged fields that they do not know).
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.primitives import WireReader, unsigned_varint
from authorizerd.protocol.records.batch import (
    HEADER_SIZE,
    BatchMark,
    ControlType,
    RecordBatch,
    control_key,
    read_record,
)

Record = tuple[bytes | None, bytes]

_VERSION = b"\0\0"
_NO_TAGS = b"\0"

END_OFFSET_TAG: Final = 10_000
"""This daemon's own field of a SnapshotHeader. Kafka numbers its tags upwards from 0."""

LAST_BATCH_TAG: Final = 10_002
"""This daemon's own field of a SnapshotHeader: the header of the last batch that it covers."""

FACTS_TAG: Final = 10_001
"""This daemon's own field of a SnapshotFooter: the facts about a backup, as JSON."""


def leader_change(leader_id: int) -> Record:
    """Return the record that begins an epoch: ``leader_id`` leads, elected by its own vote."""
    # The list is written twice: as the voters, and as the voters that granted their vote.
    voters = b"\2" + struct.pack(">i", leader_id) + _NO_TAGS
    value = _VERSION + struct.pack(">i", leader_id) + voters + voters + _NO_TAGS
    return control_key(ControlType.LEADER_CHANGE), value


class SnapshotHeader(msgspec.Struct, frozen=True):
    """The header of a checkpoint. ``end_offset`` (exclusive) is None if Kafka wrote it.

    ``last_batch`` identifies the last batch that the checkpoint covers, if it is known.
    """

    last_timestamp_ms: int
    end_offset: int | None
    last_batch: BatchMark | None = None


def snapshot_header(
    last_contained_log_timestamp_ms: int,
    *,
    end_offset: int | None = None,
    last_batch: BatchMark | None = None,
) -> Record:
    """Return the first record of a checkpoint; without ``end_offset``, exactly as Kafka writes it.

    In Kafka's form, only the checkpoint's file name gives the end offset, and no CRC covers it.
    """
    fields = []
    if end_offset is not None:
        fields.append((END_OFFSET_TAG, struct.pack(">q", end_offset)))
    if last_batch is not None:
        fields.append((LAST_BATCH_TAG, last_batch.header))
    tags = unsigned_varint(len(fields)) + b"".join(
        unsigned_varint(tag) + unsigned_varint(len(data)) + data for tag, data in fields
    )
    value = _VERSION + struct.pack(">q", last_contained_log_timestamp_ms) + tags
    return control_key(ControlType.SNAPSHOT_HEADER), value


def decode_snapshot_header(batch: RecordBatch) -> SnapshotHeader | None:
    """Return the header at the start of a checkpoint's first batch, or None for an unknown version.

    Raises:
        DecodeError: it cannot be read. The position counts from the batch's start.
    """
    record = read_record(batch.data, HEADER_SIZE)
    reader = WireReader(batch.data, record.value_start, record.value_end)
    if reader.int16("SnapshotHeader version"):
        return None
    timestamp_ms = _int64(reader.take(8, "last contained log timestamp"))
    fields = reader.tagged_fields()
    field, last = fields.get(END_OFFSET_TAG), fields.get(LAST_BATCH_TAG)
    reader.expect_end("SnapshotHeader")
    if field is not None and len(field) != 8:
        raise DecodeError(f"end offset: expected 8 bytes, found {len(field)}", reader.end)
    if last is not None and len(last) != HEADER_SIZE:
        raise DecodeError(
            f"last batch: expected {HEADER_SIZE} bytes, found {len(last)}", reader.end
        )
    return SnapshotHeader(
        timestamp_ms,
        None if field is None else _int64(field),
        None if last is None else BatchMark(_int64(last[:8]), bytes(last)),
    )


def _int64(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def snapshot_footer(facts: bytes | None = None) -> Record:
    """Return the last record of a checkpoint; without ``facts``, exactly as Kafka writes it."""
    tags = _NO_TAGS
    if facts is not None:
        tags = b"\1" + unsigned_varint(FACTS_TAG) + unsigned_varint(len(facts)) + facts
    return control_key(ControlType.SNAPSHOT_FOOTER), _VERSION + tags


def decode_snapshot_footer(batch: RecordBatch) -> bytes | None:
    """Return the facts in the first record of a checkpoint's last batch, or None without any.

    Raises:
        DecodeError: the record cannot be read. The position counts from the batch's start.
    """
    record = read_record(batch.data, HEADER_SIZE)
    reader = WireReader(batch.data, record.value_start, record.value_end)
    if reader.int16("SnapshotFooter version"):
        return None
    facts = reader.tagged_fields().get(FACTS_TAG)
    reader.expect_end("SnapshotFooter")
    return facts
