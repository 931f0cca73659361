"""A process's log on the simulated disk. It reports every write to the invariants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from authorizerd.acl.model import ChangeBatch
from authorizerd.actors.errors import UpdateRefusedError
from authorizerd.actors.update_queue import LogChange
from authorizerd.daemon.sources.own_log_writer import OwnLog
from authorizerd.metadata.log import MetadataLog, Progress
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.writer import LogWriter
from tests.faults.disk import TIME_MS, FaultDisk
from tests.model.invariants import Invariants
from tests.model.reference import LogState

LOG_DIR: Final = Path("/data/log")


def new_writer(disk: FaultDisk, segment_bytes: int) -> LogWriter:
    return LogWriter(
        LOG_DIR,
        storage=disk,
        segment_bytes_max=segment_bytes,
        now_ms=lambda: TIME_MS + len(disk.calls),
    )


def read_log(disk: FaultDisk) -> LogState:
    """Read the log without faults."""
    faults = disk.crash_in, disk.crash_at, disk.fail_in, disk.fail_at
    disk.calm()
    found, replay = LogState(), Replay()
    for log_batch in MetadataLog.open(LOG_DIR, disk).batches():
        for step in replay.steps(log_batch):
            if step is not None:
                found.apply((*step.changes, *step.cluster_changes))
    disk.crash_in, disk.crash_at, disk.fail_in, disk.fail_at = faults
    return found


class WatchedLog:
    """An ``OwnLog`` that reports to the invariants before and after each call."""

    def __init__(self, own: OwnLog, disk: FaultDisk, invariants: Invariants) -> None:
        self._own = own
        self._disk = disk
        self._invariants = invariants

    @property
    def last_offset(self) -> int:
        return self._own.last_offset

    async def begin(self, progress: Progress, replay: Replay) -> ChangeBatch:
        begun = await self._own.begin(progress, replay)
        self._invariants.begin(read_log(self._disk), begun.last_offset)
        return begun

    async def append(self, batches: Sequence[tuple[LogChange, ...]]) -> int:
        self._invariants.write(batches)
        try:
            last_offset = await self._own.append(batches)
        except UpdateRefusedError:
            self._invariants.refused_to_write()
            raise
        self._invariants.wrote(last_offset)
        return last_offset
