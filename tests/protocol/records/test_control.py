"""Control records, and what those of a log and of a checkpoint say."""

import struct
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import (
    ControlType,
    RecordBatch,
    control_key,
    control_types,
    decode_batch,
    encode_batch,
)
from authorizerd.protocol.records.control import (
    SnapshotHeader,
    decode_snapshot_header,
    leader_change,
    snapshot_footer,
    snapshot_header,
)
from authorizerd.protocol.records.leader_change import LeaderChange, decode_leader_change
from authorizerd.protocol.records.voters import Voters, decode_voters
from tests.support.voters import voters_value

LEADER_KEY = control_key(ControlType.LEADER_CHANGE)
VOTERS_KEY = control_key(ControlType.KRAFT_VOTERS)
LISTENERS = st.dictionaries(
    st.text(max_size=3), st.tuples(st.text(max_size=3), st.integers(0, 2**16 - 1)), max_size=3
)
SOME = {1: {"CONTROLLER": ("a", 9093), "SECURE": ("a", 9094)}, 2: {"CONTROLLER": ("b", 9093)}}
Decode = Callable[[RecordBatch], object]


def batch(*records: tuple[bytes | None, bytes]) -> RecordBatch:
    return decode_batch(encode_batch(0, 1, 0, records, is_control=True))


def test_control_records_are_those_of_a_broker() -> None:
    assert leader_change(1) == (
        bytes.fromhex("00000002"),
        bytes.fromhex("0000 00000001 02 00000001 00 02 00000001 00 00"),
    )
    assert snapshot_header(0x1A1FEF14D65) == (
        bytes.fromhex("00000003"),
        bytes.fromhex("0000 000001a1fef14d65 00"),
    )
    assert snapshot_footer() == (bytes.fromhex("00000004"), bytes.fromhex("0000 00"))


def test_control_batch_reads_back_by_type() -> None:
    read = batch(leader_change(1), snapshot_header(0), snapshot_footer())
    assert read.is_control
    assert list(control_types(read)) == [
        ControlType.LEADER_CHANGE,
        ControlType.SNAPSHOT_HEADER,
        ControlType.SNAPSHOT_FOOTER,
    ]


HEADERS = {
    "as Kafka writes it": ("0000 000000000000002a 00", SnapshotHeader(42, None)),
    "with its end": ("0000 000000000000002a 01 904e 08 0000000000000007", SnapshotHeader(42, 7)),
    "with another field": ("0000 000000000000002a 01 00 02 abcd", SnapshotHeader(42, None)),
    "of a later version": ("0001 ff", None),
    "cut off": ("0000 0000", DecodeError),
    "with a cut end offset": ("0000 000000000000002a 01 904e 02 0007", DecodeError),
    "with a cut last batch": ("0000 000000000000002a 01 924e 02 0007", DecodeError),
    "with bytes behind it": ("0000 000000000000002a 00 00", DecodeError),
}


@pytest.mark.parametrize("name", HEADERS)
def test_checkpoint_header_has_the_end_offset(name: str) -> None:
    """The offset is in a tagged field, which Kafka's readers skip."""
    text, wanted = HEADERS[name]
    read = batch((control_key(ControlType.SNAPSHOT_HEADER), bytes.fromhex(text)), snapshot_footer())
    if wanted is DecodeError:
        with pytest.raises(DecodeError):
            decode_snapshot_header(read)
    else:
        assert decode_snapshot_header(read) == wanted


@pytest.mark.parametrize("end_offset", [None, 0, 7, 2**63 - 1])
def test_checkpoint_header_reads_back(end_offset: int | None) -> None:
    last = None if end_offset is None else batch(leader_change(1)).mark
    header = snapshot_header(42, end_offset=end_offset, last_batch=last)
    assert decode_snapshot_header(batch(header)) == SnapshotHeader(42, end_offset, last)


@given(st.integers(-(2**31), 2**31 - 1))
def test_leader_change_reads_back(node_id: int) -> None:
    read = decode_leader_change(batch(leader_change(node_id)))
    assert read == LeaderChange(leader_id=node_id, voters=(node_id,))


def test_leader_change_is_found_among_other_control_records() -> None:
    read = decode_leader_change(batch(snapshot_footer(), leader_change(4)))
    assert read == LeaderChange(leader_id=4, voters=(4,))
    assert decode_leader_change(batch(snapshot_footer())) is None


def test_voters_of_version_1_have_directories() -> None:
    """Source: KIP-853. Later versions are skipped."""
    voters = b"\3" + b"".join(struct.pack(">i16sx", number, b"d" * 16) for number in (1, 2))
    value = b"\0\1" + struct.pack(">i", 2) + voters + b"\1" + b"\0"
    found = decode_leader_change(batch((LEADER_KEY, value)))
    assert found == LeaderChange(leader_id=2, voters=(1, 2))
    assert decode_leader_change(batch((LEADER_KEY, b"\0\2" + value[2:]))) is None


@given(st.dictionaries(st.integers(-1, 2**31 - 1), LISTENERS, max_size=3))
def test_voters_read_back(voters: Voters) -> None:
    assert decode_voters(batch((VOTERS_KEY, voters_value(voters)))) == voters


def test_the_newest_voters_of_a_batch_count() -> None:
    older, newer = (VOTERS_KEY, voters_value({})), (VOTERS_KEY, voters_value(SOME))
    assert decode_voters(batch(leader_change(1), older, newer, leader_change(2))) == SOME
    assert decode_voters(batch(leader_change(1))) is None


def test_voters_of_an_unknown_version_count_as_none() -> None:
    assert decode_voters(batch((VOTERS_KEY, b"\0\1" + voters_value(SOME)[2:]))) is None


@pytest.mark.parametrize(
    ("decode", "key", "value"),
    [
        (decode_leader_change, LEADER_KEY, leader_change(7)[1]),
        (decode_voters, VOTERS_KEY, voters_value(SOME)),
    ],
)
def test_cut_or_longer_record_is_rejected(decode: Decode, key: bytes, value: bytes) -> None:
    for end in range(len(value)):
        with pytest.raises(DecodeError):
            decode(batch((key, value[:end])))
    with pytest.raises(DecodeError, match="1 bytes too many"):
        decode(batch((key, value + b"\0")))


@pytest.mark.parametrize(
    ("decode", "key", "start"),
    [
        (decode_leader_change, LEADER_KEY, b"\0\0" + struct.pack(">i", 1)),
        (decode_voters, VOTERS_KEY, b"\0\0"),
    ],
)
def test_impossible_number_of_voters_is_rejected(decode: Decode, key: bytes, start: bytes) -> None:
    with pytest.raises(DecodeError, match="voters: 4294967294 announced, 0 bytes left"):
        decode(batch((key, start + b"\xff\xff\xff\xff\x0f")))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_record_or_a_decode_error(value: bytes) -> None:
    with suppress(DecodeError):
        decode_leader_change(batch((LEADER_KEY, value)))
    with suppress(DecodeError):
        decode_voters(batch((VOTERS_KEY, b"\0\0" + value)))
