"""The LeaderChange record."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import (
    ControlType,
    RecordBatch,
    control_key,
    decode_batch,
    encode_batch,
)
from authorizerd.protocol.records.control import leader_change, snapshot_footer
from authorizerd.protocol.records.leader_change import LeaderChange, decode_leader_change

KEY = control_key(ControlType.LEADER_CHANGE)


def batch(*records: tuple[bytes | None, bytes]) -> RecordBatch:
    return decode_batch(encode_batch(0, 1, 0, records, is_control=True))


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
    assert decode_leader_change(batch((KEY, value))) == LeaderChange(leader_id=2, voters=(1, 2))
    assert decode_leader_change(batch((KEY, b"\0\2" + value[2:]))) is None


def test_cut_or_longer_leader_change_is_rejected() -> None:
    _, value = leader_change(7)
    for end in range(len(value)):
        with pytest.raises(DecodeError):
            decode_leader_change(batch((KEY, value[:end])))
    with pytest.raises(DecodeError, match="1 bytes too many"):
        decode_leader_change(batch((KEY, value + b"\0")))


def test_impossible_number_of_voters_is_rejected() -> None:
    value = b"\0\0" + struct.pack(">i", 1) + b"\xff\xff\xff\xff\x0f"
    with pytest.raises(DecodeError, match="voters: 4294967294 announced, 0 bytes left"):
        decode_leader_change(batch((KEY, value)))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_leader_change_or_a_decode_error(value: bytes) -> None:
    with suppress(DecodeError):
        decode_leader_change(batch((KEY, value)))
