"""A restore that crashes or fails at any file operation leaves the old or the new log, whole."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Final

import pytest

from authorizerd.acl.model import Acl, AclAdded
from authorizerd.metadata.backups.backup import Backup
from authorizerd.metadata.backups.restore import Restored, recover, restore
from authorizerd.metadata.backups.restore_target import examine_target
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import LogDirectoryError, MetadataLogError
from authorizerd.metadata.inspection.findings import Fault
from authorizerd.metadata.inspection.inspection import Inspection
from authorizerd.metadata.log import MetadataLog, Progress
from authorizerd.metadata.log_state import read_state
from authorizerd.metadata.meta_properties import (
    check_format_is_finished,
    format_directory,
    read_meta_properties,
)
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.writer import FEATURES_WRITTEN, LogWriter
from tests.faults.disk import FaultDisk
from tests.support.backups import PROPERTIES, new_backup
from tests.support.log_files import TIME_MS, added
from tests.support.recording_storage import PowerFailure

LOG_DIR: Final = Path("/data/log")
NOW: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OLD: Final = tuple(added(number) for number in (1, 2))
NEW: Final = tuple(added(number) for number in (2, 3, 4))

OLD_NEXT_OFFSET: Final = 1 + len(FEATURES_WRITTEN) + len(OLD)

Acls = dict[bytes, Acl]


def by_id(changes: tuple[AclAdded, ...]) -> Acls:
    return {each.id: each.acl for each in changes}


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Backup:
    """Return a backup with the ACLs ``NEW``, of an earlier offset than that of the old log."""
    return new_backup(tmp_path_factory.mktemp("backup"), NEW)


def start(disk: FaultDisk) -> int:
    """Start a daemon's writer on the log, and return the offset of its first record."""
    log, replay = MetadataLog.open(LOG_DIR, disk), Replay()
    for batch in log.batches():
        for _ in replay.steps(batch):
            pass
    writer = LogWriter(LOG_DIR, storage=disk, segment_bytes_max=1 << 20, now_ms=lambda: TIME_MS)
    writer.start(log.progress, replay, node_id=1)
    return log.progress.last_offset + 1


def new_disk(seed: int, *, can_exchange: bool, has_log: bool) -> FaultDisk:
    """Return a disk on which a daemon was running until a moment ago."""
    disk = FaultDisk(Random(seed))
    disk.can_exchange = can_exchange
    disk.make_directory(LOG_DIR.parent)
    disk.sync_directory(Path("/"))
    if not has_log:
        disk.make_directory(LOG_DIR)
        disk.sync_directory(LOG_DIR.parent)
        return disk

    def begin_log() -> None:
        writer = LogWriter(LOG_DIR, storage=disk, segment_bytes_max=400, now_ms=lambda: TIME_MS)
        writer.start(Progress(), Replay(), node_id=1)
        for change in OLD:
            writer.append([[change]])

    format_directory(LOG_DIR, PROPERTIES, disk, begin_log)
    return disk


def run_restore(disk: FaultDisk, backup: Backup, now: datetime = NOW) -> Restored:
    recover(LOG_DIR, disk)
    target = examine_target(LOG_DIR, backup, node_id=1, new_id=lambda: "new-id", storage=disk)
    return restore(backup, target, now, disk)


def read_whole(disk: FaultDisk, log_dir: Path = LOG_DIR) -> Acls:
    """Return the ACLs of a log directory in which check-log finds no fault."""
    assert [each for each in Inspection(log_dir, disk).findings() if isinstance(each, Fault)] == []
    check_format_is_finished(log_dir, disk)
    properties = read_meta_properties(log_dir, disk)
    assert properties is not None
    assert (properties.cluster_id, properties.node_id) == ("some-cluster", 1)
    return dict(read_state(log_dir, disk).content.acls.items())


def readable_states(disk: FaultDisk) -> Iterator[Acls]:
    """Yield the ACLs of the log, and of each directory beside it that has a log."""
    names = [each for each in disk.content_names(LOG_DIR) if each.startswith(("re", "__"))]
    for name in names:
        folder = LOG_DIR if name == METADATA_TOPIC_DIRECTORY else LOG_DIR / name
        with suppress(MetadataLogError):
            yield read_whole(disk, folder)


def check_after_fault(disk: FaultDisk, backup: Backup, *, has_log: bool) -> str:
    """Check what a crash or a failure has left, then restore. Return what was there."""
    old = by_id(OLD)
    if METADATA_TOPIC_DIRECTORY in disk.content_names(LOG_DIR):
        found = "old" if (acls := read_whole(disk)) == old else "new"
        assert acls in (old, by_id(NEW))
    else:
        found = "none"
        assert not (has_log and disk.can_exchange), "the log is neither the old nor the new one"
        with pytest.raises(LogDirectoryError, match="no metadata log found"):
            read_state(LOG_DIR, disk)
    if has_log and disk.can_exchange:
        assert old in readable_states(disk), "the old log is lost"
    restored = run_restore(disk, backup, NOW + timedelta(seconds=1))
    assert read_whole(disk) == by_id(NEW)
    if has_log:
        assert old in readable_states(disk), "the old log is lost"
        assert restored.end_offset > OLD_NEXT_OFFSET
    assert start(disk) == restored.end_offset
    return found


KINDS = [(True, True), (False, True), (True, False)]


@pytest.mark.parametrize(("can_exchange", "has_log"), KINDS)
@pytest.mark.parametrize("is_power_lost", [False, True], ids=["killed", "power lost"])
def test_crash_leaves_the_old_or_the_new_log(
    backup: Backup, can_exchange: bool, has_log: bool, is_power_lost: bool
) -> None:
    """At each call; and the next restore succeeds, at an offset that was never used."""
    found: set[str] = set()
    for seed in range(4 if is_power_lost else 1):
        number, is_over = 0, False
        while not is_over:
            number += 1
            disk = new_disk(seed, can_exchange=can_exchange, has_log=has_log)
            disk.crash_in = number
            try:
                run_restore(disk, backup)
                is_over = True
            except PowerFailure:
                disk.lose_power() if is_power_lost else disk.end_process()
            disk.calm()
            found.add(check_after_fault(disk, backup, has_log=has_log))
        assert number > 40
    assert found == ({"old", "new"} if has_log else {"none", "new"}) | (
        set() if can_exchange else {"none"}
    )


@pytest.mark.parametrize(("can_exchange", "has_log"), KINDS)
def test_failed_call_leaves_the_old_or_the_new_log(
    backup: Backup, can_exchange: bool, has_log: bool
) -> None:
    """The command reports the error. Nothing of the old log is lost, and it can be repeated."""
    number, failures = 0, 0
    while True:
        number += 1
        disk = new_disk(number, can_exchange=can_exchange, has_log=has_log)
        disk.fail_in = number
        try:
            run_restore(disk, backup)
        except (OSError, MetadataLogError):
            failures += 1
        if disk.fail_in is not None:
            break
        disk.calm()
        check_after_fault(disk, backup, has_log=has_log)
    assert failures > 15


def test_restore_before_the_exchange_removes_what_it_has_built(backup: Backup) -> None:
    """A full disk needs the space."""
    disk = new_disk(0, can_exchange=True, has_log=True)
    names = sorted(disk.content_names(LOG_DIR))
    disk.fail_in, disk.fail_at = 1, "append"
    with pytest.raises((OSError, MetadataLogError)):
        run_restore(disk, backup)
    assert sorted(disk.content_names(LOG_DIR)) == names


def test_interrupted_renames_are_undone_once(backup: Backup) -> None:
    """Until then, a daemon refuses to start, and says what to do."""
    disk = new_disk(0, can_exchange=False, has_log=True)
    log, number = LOG_DIR / METADATA_TOPIC_DIRECTORY, 0
    while disk.exists(log):
        number += 1
        disk = new_disk(0, can_exchange=False, has_log=True)
        disk.crash_in = number
        with suppress(PowerFailure):
            run_restore(disk, backup)
        disk.end_process()
    with pytest.raises(
        LogDirectoryError, match="a restore was interrupted, which has left restore"
    ):
        read_state(LOG_DIR, disk)
    assert recover(LOG_DIR, disk) == LOG_DIR / "restore-20260102T030405Z"
    assert read_whole(disk) == by_id(OLD)
    assert recover(LOG_DIR, disk) is None
