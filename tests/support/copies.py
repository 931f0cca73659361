"""Copies of a followed log, and the batches and snapshots that a cluster would send."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.acl.model import Acl
from authorizerd.image.cluster import EMPTY_IMAGE, apply_cluster_changes
from authorizerd.metadata.checkpoint_writer import CheckpointState
from authorizerd.metadata.copy_directory import CopyMark, write_mark
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from authorizerd.metadata.log import LogBatch
from authorizerd.metadata.log_copy import LogCopy
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import PRIVATE_DISK, Storage
from authorizerd.protocol.records.batch import ControlType, RecordBatch, decode_batch
from authorizerd.protocol.records.metadata import MetadataRecord
from tests.support.log_files import (
    METADATA_VERSION,
    TIME_MS,
    added,
    checkpoint_batches,
    control_batch,
    data_batch,
)

CLUSTER_ID = "followed-cluster"
BEGINNING = (
    decode_batch(control_batch(0, ControlType.LEADER_CHANGE)),
    decode_batch(data_batch(1, [METADATA_VERSION])),
)
"""The first two batches of a cluster's log, of epoch 1."""


def new_copy(
    log_dir: Path,
    storage: Storage = PRIVATE_DISK,
    *,
    segment_bytes_max: int = 1 << 30,
    clock: Callable[[], float] = lambda: 0.0,
) -> LogCopy:
    """Return a copy of ``log_dir``, which is marked as one; it is not open."""
    write_mark(log_dir, CopyMark("quorum"), storage)
    return LogCopy(
        log_dir, node_id=1, storage=storage, segment_bytes_max=segment_bytes_max, clock=clock
    )


def open_copy(
    log_dir: Path,
    storage: Storage = PRIVATE_DISK,
    *,
    segment_bytes_max: int = 1 << 30,
    clock: Callable[[], float] = lambda: 0.0,
) -> LogCopy:
    """Return an open copy that belongs to a cluster."""
    copy = new_copy(log_dir, storage, segment_bytes_max=segment_bytes_max, clock=clock)
    copy.open()
    copy.adopt_cluster(CLUSTER_ID)
    return copy


def begun_copy(
    log_dir: Path,
    *batches: RecordBatch,
    storage: Storage = PRIVATE_DISK,
    segment_bytes_max: int = 1 << 30,
    clock: Callable[[], float] = lambda: 0.0,
) -> LogCopy:
    """Return an open copy that has the beginning of a log and these batches."""
    copy = open_copy(log_dir, storage, segment_bytes_max=segment_bytes_max, clock=clock)
    copy.append([*BEGINNING, *batches])
    return copy


def acl_batch(base_offset: int, *numbers: int, epoch: int = 1) -> RecordBatch:
    return decode_batch(data_batch(base_offset, [added(each) for each in numbers], epoch=epoch))


def write_copy(log_dir: Path) -> Path:
    """Write a copy of a followed log, with one ACL; return its segment."""
    begun_copy(log_dir, acl_batch(2, 1)).close()
    return log_dir / METADATA_TOPIC_DIRECTORY / segment_name(0)


def leader_batch(base_offset: int, epoch: int) -> RecordBatch:
    return decode_batch(control_batch(base_offset, ControlType.LEADER_CHANGE, epoch=epoch))


def snapshot_bytes(records: Sequence[MetadataRecord], *, epoch: int = 1) -> bytes:
    """Return a snapshot as a cluster sends it, without its end offset."""
    return b"".join(checkpoint_batches([METADATA_VERSION, *records], epoch=epoch))


def read_ids(batches: Iterable[LogBatch]) -> set[int]:
    return {int.from_bytes(acl_id, "big") for acl_id in state_of(batches).acls}


def state_of(batches: Iterable[LogBatch], *, epoch: int = 1) -> CheckpointState:
    """Return the state after ``batches``, as a checkpoint of ours has it."""
    builder, replay, image, end = SnapshotBuilder(), Replay(), EMPTY_IMAGE, 0
    for log_batch in batches:
        end = log_batch.last_offset + 1
        for step in replay.steps(log_batch):
            if step is not None:
                builder.apply_changes(step.changes)
                image = apply_cluster_changes(image, step.cluster_changes)
    acls: dict[bytes, Acl] = dict(builder.freeze(0).acls.items())
    return CheckpointState(
        end_offset=end, epoch=epoch, timestamp_ms=TIME_MS, cluster=image, acls=acls
    )
