from __future__ import annotations

from protocol.control_records import leader_change, snapshot_footer, snapshot_header
from protocol.record_batch import ControlType, control_types, decode_batch, encode_batch


def test_control_records_are_those_of_a_real_broker() -> None:
    """Bytes of node 1's first epoch, and of its first checkpoint."""
    assert leader_change(1) == (
        bytes.fromhex("00000002"),
        bytes.fromhex("0000 00000001 02 00000001 00 02 00000001 00 00"),
    )
    assert snapshot_header(0x1A1FEF14D65) == (
        bytes.fromhex("00000003"),
        bytes.fromhex("0000 000001a1fef14d65 00"),
    )
    assert snapshot_footer() == (bytes.fromhex("00000004"), bytes.fromhex("0000 00"))


def test_a_control_batch_is_read_by_its_types() -> None:
    """What is written is what a reader finds."""
    records = [leader_change(1), snapshot_header(0), snapshot_footer()]
    batch = decode_batch(encode_batch(0, 1, 0, records, is_control=True))
    assert batch.is_control
    assert list(control_types(batch)) == [
        ControlType.LEADER_CHANGE,
        ControlType.SNAPSHOT_HEADER,
        ControlType.SNAPSHOT_FOOTER,
    ]
