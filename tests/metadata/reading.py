"""A small log, and helpers that read a log and return its batches, its ACLs or the error."""

from pathlib import Path

import pytest

from authorizerd.metadata.errors import CorruptLogError
from authorizerd.metadata.log import LogBatch, MetadataLog, Progress
from authorizerd.protocol.records.batch import ControlType
from tests.support.log_files import (
    METADATA_VERSION,
    added,
    control_batch,
    data_batch,
    read_acls,
    removed,
)

BATCHES = (
    control_batch(0, ControlType.LEADER_CHANGE),
    data_batch(1, [METADATA_VERSION]),
    data_batch(2, [added(1), added(2)]),
    data_batch(4, [removed(1), added(3)]),
)


def read(path: Path) -> tuple[list[LogBatch], Progress]:
    log = MetadataLog.open(path)
    return list(log.batches()), log.progress


def refusal(path: Path) -> CorruptLogError:
    log = MetadataLog.open(path)
    offsets = [-1]
    with pytest.raises(CorruptLogError) as refused:
        offsets.extend(each.last_offset for each in log.batches())
    assert log.progress.torn_tail is None
    assert offsets == sorted(offsets)
    return refused.value


def numbers(path: Path) -> set[int]:
    """Return the ACLs at the end of a log, by the numbers passed to ``added``."""
    return {int.from_bytes(each) for each in read_acls(path)}
