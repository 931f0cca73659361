import pytest

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import (
    ControlType,
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
    records = [leader_change(1), snapshot_header(0), snapshot_footer()]
    batch = decode_batch(encode_batch(0, 1, 0, records, is_control=True))
    assert batch.is_control
    assert list(control_types(batch)) == [
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
    "with bytes behind it": ("0000 000000000000002a 00 00", DecodeError),
}


@pytest.mark.parametrize("name", HEADERS)
def test_checkpoint_header_has_the_end_offset(name: str) -> None:
    """The offset is in a tagged field, which Kafka's readers skip."""
    text, wanted = HEADERS[name]
    record = (control_key(ControlType.SNAPSHOT_HEADER), bytes.fromhex(text))
    batch = decode_batch(encode_batch(0, 1, 0, [record, snapshot_footer()], is_control=True))
    if wanted is DecodeError:
        with pytest.raises(DecodeError):
            decode_snapshot_header(batch)
    else:
        assert decode_snapshot_header(batch) == wanted


@pytest.mark.parametrize("end_offset", [None, 0, 7, 2**63 - 1])
def test_checkpoint_header_reads_back(end_offset: int | None) -> None:
    record = snapshot_header(42, end_offset=end_offset)
    batch = decode_batch(encode_batch(0, 1, 0, [record], is_control=True))
    assert decode_snapshot_header(batch) == SnapshotHeader(42, end_offset)
