"""Record batches."""

import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.primitives import varint
from authorizerd.protocol.records.batch import (
    HEADER_SIZE,
    LENGTH_SIZE,
    ControlType,
    RecordBatch,
    batch_size,
    control_key,
    control_types,
    decode_batch,
    encode_batch,
    read_record,
    sealed_size,
)
from tests.support.log_files import TIME_MS, control_batch, flipped, resealed

Record = tuple[bytes | None, bytes]

records = st.lists(
    st.tuples(st.none() | st.binary(max_size=5), st.binary(max_size=300)), min_size=1, max_size=5
)
COMPRESSED = "expected an uncompressed batch, found a compressed one (at byte 21)"
SMALL = encode_batch(7, 3, TIME_MS, [(b"key", b"value"), (None, b""), (b"", b"x" * 70)])


def record_parts(batch: RecordBatch) -> tuple[list[tuple[bytes, bytes]], int]:
    """Return the keys and values of the batch's records, and the end of the last one."""
    found = []
    position = HEADER_SIZE
    for _ in range(batch.count):
        record = read_record(batch.data, position)
        assert position < record.key_start <= record.key_end < record.value_start
        assert record.value_start <= record.value_end < record.next <= len(batch.data)
        key = batch.data[record.key_start : record.key_end]
        found.append((key, batch.data[record.value_start : record.value_end]))
        position = record.next
    return found, position


def with_header(batch: bytes, position: int, form: str, number: int) -> bytes:
    """Return ``batch`` with one header field changed and a correct CRC."""
    changed = bytearray(batch)
    struct.pack_into(form, changed, position, number)
    return resealed(bytes(changed))


def with_record(record: bytes) -> bytes:
    """Return a batch with one record that has these bytes after its length."""
    header = encode_batch(7, 3, TIME_MS, [(None, b"")])[:HEADER_SIZE]
    return resealed(header + varint(len(record)) + record)


def refusal(data: bytes) -> DecodeError:
    with pytest.raises(DecodeError) as refused:
        decode_batch(data)
    return refused.value


@given(st.integers(0, 2**62), st.integers(0, 2**31 - 1), records, st.booleans())
def test_batch_reads_back(
    base_offset: int, epoch: int, records: list[Record], is_control: bool
) -> None:
    """A null key reads as empty."""
    data = encode_batch(base_offset, epoch, TIME_MS, records, is_control=is_control)
    batch = decode_batch(data)
    assert (batch.base_offset, batch.leader_epoch, batch.count) == (
        base_offset,
        epoch,
        len(records),
    )
    assert batch.last_offset == base_offset + len(records) - 1
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (TIME_MS, TIME_MS)
    assert batch.is_control == is_control
    assert batch.data == data
    assert record_parts(batch) == ([(key or b"", value) for key, value in records], len(data))


def test_kafkas_batches_read_back_byte_for_byte(real_log_dir: Path) -> None:
    written = 0
    for path in sorted((real_log_dir / "__cluster_metadata-0").glob("0*.*")):
        left = path.read_bytes()
        while left:
            data, left = left[: batch_size(left)], left[batch_size(left) :]
            batch = decode_batch(data)
            found, end = record_parts(batch)
            assert end == len(data)
            records = [(key or None, value) for key, value in found]
            if batch.base_timestamp_ms == batch.max_timestamp_ms:
                again = encode_batch(
                    batch.base_offset, batch.leader_epoch, batch.base_timestamp_ms, records,
                    is_control=batch.is_control,
                )  # fmt: skip
                assert again == data
                written += 1
    assert written > 200


def test_cut_or_longer_batch_is_rejected() -> None:
    for end in range(len(SMALL)):
        refusal(SMALL[:end])
    for longer in (SMALL + b"\0", SMALL + SMALL):
        assert refusal(longer).position == 8


def test_length_below_the_header_is_rejected() -> None:
    start = SMALL[:8]
    assert batch_size(SMALL) == len(SMALL)
    assert batch_size(start + (49).to_bytes(4, "big")) == HEADER_SIZE
    for length in (48, 0, -1, -(2**31)):
        with pytest.raises(DecodeError, match=f"found {length} .at byte 8"):
            batch_size(start + length.to_bytes(4, "big", signed=True))
    assert len(start) + 4 == LENGTH_SIZE


def test_crc_covers_all_but_offset_length_epoch_and_magic() -> None:
    """Each bit is flipped. A wrong length or magic is rejected by its value."""
    unnoticed = set()
    for position in range(len(SMALL)):
        for bit in range(8):
            try:
                decode_batch(flipped(SMALL, position, 1 << bit))
            except DecodeError:
                continue
            unnoticed.add(position)
    base_offset, epoch = range(8), range(12, 16)
    assert unnoticed == {*base_offset, *epoch}
    assert refusal(flipped(SMALL, 0, 0x80)).position == 23


@pytest.mark.parametrize(
    ("damaged", "text"),
    [
        (SMALL[:16] + b"\1" + SMALL[17:], "expected magic 2, found 1 (at byte 16)"),
        (with_header(SMALL, 21, ">h", 1), COMPRESSED),
        (with_header(SMALL, 21, ">h", 4), COMPRESSED),
        (with_header(SMALL, 23, ">i", 3), "3 records cannot span offsets 7 to 10 (at byte 23)"),
        (with_header(SMALL, 57, ">i", 2), "2 records cannot span offsets 7 to 9 (at byte 23)"),
        (with_header(with_header(SMALL, 57, ">i", 0), 23, ">i", -1),
         "0 records cannot span offsets 7 to 6 (at byte 23)"),
        (with_header(SMALL, 0, ">q", -1), "3 records cannot span offsets -1 to 1 (at byte 23)"),
    ],
)  # fmt: skip
def test_unsupported_batch_is_rejected_despite_its_crc(damaged: bytes, text: str) -> None:
    assert str(refusal(damaged)) == text


def test_error_names_both_crcs() -> None:
    error = refusal(SMALL[:17] + b"\0\0\0\1" + SMALL[21:])
    assert error.reason.startswith("expected CRC-32C 00000001, found ")
    assert error.position == 17


def test_record_headers_are_skipped() -> None:
    headers = varint(2) + varint(1) + b"h" + varint(3) + b"abc" + varint(0) + varint(-1)
    batch = with_record(b"\0\0\0" + varint(-1) + varint(2) + b"ab" + headers)
    assert record_parts(decode_batch(batch)) == ([(b"", b"ab")], len(batch))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"", "record attributes: 1 bytes announced, 0 left"),
        (b"\0" + b"\x80" * 10 + b"\0", "timestamp delta: the varint exceeds 64 bits"),
        (b"\0\0\0" + varint(-2), "key: invalid length -2"),
        (b"\0\0\0" + varint(9) + b"x", "key: 9 bytes announced, 1 left"),
        (b"\0\0\0\1" + varint(-3), "value: invalid length -3"),
        (b"\0\0\0\1" + varint(2) + b"x", "value: 2 bytes announced, 1 left"),
        (b"\0\0\0\1\0" + varint(-1), "expected a number of headers, found -1"),
        (b"\0\0\0\1\0" + varint(1) + varint(-1), "header key: invalid length -1"),
        (b"\0\0\0\1\0" + varint(1) + varint(0) + varint(-2), "header value: invalid length -2"),
        (b"\0\0\0\1\0" + varint(2**31 - 1), "header key length: 1 bytes announced, 0 left"),
        (b"\0\0\0\1\0\0\0", "record: 1 bytes too many"),
    ],
)
def test_wrong_length_within_a_record_is_rejected(record: bytes, reason: str) -> None:
    with pytest.raises(DecodeError) as refused:
        read_record(with_record(record), HEADER_SIZE)
    assert refused.value.reason == reason


@pytest.mark.parametrize("size", [-1, -(2**31), 200, 2**31 - 1])
def test_record_beyond_its_batch_is_rejected(size: int) -> None:
    with pytest.raises(DecodeError, match=f"record: {size} bytes announced, 6 left"):
        read_record(SMALL[:HEADER_SIZE] + varint(size) + b"\0\0\0\1\0\0", HEADER_SIZE)


def test_damaged_record_never_reads_beyond_itself() -> None:
    """Each byte of two records takes each value, with a correct CRC."""
    batch = encode_batch(0, 1, TIME_MS, [(b"k", b"val"), (None, b"x" * 80)])
    for position in range(HEADER_SIZE, len(batch)):
        for byte in range(256):
            data = resealed(batch[:position] + bytes((byte,)) + batch[position + 1 :])
            with suppress(DecodeError):
                record_parts(decode_batch(data))


def test_control_records_have_types() -> None:
    leader_change = bytes.fromhex(
        "00000000000000000000004f000000010258b0c6f9002000000000000001a1fef138b0000001a1fef138b0"
        "ffffffffffffffffffffffffffff000000013a0000000800000002260000000000010200000001000200000001"
        "000000"
    )
    batch = decode_batch(leader_change)
    assert batch.is_control
    assert list(control_types(batch)) == [ControlType.LEADER_CHANGE]
    assert control_key(ControlType.LEADER_CHANGE) == bytes.fromhex("00000002")
    several = encode_batch(
        0, 1, TIME_MS, [(control_key(each), b"") for each in ControlType], is_control=True
    )
    assert list(control_types(decode_batch(several))) == list(ControlType) == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_control_record_with_a_cut_key_is_rejected(key: bytes | None) -> None:
    batch = decode_batch(encode_batch(0, 1, TIME_MS, [(key, b"")], is_control=True))
    with pytest.raises(DecodeError, match="control record"):
        list(control_types(batch))


def test_bytes_after_the_last_control_record_are_rejected() -> None:
    batch = decode_batch(resealed(control_batch(0, ControlType.SNAPSHOT_FOOTER) + b"\0"))
    with pytest.raises(DecodeError, match="bytes follow the last record"):
        list(control_types(batch))


@given(st.data())
def test_damaged_control_batch_is_types_or_a_decode_error(data: st.DataObject) -> None:
    body = data.draw(st.binary(max_size=40) | st.just(control_batch(0, ControlType.LEADER_CHANGE)))
    batch = resealed(control_batch(0, ControlType.LEADER_CHANGE)[:HEADER_SIZE] + body)
    with suppress(DecodeError):
        assert len(list(control_types(decode_batch(batch)))) == 1


@given(records, st.binary(max_size=100))
def test_sealed_size_ignores_the_announced_length(records: list[Record], following: bytes) -> None:
    """It also ignores the bytes after the batch."""
    batch = encode_batch(5, 1, TIME_MS, records)
    lying = batch[:8] + b"\x7f\xff\xff\xff" + batch[12:]
    assert sealed_size(lying + following) == len(batch)


def test_cut_or_damaged_batch_has_no_sealed_size() -> None:
    for end in range(len(SMALL)):
        assert sealed_size(SMALL[:end]) is None
    for position in range(17, len(SMALL)):
        for bit in range(8):
            assert sealed_size(flipped(SMALL, position, 1 << bit)) is None
