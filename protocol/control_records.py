"""The control records that frame a metadata log and a checkpoint: what is written in them.

Source: KIP-595 (LeaderChangeMessage), KIP-630 (SnapshotHeaderRecord, SnapshotFooterRecord).
"""

from __future__ import annotations

import struct

from protocol.record_batch import ControlType, control_key

Record = tuple[bytes | None, bytes]

_VERSION = b"\0\0"
_NO_TAGS = b"\0"


def leader_change(leader_id: int) -> Record:
    """Return the record that begins an epoch: ``leader_id`` leads, by its own vote alone."""
    voters = b"\2" + struct.pack(">i", leader_id) + _NO_TAGS
    value = _VERSION + struct.pack(">i", leader_id) + voters + voters + _NO_TAGS
    return control_key(ControlType.LEADER_CHANGE), value


def snapshot_header(last_contained_log_timestamp_ms: int) -> Record:
    """Return the first record of a checkpoint."""
    value = _VERSION + struct.pack(">q", last_contained_log_timestamp_ms) + _NO_TAGS
    return control_key(ControlType.SNAPSHOT_HEADER), value


def snapshot_footer() -> Record:
    """Return the last record of a checkpoint."""
    return control_key(ControlType.SNAPSHOT_FOOTER), _VERSION + _NO_TAGS
