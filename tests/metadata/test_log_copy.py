"""A copy returns after a restart exactly what was saved, or less; never anything else."""

import errno
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from authorizerd.metadata import log_copy, meta_properties
from authorizerd.metadata.copy_directory import (
    MARK_NAME,
    SET_ASIDE_NAME,
    CopyMark,
    read_mark,
    remove_copy,
    remove_mark,
    write_mark,
)
from authorizerd.metadata.copy_snapshot import MemoryFile
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, checkpoint_name, segment_name
from authorizerd.metadata.errors import CopyConflictError, CorruptLogError, LogDirectoryError
from authorizerd.metadata.inspection.findings import Fault
from authorizerd.metadata.inspection.inspection import Inspection
from authorizerd.metadata.log import LogBatch, MetadataLog
from authorizerd.metadata.log_copy import RETRY_SECONDS, LogCopy
from authorizerd.metadata.replay import KEPT_RECORDS
from authorizerd.metadata.storage import DISK, PRIVATE_DISK
from tests.support.copies import (
    BEGINNING,
    CLUSTER_ID,
    acl_batch,
    begun_copy,
    leader_batch,
    new_copy,
    open_copy,
    read_ids,
    snapshot_bytes,
    state_of,
)
from tests.support.log_files import added, flipped, write_log
from tests.support.recording_storage import RecordingStorage

RESET = LogDirectoryError("reset")


@pytest.fixture(autouse=True)
def log_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """Log warnings, even if a daemon in this process has set a higher level."""
    caplog.set_level(logging.INFO)


def files_of(log_dir: Path) -> list[str]:
    return sorted(each.name for each in (log_dir / METADATA_TOPIC_DIRECTORY).iterdir())


def reopen(log_dir: Path) -> LogCopy:
    copy = new_copy(log_dir)
    copy.open()
    return copy


def saved(log_dir: Path) -> list[LogBatch]:
    """Return the batches of a copy that is in use, without recovery."""
    return list(MetadataLog.open(log_dir).batches())


def install(copy: LogCopy, end_offset: int, data: bytes, *, epoch: int = 1) -> None:
    """Replace the copy by a snapshot."""
    copy.begin_snapshot(end_offset, epoch)
    copy.snapshot.append(data)
    copy.snapshot.verify()
    copy.install_snapshot()


def check_sound(log_dir: Path) -> None:
    """Check that ``check-log`` finds no fault."""
    found = Inspection(log_dir, DISK).findings()
    assert [str(each) for each in found if isinstance(each, Fault)] == []


def test_batches_are_read_back(tmp_path: Path) -> None:
    copy = open_copy(tmp_path)
    assert (copy.last_offset, copy.end.epochs.last) == (-1, 0)
    assert list(copy.batches()) == []
    copy.append(BEGINNING)
    copy.append([acl_batch(2, 1, 2), acl_batch(4, 3), leader_batch(5, 2), acl_batch(6, 4, epoch=2)])
    copy.append([])
    copy.close()
    again = reopen(tmp_path)
    assert (again.last_offset, again.end.epochs.last, again.cluster_id) == (6, 2, CLUSTER_ID)
    assert read_ids(again.batches()) == {1, 2, 3, 4}
    assert [again.end.epochs.find(offset) for offset in (0, 4, 5, 6)] == [1, 1, 2, 2]
    check_sound(tmp_path)


def test_an_unknown_cluster_is_adopted_once_it_is_known(tmp_path: Path) -> None:
    """An empty copy may be tied to another cluster. Later, its records decide."""
    copy = reopen(tmp_path)
    copy.adopt_cluster("mistaken")
    copy.adopt_cluster("")
    assert copy.cluster_id == "mistaken"
    copy = reopen(tmp_path / "another")
    copy.adopt_cluster("")
    copy.append(BEGINNING)
    copy.close()
    copy = reopen(tmp_path / "another")
    assert copy.cluster_id == ""
    assert copy.last_offset == 1
    copy.adopt_cluster("learnt")
    copy.adopt_cluster("")
    with pytest.raises(CopyConflictError):
        copy.adopt_cluster("another")
    assert copy.cluster_id == "learnt"


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    """The copy has SCRAM credentials."""
    before = os.umask(0)
    try:
        begun_copy(tmp_path / "copy")
    finally:
        os.umask(before)
    paths = [tmp_path / "copy", *(tmp_path / "copy").rglob("*")]
    assert len(paths) == 5
    for path in paths:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_log_continues_in_a_new_file(tmp_path: Path) -> None:
    copy = begun_copy(tmp_path, segment_bytes_max=200)
    for number in range(2, 6):
        copy.append([acl_batch(number, number)])
    assert len(files_of(tmp_path)) > 2
    copy.close()
    again = reopen(tmp_path)
    assert read_ids(again.batches()) == {2, 3, 4, 5}
    again.append([acl_batch(6, 6)])
    assert read_ids(reopen(tmp_path).batches()) == {2, 3, 4, 5, 6}


@pytest.mark.parametrize(
    "batches",
    [
        [acl_batch(3, 1)],
        [acl_batch(1, 1)],
        [acl_batch(2, 1), acl_batch(4, 2)],
        [acl_batch(2, 1, epoch=2)],
        [acl_batch(2, 1, epoch=0)],
        [leader_batch(2, 1)],
    ],
)
def test_batch_that_does_not_follow_is_rejected(tmp_path: Path, batches: list[object]) -> None:
    """Nothing of the append is kept, and the copy can go on."""
    copy = begun_copy(tmp_path)
    with pytest.raises(CorruptLogError):
        copy.append(batches)  # type: ignore[arg-type]  # a table of batches
    assert (copy.last_offset, copy.fault) == (1, "")
    copy.append([acl_batch(2, 9)])
    assert read_ids(reopen(tmp_path).batches()) == {9}


@pytest.mark.parametrize("size", range(1, 61, 7))
def test_torn_tail_is_cut(tmp_path: Path, size: int) -> None:
    begun_copy(tmp_path, acl_batch(2, 1), acl_batch(3, 2))
    path = tmp_path / METADATA_TOPIC_DIRECTORY / segment_name(0)
    path.write_bytes(path.read_bytes()[:-size])
    again = reopen(tmp_path)
    assert again.last_offset == 2
    again.append([acl_batch(3, 7)])
    assert read_ids(reopen(tmp_path).batches()) == {1, 7}


@pytest.mark.parametrize("is_page", [True, False], ids=["page", "offset"])
def test_lost_part_is_cut_and_what_follows_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_page: bool
) -> None:
    """Appends are not synced: a power failure may lose a sector, or the base offset at its end."""
    copy = open_copy(tmp_path)
    batches = [acl_batch(number, number) for number in range(2, 100)]
    copy.append([*BEGINNING, *batches])
    path = tmp_path / METADATA_TOPIC_DIRECTORY / segment_name(0)
    data = path.read_bytes()
    base_offset = data.index((50).to_bytes(8))
    first, size = (4096, 4096) if is_page else (base_offset, 8)
    path.write_bytes(data[:first] + bytes(size) + data[first + size :])
    again = reopen(tmp_path)
    assert "fetched again" in caplog.text
    kept = read_ids(again.batches())
    assert kept == set(range(2, again.last_offset + 1))
    assert 10 < len(kept) < 60
    assert not (tmp_path / SET_ASIDE_NAME).exists()


def flip_last(log: Path) -> None:
    path = sorted(log.iterdir())[-1]
    path.write_bytes(flipped(path.read_bytes(), 15, 0x02))


DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    "first segment": lambda _, log: (log / segment_name(0)).write_bytes(
        flipped((log / segment_name(0)).read_bytes(), 100)
    ),
    "checkpoint": lambda _, log: (log / checkpoint_name(10, 1)).write_bytes(
        snapshot_bytes([added(50)])[:-1]
    ),
    "renamed segment": lambda _, log: (log / segment_name(0)).rename(log / segment_name(1)),
    "other file": lambda _, log: (log / f"{segment_name(0)}.bak").touch(),
    "epoch": lambda _, log: flip_last(log),
    "no properties": lambda folder, _: (folder / meta_properties.NAME).unlink(),
    "other properties": lambda folder, _: (folder / meta_properties.NAME).write_text("version=7\n"),
    "kept records": lambda folder, _: write_mark(
        folder, CopyMark("quorum", "30-other"), PRIVATE_DISK
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_copy_that_cannot_be_trusted_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    """A new copy begins, with a warning. The damaged files of one copy are kept."""
    (tmp_path / SET_ASIDE_NAME).mkdir()
    (tmp_path / SET_ASIDE_NAME / "earlier").touch()
    copy = begun_copy(tmp_path, segment_bytes_max=150)
    copy.append([acl_batch(2, 1)])
    copy.append([acl_batch(3, 2)])
    copy.close()
    DAMAGES[damage](tmp_path, tmp_path / METADATA_TOPIC_DIRECTORY)
    again = LogCopy(tmp_path, node_id=1, storage=PRIVATE_DISK, segment_bytes_max=1 << 30)
    again.open()
    assert (again.last_offset, again.fault) == (-1, "")
    assert list(again.batches()) == []
    assert "a new one begins" in caplog.text
    aside = [each.name for each in (tmp_path / SET_ASIDE_NAME).iterdir()]
    assert len(aside) > 1
    assert "earlier" not in aside
    caplog.clear()
    again.adopt_cluster(CLUSTER_ID)
    again.append([*BEGINNING, acl_batch(2, 8)])
    again.close()
    assert read_ids(open_copy(tmp_path).batches()) == {8}
    assert not caplog.records


def test_unmarked_directory_is_never_opened(tmp_path: Path) -> None:
    """It may be a log of its own, which nobody else has."""
    write_log(tmp_path)
    copy = LogCopy(tmp_path, node_id=1, storage=PRIVATE_DISK, segment_bytes_max=1 << 30)
    with pytest.raises(LogDirectoryError, match=r"copy\.properties"):
        copy.open()
    assert files_of(tmp_path) == [segment_name(0)]


def test_copy_belongs_to_one_cluster(tmp_path: Path) -> None:
    begun_copy(tmp_path)
    again = reopen(tmp_path)
    with pytest.raises(CopyConflictError, match="reset-copy"):
        again.adopt_cluster("other")
    again.adopt_cluster(CLUSTER_ID)
    assert again.last_offset == 1
    again.begin_anew(RESET)
    again.adopt_cluster("other")
    assert again.last_offset == -1
    assert files_of(tmp_path) == []
    again.append(BEGINNING)
    assert reopen(tmp_path).cluster_id == "other"


# Snapshots of the cluster.


def test_snapshot_replaces_older_files(tmp_path: Path) -> None:
    copy = begun_copy(tmp_path, acl_batch(2, 1))
    data = snapshot_bytes([added(5), added(6)], epoch=3)
    copy.begin_snapshot(100, 3)
    for start in range(0, len(data), 33):
        copy.snapshot.append(data[start : start + 33])
    assert copy.last_offset == 2
    copy.snapshot.verify()
    assert read_ids(copy.snapshot.batches()) == {5, 6}
    copy.install_snapshot()
    assert (copy.last_offset, copy.end.epochs.last, copy.end.epochs.find(99)) == (99, 3, 3)
    assert files_of(tmp_path) == [checkpoint_name(100, 3)]
    assert read_ids(reopen(tmp_path).batches()) == {5, 6}
    copy.append([acl_batch(100, 7, epoch=3)])
    copy.close()
    again = reopen(tmp_path)
    assert (again.last_offset, again.end.epochs.last) == (100, 3)
    assert read_ids(again.batches()) == {5, 6, 7}
    check_sound(tmp_path)


@pytest.mark.parametrize("cut", [1, 80, 150])
def test_incomplete_snapshot_changes_nothing(tmp_path: Path, cut: int) -> None:
    copy = begun_copy(tmp_path, acl_batch(2, 1))
    copy.begin_snapshot(100, 1)
    copy.snapshot.append(snapshot_bytes([added(5)])[:-cut])
    with pytest.raises(CorruptLogError) as failed:
        copy.snapshot.verify()
    copy.abandon_snapshot(failed.value)
    assert (copy.last_offset, copy.fault) == (2, "")
    assert files_of(tmp_path) == [segment_name(0)]
    copy.append([acl_batch(3, 2)])
    assert read_ids(reopen(tmp_path).batches()) == {1, 2}


def test_snapshot_of_another_epoch_is_rejected(tmp_path: Path) -> None:
    """The epoch of the snapshot's id is that of its batches."""
    copy = open_copy(tmp_path)
    copy.begin_snapshot(100, 2)
    copy.snapshot.append(snapshot_bytes([], epoch=1))
    with pytest.raises(CorruptLogError, match="epoch"):
        copy.snapshot.verify()


def test_abandoned_snapshot_leaves_no_file(tmp_path: Path) -> None:
    """Beginning another abandons the first."""
    copy = open_copy(tmp_path)
    copy.begin_snapshot(100, 1)
    copy.snapshot.append(b"other data")
    copy.begin_snapshot(110, 1)
    assert files_of(tmp_path) == [f"{checkpoint_name(110, 1)}.part"]
    copy.snapshot.append(b"other data")
    install(copy, 110, snapshot_bytes([added(5)]))
    assert copy.last_offset == 109
    copy.begin_snapshot(120, 1)
    copy.abandon_snapshot()
    copy.abandon_snapshot()
    assert files_of(tmp_path) == [checkpoint_name(110, 1)]


def test_unfinished_snapshot_is_removed_at_the_next_start(tmp_path: Path) -> None:
    copy = begun_copy(tmp_path)
    copy.begin_snapshot(100, 1)
    copy.snapshot.append(snapshot_bytes([])[:-5])
    assert reopen(tmp_path).last_offset == 1
    assert files_of(tmp_path) == [segment_name(0)]


@pytest.mark.parametrize("end_offset", [2, 3])
def test_snapshot_below_the_end_is_a_conflict(tmp_path: Path, end_offset: int) -> None:
    """The copy has only committed records, so the cluster has lost some."""
    copy = begun_copy(tmp_path, acl_batch(2, 1))
    with pytest.raises(CopyConflictError, match=f"offset {end_offset}"):
        copy.begin_snapshot(end_offset, 1)
    assert copy.last_offset == 2


def test_snapshot_of_an_empty_log(tmp_path: Path) -> None:
    """A quorum with dynamic voters has one that ends at offset 0."""
    copy = open_copy(tmp_path)
    install(copy, 0, snapshot_bytes([], epoch=0), epoch=0)
    assert copy.last_offset == -1
    copy.append([*BEGINNING, acl_batch(2, 1)])
    assert read_ids(reopen(tmp_path).batches()) == {1}


# Checkpoints of our own.


def test_checkpoint_replaces_the_log(tmp_path: Path) -> None:
    copy = begun_copy(tmp_path, acl_batch(2, 1), acl_batch(3, 2))
    assert copy.is_checkpoint_due(100)
    assert not copy.is_checkpoint_due(1000)
    assert copy.begin_checkpoint() == 4
    copy.append([acl_batch(4, 3)])
    state = state_of(saved(tmp_path))
    copy.append([acl_batch(5, 4)])
    assert copy.write_checkpoint(state)
    assert files_of(tmp_path) == [segment_name(4), checkpoint_name(5, 1)]
    assert not copy.is_checkpoint_due(300)
    copy.append([acl_batch(6, 5)])
    again = reopen(tmp_path)
    assert read_ids(again.batches()) == {1, 2, 3, 4, 5}
    assert again.last_offset == 6
    check_sound(tmp_path)


@pytest.mark.parametrize(("number", "is_known"), [(2, False), (3, True), (4, False)])
def test_checkpoint_names_the_last_batch(tmp_path: Path, number: int, is_known: bool) -> None:
    """So a restart still knows it. A batch that ends elsewhere is not the last one."""
    batches = {number: acl_batch(number, number) for number in (2, 3, 4)}
    copy = begun_copy(tmp_path, batches[2], batches[3])
    copy.begin_checkpoint()
    mark = batches[number].mark
    assert copy.write_checkpoint(replace(state_of(saved(tmp_path)), last_batch=mark))
    assert reopen(tmp_path).end.last_batch == (mark if is_known else None)


@pytest.mark.parametrize("event", ["clear", "snapshot"])
def test_checkpoint_of_a_replaced_state_is_dropped(tmp_path: Path, event: str) -> None:
    """Otherwise the copy of one cluster would get the state of another."""
    copy = begun_copy(tmp_path, acl_batch(2, 1))
    copy.begin_checkpoint()
    state = state_of(saved(tmp_path))
    if event == "clear":
        copy.begin_anew(RESET)
        copy.adopt_cluster("other")
        copy.append(BEGINNING)
    else:
        install(copy, 100, snapshot_bytes([added(5)]))
    before = files_of(tmp_path)
    assert not copy.write_checkpoint(state)
    assert files_of(tmp_path) == before


def test_no_checkpoint_is_due_while_a_snapshot_is_fetched(tmp_path: Path) -> None:
    copy = begun_copy(tmp_path, acl_batch(2, 1))
    copy.begin_snapshot(100, 1)
    assert not copy.is_checkpoint_due(0)
    copy.abandon_snapshot()
    assert copy.is_checkpoint_due(0)


def test_failed_checkpoint_changes_nothing(tmp_path: Path) -> None:
    storage = RecordingStorage()
    copy = begun_copy(tmp_path, acl_batch(2, 1), storage=storage)
    copy.begin_checkpoint()
    state = state_of(saved(tmp_path))
    storage.failing = "rename"
    with pytest.raises(OSError, match="error"):
        copy.write_checkpoint(state)
    assert files_of(tmp_path) == [segment_name(0), segment_name(3)]
    copy.append([acl_batch(3, 2)])
    assert (copy.fault, read_ids(saved(tmp_path))) == ("", {1, 2})


# A disk that fails.


def test_full_disk_does_not_stop_the_daemon(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a minute, a checkpoint of the newest state makes the copy complete again."""
    now = 0.0
    storage = RecordingStorage(number=errno.ENOSPC)
    copy = begun_copy(tmp_path, acl_batch(2, 1), storage=storage, clock=lambda: now)
    applied = saved(tmp_path)
    storage.failing = "append"
    copy.append([acl_batch(3, 2)])
    assert "No space left" in copy.fault
    assert "No space left" in caplog.text
    copy.append([acl_batch(4, 3)])
    assert copy.last_offset == 4
    assert not copy.is_checkpoint_due(0)
    now = RETRY_SECONDS
    assert copy.is_checkpoint_due(0)
    assert copy.begin_checkpoint() == 5
    copy.append([acl_batch(5, 4)])
    assert read_ids(applied) == {1}
    state = state_of([*applied])
    acls = {added(each).id: added(each).acl for each in (1, 2, 3, 4)}
    state = replace(state, end_offset=6, epoch=1, acls=acls)
    copy.append([acl_batch(6, 5)])
    assert copy.write_checkpoint(state)
    assert copy.fault == ""
    assert "complete again" in caplog.text
    copy.append([acl_batch(7, 6)])
    assert files_of(tmp_path) == [segment_name(5), checkpoint_name(6, 1)]
    assert read_ids(reopen(tmp_path).batches()) == {1, 2, 3, 4, 5, 6}


def copy_behind(log_dir: Path) -> LogCopy:
    """Return a copy of one ACL that lacks what follows, and whose next checkpoint has begun."""
    now = 0.0
    storage = RecordingStorage()
    copy = begun_copy(log_dir, acl_batch(2, 1), storage=storage, clock=lambda: now)
    storage.failing = "append"
    copy.append([acl_batch(3, 2)])
    now = RETRY_SECONDS
    copy.begin_checkpoint()
    return copy


def test_copy_that_is_behind_is_still_a_state(tmp_path: Path) -> None:
    """What follows the missing records is not read before a checkpoint has replaced them."""
    copy_behind(tmp_path).append([acl_batch(4, 3)])
    assert read_ids(reopen(tmp_path).batches()) == {1}
    assert not (tmp_path / SET_ASIDE_NAME).exists()


def test_snapshot_needs_no_disk(tmp_path: Path) -> None:
    """The first attempt fails with the disk; the next one is in memory."""
    storage = RecordingStorage()
    copy = begun_copy(tmp_path, acl_batch(2, 1), storage=storage)
    copy.begin_snapshot(100, 1)
    storage.failing = "append"
    with pytest.raises(OSError, match="error"):
        copy.snapshot.append(b"data")
    copy.abandon_snapshot(OSError("error"))
    copy.begin_snapshot(100, 1)
    data = snapshot_bytes([added(5)])
    copy.snapshot.append(data[:50])
    copy.snapshot.append(data[50:])
    copy.snapshot.verify()
    assert read_ids(copy.snapshot.batches()) == {5}
    copy.install_snapshot()
    assert copy.last_offset == 99
    assert copy.fault
    copy.append([acl_batch(100, 6)])
    assert read_ids(reopen(tmp_path).batches()) == {1}


def test_snapshot_that_cannot_be_read_back_replaces_nothing(tmp_path: Path) -> None:
    """The log goes on from before it. The next attempt does without the disk."""
    copy = begun_copy(tmp_path, acl_batch(2, 1))
    copy.begin_snapshot(100, 1)
    copy.snapshot.append(snapshot_bytes([added(5)]))
    copy.snapshot.verify()
    copy.abandon_snapshot(LogDirectoryError("error"))
    assert (copy.last_offset, copy.fault) == (2, "error")
    copy.append([acl_batch(3, 6)])
    copy.begin_snapshot(50, 1)
    copy.snapshot.append(snapshot_bytes([added(6)]))
    assert files_of(tmp_path) == [segment_name(0)]
    copy.snapshot.verify()
    assert read_ids(copy.snapshot.batches()) == {6}
    copy.install_snapshot()
    assert copy.last_offset == 49
    assert read_ids(reopen(tmp_path).batches()) == {1}


def test_copy_made_complete_while_a_snapshot_is_in_memory_is_behind_again(tmp_path: Path) -> None:
    """Otherwise, the log would continue after missing records."""
    now = 0.0
    storage = RecordingStorage()
    copy = open_copy(tmp_path, storage, clock=lambda: now)
    storage.failing = "append"
    copy.append([*BEGINNING, acl_batch(2, 1)])
    now = RETRY_SECONDS
    assert copy.begin_checkpoint() == 3
    copy.begin_snapshot(100, 1)
    copy.snapshot.append(snapshot_bytes([added(5)]))
    assert copy.write_checkpoint(replace(state_of([]), end_offset=3))
    assert copy.fault == ""
    copy.snapshot.verify()
    copy.install_snapshot()
    assert "without the disk" in copy.fault
    copy.append([acl_batch(100, 7)])
    assert reopen(tmp_path).last_offset == 2


def test_held_batches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy stays behind until a later checkpoint."""
    copy = copy_behind(tmp_path)
    monkeypatch.setattr(log_copy, "HELD_BYTES_MAX", 100)
    copy.append([acl_batch(4, 3)])
    assert "over 100 bytes" in copy.fault
    assert not copy.write_checkpoint(replace(state_of([]), end_offset=5))
    assert read_ids(reopen(tmp_path).batches()) == {1}


def test_snapshot_in_memory_is_bounded() -> None:
    memory = MemoryFile(bytes_max=10)
    memory.append([bytes(6)])
    with pytest.raises(OSError, match="at most 10 bytes"):
        memory.append([bytes(2), bytes(3)])
    assert memory.size(Path("any")) == 6


def test_copy_that_cannot_be_read_is_not_used(tmp_path: Path) -> None:
    """Its files stay until the disk works again, and are set aside then."""
    begun_copy(tmp_path, acl_batch(2, 1)).close()
    now = 0.0
    storage = RecordingStorage("drop_cache")
    again = new_copy(tmp_path, storage, clock=lambda: now)
    again.open()
    assert "error" in again.fault
    assert (again.last_offset, again.cluster_id, list(again.batches())) == (-1, None, [])
    again.adopt_cluster("other")
    again.append([*BEGINNING, acl_batch(2, 7)])
    assert reopen(tmp_path).cluster_id == CLUSTER_ID
    assert read_ids(reopen(tmp_path).batches()) == {1}
    now = RETRY_SECONDS
    assert again.begin_checkpoint() == 3
    state = state_of([])
    state = replace(state, end_offset=3, epoch=1, acls={added(7).id: added(7).acl})
    assert again.write_checkpoint(state)
    newest = reopen(tmp_path)
    assert (newest.cluster_id, read_ids(newest.batches())) == ("other", {7})


def test_failed_reset_adds_nothing_to_the_old_files(tmp_path: Path) -> None:
    storage = RecordingStorage()
    copy = begun_copy(tmp_path, acl_batch(2, 1), storage=storage)
    storage.failing = "rename"
    copy.begin_anew(RESET)
    assert "error" in copy.fault
    copy.adopt_cluster("other")
    copy.append([*BEGINNING, acl_batch(2, 7)])
    again = reopen(tmp_path)
    assert (again.cluster_id, read_ids(again.batches())) == (CLUSTER_ID, {1})


# The directory.


def test_mark_is_removed_last(tmp_path: Path) -> None:
    """Without it, a start could mistake the rest for a log of its own."""
    begun_copy(tmp_path).close()
    (tmp_path / "file of another program").touch()
    storage = RecordingStorage()
    removed = [*remove_copy(tmp_path, storage), remove_mark(tmp_path, storage)]
    assert [each.name for each in removed] == [
        segment_name(0), SET_ASIDE_NAME, meta_properties.NAME, MARK_NAME,
    ]  # fmt: skip
    assert [each.name for each in tmp_path.iterdir()] == ["file of another program"]
    calls = storage.named("remove", "sync_directory")
    assert calls[-2:] == [("remove", MARK_NAME), ("sync_directory", tmp_path.name)]
    assert calls[-3] == ("sync_directory", tmp_path.name)


def test_mark_is_read_back(tmp_path: Path) -> None:
    assert read_mark(tmp_path) is None
    assert read_mark(tmp_path / "missing") is None
    write_mark(tmp_path, CopyMark("brokers"), PRIVATE_DISK)
    mark = read_mark(tmp_path)
    assert mark is not None
    assert mark.source == "brokers"
    assert mark.kept_records == KEPT_RECORDS
    (tmp_path / MARK_NAME).write_text("version=2\nsource=quorum\n")
    with pytest.raises(LogDirectoryError, match="expected version=1"):
        read_mark(tmp_path)
