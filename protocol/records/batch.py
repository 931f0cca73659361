"""Record batches (magic 2) with their CRC, the records in them, and control records.

**Invariant:** no part of a batch is trusted before its length and CRC are verified.

Source: Kafka documentation, "Record Batch"; KIP-595 and KIP-630 for the control records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final

import msgspec
from crc32c import crc32c

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.primitives import VARLONG_BITS, WireReader, varint

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH: Final = struct.Struct(">qi")
_LAST_OFFSET_DELTA: Final = 6
"""The number of this field in the header."""
_CRC_START: Final = 21
_MAGIC: Final = 2
_COMPRESSION_MASK: Final = 0x07
_CONTROL_ATTRIBUTE: Final = 0x20

HEADER_SIZE: Final = _HEADER.size
LENGTH_SIZE: Final = _LENGTH.size
"""The number of bytes at a batch's start that determine its size: see ``batch_size``."""

_LENGTH_MIN: Final = HEADER_SIZE - LENGTH_SIZE
_NULL_KEY: Final = varint(-1)
_VARINTS_KEPT: Final = 16_384


class ControlType(IntEnum):
    """The control records of a metadata log; others are skipped."""

    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class BatchMark(msgspec.Struct, frozen=True, gc=False):
    """Identifies a batch: its offset, and its header with epoch, CRC and times."""

    base_offset: int
    header: bytes

    @property
    def last_offset(self) -> int:
        return self.base_offset + int(_HEADER.unpack(self.header)[_LAST_OFFSET_DELTA])


class RecordBatch(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One batch with a valid CRC. ``data`` is the whole batch, header included.

    It has ``count`` records with dense offsets from ``base_offset``. Times are milliseconds since
    1970.
    """

    base_offset: int
    leader_epoch: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    attributes: int
    count: int
    data: bytes

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.count - 1

    @property
    def mark(self) -> BatchMark:
        """Distinguishes this batch from one of another log at the same offset."""
        return BatchMark(self.base_offset, bytes(self.data[:HEADER_SIZE]))

    @property
    def is_control(self) -> bool:
        return self.attributes & _CONTROL_ATTRIBUTE != 0


def batch_size(start: bytes) -> int:
    """Return the size in bytes of the batch that begins with ``start``, ``LENGTH_SIZE`` bytes.

    Raises:
        DecodeError: the announced length is impossible.
    """
    length = _LENGTH.unpack_from(start)[1]
    if length < _LENGTH_MIN:
        raise DecodeError(f"expected a batch length of at least {_LENGTH_MIN}, found {length}", 8)
    return LENGTH_SIZE + int(length)


def decode_batch(data: bytes) -> RecordBatch:
    """Return the batch in ``data``, which must be exactly one batch.

    Raises:
        DecodeError: the magic is not 2, the CRC is wrong, the batch is compressed, or its offsets
            are not dense.
    """
    if len(data) < HEADER_SIZE or batch_size(data) != len(data):
        raise DecodeError(f"the length field does not match the batch of {len(data)} bytes", 8)
    (
        base_offset, _, leader_epoch, magic, crc, attributes, last_offset_delta,
        base_timestamp, max_timestamp, _, _, _, count,
    ) = _HEADER.unpack_from(data)  # fmt: skip
    # Check the magic before the CRC: other formats have the CRC elsewhere.
    if magic != _MAGIC:
        raise DecodeError(f"expected magic 2, found {magic}", 16)
    # A view, since a slice would copy the batch.
    found = crc32c(memoryview(data)[_CRC_START:])
    if found != crc:
        raise DecodeError(f"expected CRC-32C {crc:08x}, found {found:08x}", 17)
    if attributes & _COMPRESSION_MASK:
        raise DecodeError("expected an uncompressed batch, found a compressed one", 21)
    # Compaction, which leaves gaps and empty batches, does not apply to metadata logs.
    if base_offset < 0 or count < 1 or last_offset_delta != count - 1:
        raise DecodeError(
            f"{count} records cannot span offsets {base_offset} to "
            f"{base_offset + last_offset_delta}",
            23,
        )
    return RecordBatch(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        base_timestamp_ms=base_timestamp,
        max_timestamp_ms=max_timestamp,
        attributes=attributes,
        count=count,
        data=data,
    )


def encode_batch(
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    records: Sequence[tuple[bytes | None, bytes]],
    *,
    is_control: bool = False,
) -> bytes:
    """Return a batch of ``records``, which are pairs of key and value. All have the same time."""
    assert records, "a batch has at least one record"
    body = b"".join(_encode_record(n, key, value) for n, (key, value) in enumerate(records))
    header = _HEADER.pack(
        base_offset, _LENGTH_MIN + len(body), leader_epoch, _MAGIC, 0,
        _CONTROL_ATTRIBUTE if is_control else 0, len(records) - 1,
        timestamp_ms, timestamp_ms, -1, -1, -1, len(records),
    )  # fmt: skip
    checked = header[_CRC_START:] + body
    return header[: _CRC_START - 4] + crc32c(checked).to_bytes(4, "big") + checked


@lru_cache(maxsize=_VARINTS_KEPT)
def _varint(value: int) -> bytes:
    """Return ``varint(value)``. Batches repeat the same sizes and offsets, and this is faster."""
    return varint(value)


def _encode_record(offset_delta: int, key: bytes | None, value: bytes) -> bytes:
    delta, size = _varint(offset_delta), _varint(len(value))
    key_part = _NULL_KEY if key is None else varint(len(key)) + key
    # Two bytes precede the offset: the attributes and the time. No headers follow the value.
    length = 3 + len(delta) + len(key_part) + len(size) + len(value)
    return b"".join((_varint(length), b"\0\0", delta, key_part, size, value, b"\0"))


class RecordRange(msgspec.Struct, frozen=True, gc=False):
    """The bounds of a record's key and value in its batch, and the next record's position."""

    key_start: int
    key_end: int
    value_start: int
    value_end: int
    next: int


def read_record(data: bytes, position: int) -> RecordRange:
    """Return the bounds of the parts of the record at ``position``.

    Raises:
        DecodeError: a length exceeds the record, or the record exceeds the batch.
    """
    outer = WireReader(data, position, len(data))
    size = outer.varint("record length")
    if size < 0 or size > outer.remaining:
        raise DecodeError(f"record: {size} bytes announced, {outer.remaining} left", position)
    reader = WireReader(data, outer.position, outer.position + size)
    reader.int8("record attributes")
    reader.varint("timestamp delta", VARLONG_BITS)
    reader.varint("offset delta")
    key_start, key_end = _skip_sized(reader, "key")
    value_start, value_end = _skip_sized(reader, "value")
    headers = reader.varint("number of headers")
    if headers < 0:
        raise DecodeError(f"expected a number of headers, found {headers}", reader.position)
    for _ in range(headers):
        _skip_sized(reader, "header key", size_min=0)
        _skip_sized(reader, "header value")
    reader.expect_end("record")
    return RecordRange(key_start, key_end, value_start, value_end, reader.end)


def _skip_sized(reader: WireReader, what: str, *, size_min: int = -1) -> tuple[int, int]:
    """Return the bounds of bytes that follow their size. -1 (null) reads as empty."""
    size_at = reader.position
    size = reader.varint(f"{what} length")
    if size < size_min:
        raise DecodeError(f"{what}: invalid length {size}", size_at)
    start = reader.position
    reader.take(max(size, 0), what)
    return start, reader.position


def sealed_size(data: bytes) -> int | None:
    """Return the size of the batch at the start of ``data``, computed from its records and its CRC.

    Return None if the batch is incomplete or damaged. The CRC does not cover the announced length,
    so this distinguishes a torn batch from a complete one whose length is damaged.
    """
    if len(data) < HEADER_SIZE:
        return None
    header = _HEADER.unpack_from(data)
    crc, count = header[4], header[12]
    position = HEADER_SIZE
    try:
        for _ in range(count):
            position = read_record(data, position).next
    except DecodeError:
        return None
    return position if crc32c(memoryview(data)[_CRC_START:position]) == crc else None


def control_types(batch: RecordBatch) -> Iterator[int]:
    """Yield the type of each control record of a control batch.

    Raises:
        DecodeError: a record's key is not a control key.
    """
    position = HEADER_SIZE
    for _ in range(batch.count):
        record = read_record(batch.data, position)
        key = WireReader(batch.data, record.key_start, record.key_end)
        key.int16("control record version")
        yield key.int16("control record type")
        position = record.next
    if position != len(batch.data):
        raise DecodeError("bytes follow the last record of the batch", position)


def control_key(control_type: ControlType) -> bytes:
    """Return the key of a control record: version 0 and its type."""
    return struct.pack(">hh", 0, control_type)
