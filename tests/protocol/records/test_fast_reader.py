"""The fast reader, compared with the general decoder, record by record and error by error."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, AclAdded
from authorizerd.image.changes import FeatureLevel
from authorizerd.metadata.directory import LogFiles, find_files
from authorizerd.metadata.log import MetadataLog
from authorizerd.protocol.primitives import unsigned_varint, varint
from authorizerd.protocol.records import fast_reader as record_reader
from authorizerd.protocol.records.batch import HEADER_SIZE, RecordBatch, decode_batch
from authorizerd.protocol.records.fast_reader import RECORDS_PER_SLICE, Texts, read_records
from authorizerd.protocol.records.metadata import (
    BeginTransaction,
    EndTransaction,
    MetadataRecord,
    encode_value,
)
from tests.support.log_files import acl_id, added, data_batch, removed, resealed
from tests.support.record_readers import read_fast, read_general
from tests.support.strategies import metadata_records


def with_body(count: int, body: bytes) -> RecordBatch:
    """Return a batch that announces ``count`` records, with any body."""
    header = data_batch(0, [b"\0"] * count)[:HEADER_SIZE]
    return decode_batch(resealed(header + body))


def longer(encoded: bytes) -> bytes:
    """Return the same varint with a byte more, as no writer does."""
    return encoded[:-1] + bytes((encoded[-1] | 0x80, 0))


@st.composite
def varints(draw: st.DrawFn, numbers: st.SearchStrategy[int]) -> bytes:
    encoded = varint(draw(numbers))
    return longer(encoded) if draw(st.integers(0, 9)) == 0 else encoded


@st.composite
def values(draw: st.DrawFn) -> bytes:
    """Return a value: a record, with tagged fields, or of another type, version or frame."""
    value = encode_value(draw(metadata_records()))
    match draw(st.integers(0, 9)):
        case 0:
            tag = unsigned_varint(draw(st.integers(0, 300)))
            return value[:-1] + b"\1" + tag + b"\2xy"
        case 1:
            at = draw(st.integers(0, 2))
            return value[:at] + unsigned_varint(draw(st.integers(0, 300))) + value[at + 1 :]
        case 2:
            return draw(st.binary(max_size=4))
        case 3:
            return longer(value[:1]) + value[1:]
        case _:
            return value


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """Return a record as another writer might encode it: with a key, headers, large deltas."""
    value = draw(values())
    key = draw(st.sampled_from([varint(-1), varint(-1), varint(0), varint(3) + b"key"]))
    headers = draw(st.sampled_from([b"\0", b"\0", b"\0", b"\2\2h\1", b"\2\2h\4ab"]))
    body = (
        bytes((draw(st.sampled_from([0, 0, 255])),))
        + draw(varints(st.sampled_from([0, 1, 100, 2**35, 2**62, -(2**63)])))
        + draw(varints(st.sampled_from([0, 5, 200, 2**20, 2**31 - 1, -(2**31)])))
        + key
        + draw(varints(st.just(len(value))))
        + value
        + headers
    )
    return draw(varints(st.just(len(body)))) + body


@given(st.lists(records(), min_size=1, max_size=4), st.sampled_from([b"", b"", b"\0"]))
def test_any_record_reads_as_by_the_general_decoder(records: list[bytes], trailing: bytes) -> None:
    batch = with_body(len(records), b"".join(records) + trailing)
    assert read_fast(batch) == read_general(batch)


@given(
    st.lists(metadata_records(), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(-3, 3),
)
def test_any_damage_reads_as_by_the_general_decoder(
    records: list[MetadataRecord], damage: list[tuple[int, int]], growth: int
) -> None:
    """The damaged batch has a correct CRC."""
    body = bytearray(data_batch(0, records)[HEADER_SIZE:])
    for position, byte in damage:
        body[position % len(body)] = byte
    body = body[:growth] if growth < 0 else body + bytes(growth)
    batch = with_body(len(records), bytes(body))
    assert read_fast(batch) == read_general(batch)


@pytest.mark.parametrize("size", range(1, 13))
def test_deltas_of_any_size_read_as_by_the_general_decoder(size: int) -> None:
    value = encode_value(added(1))
    rest = b"\1" + varint(len(value)) + value + b"\0"
    delta = b"\x80" * (size - 1) + b"\0"
    too_large = b"\xff" * (size - 1) + b"\x7f"
    for body, is_read in (
        (delta + b"\0", size <= 10),
        (b"\0" + delta, size <= 5),
        (too_large + b"\0", size <= 9),
        (b"\0" + too_large, size <= 4),
    ):
        record = b"\0" + body + rest
        batch = with_body(1, varint(len(record)) + record)
        assert read_fast(batch) == read_general(batch)
        assert (read_fast(batch) == [added(1)]) == is_read


def test_key_is_never_read_as_a_value() -> None:
    """The record's size takes three bytes. After two, the key would look like an ACL."""
    key = encode_value(AclAdded(acl_id(1), Acl(2, "x" * 8150, 3, "User:a", "*", 3, 3)))
    record = b"\0\0\1" + varint(len(key)) + key + b"\0\0"
    assert varint(len(record)) == b"\x80\x80\1"
    batch = with_body(1, varint(len(record)) + record)
    assert isinstance(read_general(batch), str)
    assert read_fast(batch) == read_general(batch)


SHIFTED = "User:".ljust(114, "x")
"""A principal whose second letter has its size as code. If a reader begins one byte too early, the
ACL still ends at the right place, so the length alone does not reveal the mistake."""


@pytest.mark.parametrize(
    "value",
    [
        encode_value(AclAdded(acl_id(1), Acl(2, "x" * 127, 3, SHIFTED, "*", 3, 3))),
        encode_value(
            AclAdded(acl_id(1), Acl(2, "x", 3, "User:x".ljust(126, "x") + "*", "h" * 40, 3, 3))
        ),
        encode_value(AclAdded(acl_id(1), Acl(2, "", 3, SHIFTED, "*", 3, 3))).replace(
            b"\2\1\3", b"\2\0\3"
        ),
        encode_value(AclAdded(acl_id(1), Acl(2, "x", 3, "User:a", "", 3, 0)))[:-4] + b"\0\3\0",
    ],
    ids=["long name", "long principal", "null name", "null host"],
)
def test_size_of_several_bytes_is_never_read_as_one_byte(value: bytes) -> None:
    """Otherwise each of these would read as another ACL."""
    batch = decode_batch(data_batch(0, [value]))
    assert read_fast(batch) == read_general(batch)


def test_each_byte_with_each_value_reads_as_by_the_general_decoder() -> None:
    batch = data_batch(0, [added(1), removed(1), FeatureLevel("metadata.version", 30)])
    refused = 0
    for position in range(HEADER_SIZE, len(batch)):
        for byte in range(256):
            data = batch[:position] + bytes((byte,)) + batch[position + 1 :]
            damaged = decode_batch(resealed(data))
            found = read_fast(damaged)
            assert found == read_general(damaged)
            refused += isinstance(found, str)
    assert refused > 10_000


def test_cut_batch_is_rejected() -> None:
    body = data_batch(0, [added(1), removed(2), added(3)])[HEADER_SIZE:]
    for end in range(len(body)):
        batch = with_body(3, body[:end])
        assert isinstance(read_fast(batch), str)
        assert read_fast(batch) == read_general(batch)


def test_log_of_a_broker_reads_as_by_the_general_decoder(real_log_dir: Path) -> None:
    batches = [each.placed.batch for each in MetadataLog.open(real_log_dir).batches()]
    segment = MetadataLog(LogFiles(find_files(real_log_dir).segments, ()))
    batches += [each.placed.batch for each in segment.batches()]
    for batch in batches:
        if not batch.is_control:
            assert read_fast(batch) == read_general(batch)


def test_common_acls_are_read_inline(monkeypatch: pytest.MonkeyPatch) -> None:
    usual: list[MetadataRecord] = [
        added(1),
        removed(1),
        added(2, Acl(3, "é" * 60, 4, "User:*", "10.0.0.1", 15, 2)),
    ]
    batch = decode_batch(data_batch(0, usual * 300))
    monkeypatch.delattr(record_reader, "read_record")
    monkeypatch.delattr(record_reader, "decode_value")
    assert read_fast(batch) == usual * 300


def test_records_come_in_slices() -> None:
    """They come in order. A skipped record makes its slice shorter."""
    batch = data_batch(0, [b"\1\x0e\0" if n % 2 else added(n) for n in range(600)])
    slices = list(read_records(decode_batch(batch), Texts()))
    assert [len(each) for each in slices] == [RECORDS_PER_SLICE // 2] * (
        600 // RECORDS_PER_SLICE
    ) + [44]
    assert [record for each in slices for record in each] == [added(n) for n in range(0, 600, 2)]


def test_bytes_after_the_last_record_are_rejected() -> None:
    batch = with_body(1, data_batch(0, [added(1), added(2)])[HEADER_SIZE:])
    assert str(read_fast(batch)).startswith("bytes follow the last record of the batch")


def test_fault_has_its_position_in_the_batch() -> None:
    first = len(data_batch(0, [added(1)]))
    batch = decode_batch(data_batch(0, [added(1), b"\1\x12\1"]))
    assert read_fast(batch) == (
        f"ACCESS_CONTROL_ENTRY record: expected version 0, found 1 (at byte {first + 6})"
    )


def test_transactions_keep_their_order() -> None:
    records: list[MetadataRecord] = [BeginTransaction("a"), added(1), EndTransaction(), added(2)]
    assert read_fast(decode_batch(data_batch(0, records))) == records


def test_texts_are_shared_and_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_reader, "_TEXTS_KEPT", 4)
    texts = Texts()
    principal = texts.decode(b"User:a")
    assert texts.decode(b"host") is not principal
    assert texts.decode(b"User:a") is principal
    acls = [Acl(2, "t", 3, f"User:{n}", "*", 3, 3) for n in range(20)]
    batch = decode_batch(data_batch(0, [AclAdded(acl_id(n), acl) for n, acl in enumerate(acls)]))
    assert [r for piece in read_records(batch, texts) for r in piece] == read_general(batch)
    assert len(texts._by_bytes) <= 4
    assert len(texts._entries) <= 4


def test_invalid_utf8_is_rejected_by_field() -> None:
    value = encode_value(AclAdded(acl_id(1), Acl(2, "ab", 3, "User:a", "*", 3, 3)))
    found = read_fast(decode_batch(data_batch(0, [value.replace(b"ab", b"a\xff")])))
    assert str(found).startswith("resource name: not UTF-8")
