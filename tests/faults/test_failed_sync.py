"""After a failed sync, nothing builds on data that the disk has dropped."""

from pathlib import Path
from random import Random

import pytest

from authorizerd.acl.model import AclAdded
from authorizerd.metadata.log import MetadataLog, Progress
from authorizerd.metadata.meta_properties import MetaProperties, format_directory
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.writer import LogWriter
from tests.faults.disk import TIME_MS, FaultDisk
from tests.support.log_files import added

LOG_DIR = Path("/log")


def new_writer(disk: FaultDisk) -> LogWriter:
    return LogWriter(LOG_DIR, storage=disk, segment_bytes_max=1 << 30, now_ms=lambda: TIME_MS)


def new_log(seed: int) -> FaultDisk:
    disk = FaultDisk(Random(seed))

    def begin() -> None:
        new_writer(disk).start(Progress(), Replay(), node_id=1)

    format_directory(LOG_DIR, MetaProperties("cluster", 1, ""), disk, begin)
    return disk


def recovered(disk: FaultDisk) -> tuple[LogWriter, set[bytes]]:
    """Return a writer at the end of the log, and the ids of its ACLs."""
    disk.end_process()
    log, replay, ids = MetadataLog.open(LOG_DIR, disk), Replay(), set()
    for batch in log.batches():
        for step in replay.steps(batch):
            for change in () if step is None else step.changes:
                assert isinstance(change, AclAdded)
                ids.add(change.id)
    writer = new_writer(disk)
    writer.start(log.progress, replay, node_id=1)
    return writer, ids


def test_recovery_after_a_failed_sync_reads_from_the_disk() -> None:
    """If it read from the cache, it might serve data that a power failure then loses."""
    was_dropped = set()
    for seed in range(100):
        disk = new_log(seed)
        writer, ids = recovered(disk)
        writer.append([[added(1)]])
        disk.fail_in, disk.fail_at = 0, "sync"
        with pytest.raises(OSError, match="the disk fails"):
            writer.append([[added(2)]])
        writer, ids = recovered(disk)
        assert added(1).id in ids
        was_dropped.add(added(2).id not in ids)
        writer.append([[added(3)]])
        disk.lose_power()
        assert recovered(disk)[1] == ids | {added(3).id}
    assert was_dropped == {False, True}
