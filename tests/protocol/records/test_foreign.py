"""Records that only the metadata shell reads: any bytes give a value or a DecodeError."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.primitives import compact_string
from authorizerd.protocol.records.foreign import ForeignType, decode_foreign
from tests.support.foreign_records import (
    ONE_ID,
    TWO_IDS,
    broker,
    changed,
    controller,
    frame,
    int32,
    int64,
    quota,
    token,
)

RECORDS = (
    broker(tags=b"\2\0\x21" + TWO_IDS + b"\1\x11" + ONE_ID),
    changed(tags=b"\4\0\1\1\1\1\1\2\x11" + ONE_ID + b"\3\1\0"),
    controller(),
    quota("q", 1.5, user=None, client_id="c"),
    token("t"),
    frame(ForeignType.UNREGISTER_BROKER, int32(1), int64(2)),
    frame(ForeignType.FENCE_BROKER, int32(1), int64(2)),
    frame(ForeignType.PRODUCER_IDS, int32(1), int64(2), int64(3)),
    frame(ForeignType.REMOVE_DELEGATION_TOKEN, compact_string("t")),
    frame(ForeignType.CLEAR_ELR, compact_string("")),
    bytes.fromhex("011d000000000700"),  # UnregisterControllerRecord of 7, by Kafka 4.4
)


@pytest.mark.parametrize("record", RECORDS)
def test_record_is_read_whole_or_not_at_all(record: bytes) -> None:
    assert decode_foreign(b"x" + record + b"x", 1, len(record) + 1) is not None
    for end in range(len(record)):
        with pytest.raises(DecodeError):
            decode_foreign(record, 0, end)
    with pytest.raises(DecodeError, match="bytes too many"):
        decode_foreign(record + b"\0", 0, len(record) + 1)


@pytest.mark.parametrize("record", [broker(), changed(), *RECORDS[2:]])
def test_later_version_or_unknown_tag_is_not_read(record: bytes) -> None:
    for other in (record[:2] + b"\x09" + record[3:], record[:-1] + b"\1\x09\0"):
        assert decode_foreign(other, 0, len(other)) is None


@given(st.sampled_from(RECORDS), st.data())
def test_changed_bytes_raise_no_other_error(record: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(3, len(record) - 1))
    mutated = record[:position] + data.draw(st.binary(max_size=4)) + record[position + 1 :]
    with suppress(DecodeError):
        decode_foreign(mutated, 0, len(mutated))
