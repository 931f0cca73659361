"""The Voters record, as kio writes it."""

from __future__ import annotations

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
from authorizerd.protocol.records.control import leader_change
from authorizerd.protocol.records.voters import Voters, decode_voters
from tests.support.voters import voters_value

KEY = control_key(ControlType.KRAFT_VOTERS)
LISTENERS = st.dictionaries(
    st.text(max_size=3), st.tuples(st.text(max_size=3), st.integers(0, 2**16 - 1)), max_size=3
)
SOME = {1: {"CONTROLLER": ("a", 9093), "SECURE": ("a", 9094)}, 2: {"CONTROLLER": ("b", 9093)}}


def batch(*records: tuple[bytes | None, bytes]) -> RecordBatch:
    return decode_batch(encode_batch(0, 1, 0, records, is_control=True))


@given(st.dictionaries(st.integers(-1, 2**31 - 1), LISTENERS, max_size=3))
def test_voters_read_back(voters: Voters) -> None:
    assert decode_voters(batch((KEY, voters_value(voters)))) == voters


def test_the_newest_voters_of_a_batch_count() -> None:
    records = [
        leader_change(1),
        (KEY, voters_value({})),
        (KEY, voters_value(SOME)),
        leader_change(2),
    ]
    assert decode_voters(batch(*records)) == SOME
    assert decode_voters(batch(leader_change(1))) is None


def test_an_unknown_version_counts_as_none() -> None:
    assert decode_voters(batch((KEY, b"\0\1" + voters_value(SOME)[2:]))) is None


def test_cut_or_longer_voters_are_rejected() -> None:
    value = voters_value(SOME)
    for end in range(len(value)):
        with pytest.raises(DecodeError):
            decode_voters(batch((KEY, value[:end])))
    with pytest.raises(DecodeError, match="1 bytes too many"):
        decode_voters(batch((KEY, value + b"\0")))


def test_impossible_number_of_voters_is_rejected() -> None:
    with pytest.raises(DecodeError, match="voters: 4294967294 announced"):
        decode_voters(batch((KEY, b"\0\0\xff\xff\xff\xff\x0f")))


@given(st.binary(max_size=60))
def test_any_bytes_are_voters_or_a_named_error(data: bytes) -> None:
    with suppress(DecodeError):
        decode_voters(batch((KEY, b"\0\0" + data)))
