"""Where a backup may be restored, where the log then continues, and what proves the new log."""

import os
import stat
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.as_of import AsOf
from authorizerd.metadata.backups import restore as restore_module
from authorizerd.metadata.backups.backup import Backup
from authorizerd.metadata.backups.restore import Restored, restore
from authorizerd.metadata.backups.restore_target import RestoreTarget, examine_target
from authorizerd.metadata.checkpoint_writer import CheckpointState, write_checkpoint
from authorizerd.metadata.copy_directory import CopyMark, write_mark
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.epochs import EPOCH_MAX
from authorizerd.metadata.errors import BackupError, LogDirectoryError, PastRangeError
from authorizerd.metadata.log_state import read_state
from authorizerd.metadata.meta_properties import (
    UNFINISHED_NAME,
    MetaProperties,
    read_meta_properties,
)
from authorizerd.metadata.past.past_log import read_past
from authorizerd.metadata.quorum_state import NAME as QUORUM_STATE
from authorizerd.metadata.storage import DISK, AppendFile, Storage
from authorizerd.protocol.records.batch import ControlType
from tests.support.backups import PROPERTIES, new_backup, write_own_log
from tests.support.log_files import (
    METADATA_VERSION,
    TIME_MS,
    added,
    control_batch,
    data_batch,
    flipped,
    read_acls,
    read_cluster,
    write_segment,
)
from tests.support.log_files import write_checkpoint as write_checkpoint_file
from tests.support.sizes import size

NOW = datetime.fromtimestamp(TIME_MS / 1000 + 60, UTC)
ACLS = (added(1), added(2), added(3))


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    """Return a backup whose last offset is 4."""
    (tmp_path / "backup").mkdir()
    return new_backup(tmp_path / "backup", ACLS)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return tmp_path / "log"


def examine(log_dir: Path, backup: Backup, **more: object) -> RestoreTarget:
    arguments: dict[str, object] = {"node_id": None, "new_id": lambda: "new-id", **more}
    return examine_target(log_dir, backup, **arguments)  # type: ignore[arg-type]  # a table's


def run(log_dir: Path, backup: Backup, storage: Storage = DISK) -> Restored:
    return restore(backup, examine(log_dir, backup), NOW, storage)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_restored_log_has_exactly_the_backups_state(log_dir: Path, backup: Backup) -> None:
    """The old log is a log directory of its own, beside the new one."""
    write_own_log(log_dir, [added(9)])
    old = read_acls(log_dir)
    restored = run(log_dir, backup)
    assert read_acls(log_dir) == dict(backup.state.acls.items())
    assert read_cluster(log_dir) == backup.state.cluster
    assert read_meta_properties(log_dir) == PROPERTIES
    assert restored.replaced == log_dir / f"replaced-{NOW:%Y%m%dT%H%M%SZ}"
    assert read_acls(restored.replaced) == old
    assert read_meta_properties(restored.replaced) == PROPERTIES


def test_new_directory_gets_the_backups_cluster_and_node(log_dir: Path, backup: Backup) -> None:
    log_dir.mkdir()
    assert run(log_dir, backup).replaced is None
    assert read_meta_properties(log_dir) == MetaProperties("some-cluster", 1, "new-id")
    assert read_acls(log_dir) == dict(backup.state.acls.items())
    assert names(log_dir) == [
        METADATA_TOPIC_DIRECTORY,
        f"{METADATA_TOPIC_DIRECTORY}/00000000000000000005-0000000001.checkpoint",
        "meta.properties",
    ]


def test_directory_without_a_cluster_gets_that_of_the_backup(log_dir: Path, backup: Backup) -> None:
    write_own_log(log_dir, [added(9)], None)
    run(log_dir, backup)
    assert read_meta_properties(log_dir) == MetaProperties("some-cluster", 1, "new-id")


def test_dry_run_proves_and_changes_nothing(log_dir: Path, backup: Backup) -> None:
    write_own_log(log_dir, [added(9)])
    before = names(log_dir)
    assert restore(backup, examine(log_dir, backup), NOW, is_dry_run=True).replaced is None
    assert names(log_dir) == before
    assert set(read_acls(log_dir)) == {added(9).id}


@pytest.mark.parametrize(
    ("properties", "more", "text"),
    [
        (MetaProperties("other", 1, ""), {}, "directory of cluster some-cluster, as the backup, f"),
        (MetaProperties("some-cluster", 2, ""), {"node_id": 1}, "belongs to node 2"),
        (PROPERTIES, {"next_offset": 2**62 + 1}, "leaves too few"),
    ],
)
def test_other_directories_are_refused(
    log_dir: Path, backup: Backup, properties: MetaProperties, more: dict[str, object], text: str
) -> None:
    write_own_log(log_dir, [], properties)
    with pytest.raises(BackupError, match=text):
        examine(log_dir, backup, **more)


def test_another_cluster_is_accepted_on_request(log_dir: Path, backup: Backup) -> None:
    """The directory keeps its own id."""
    own = MetaProperties("other", 7, "")
    write_own_log(log_dir, [], own)
    assert examine(log_dir, backup, is_other_cluster=True).properties == own


def test_backup_of_an_unknown_cluster_has_no_node(tmp_path: Path, log_dir: Path) -> None:
    """A log without meta.properties does not say where it belongs."""
    unknown = new_backup(tmp_path, ACLS, None)
    with pytest.raises(BackupError, match=r"pass --config, whose node\.id is used"):
        examine(log_dir, unknown)
    assert examine(log_dir, unknown, node_id=3).properties == MetaProperties("new-id", 3, "new-id")
    write_own_log(log_dir, [])
    with pytest.raises(BackupError, match="directory of cluster unknown"):
        examine(log_dir, unknown)


def leave_an_epoch_near_the_highest(log_dir: Path) -> None:
    for path in (log_dir / METADATA_TOPIC_DIRECTORY).iterdir():
        path.unlink()
    write_checkpoint_file(log_dir, 90, [METADATA_VERSION], epoch=EPOCH_MAX - 9)


QUORUM = (
    '{"clusterId":"","leaderId":2,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
)
UNSUITABLE: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    # Its daemon would replace it by the cluster's state at once.
    "a copy": (lambda log_dir: write_mark(log_dir, CopyMark("quorum"), DISK), BackupError,
               "found a copy of a followed cluster .* reset-copy"),
    "unfinished": (lambda log_dir: (log_dir / UNFINISHED_NAME).touch(), LogDirectoryError,
                   "formatting was interrupted"),
    # Its other voters would have a newer log, and fork it.
    "of a quorum": (
        lambda log_dir: (log_dir / METADATA_TOPIC_DIRECTORY / QUORUM_STATE).write_text(QUORUM),
        LogDirectoryError, "belongs to a quorum with node 2",
    ),
    "its epoch": (leave_an_epoch_near_the_highest, BackupError,
                  "leaves too few: move the old log away"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSUITABLE)
def test_unsuitable_log_is_refused(log_dir: Path, backup: Backup, name: str) -> None:
    spoil, error, reason = UNSUITABLE[name]
    write_own_log(log_dir, [])
    spoil(log_dir)
    with pytest.raises(error, match=reason):
        examine(log_dir, backup)


@pytest.mark.parametrize(
    ("records", "next_offset", "expected"),
    [
        ([], 0, (5, 2)),  # the backup's end is later
        ([added(number) for number in range(4, 20)], 0, (19, 2)),  # the old log's end is later
        ([], 4, (5, 2)),
        ([], 500, (500, 2)),
    ],
)
def test_log_continues_after_all_that_was_seen(
    log_dir: Path,
    backup: Backup,
    records: Sequence[object],
    next_offset: int,
    expected: tuple[int, int],
) -> None:
    """Offsets never go back, and the epoch is later than the old one."""
    write_own_log(log_dir, records)  # type: ignore[arg-type]  # a table's
    target = examine(log_dir, backup, next_offset=next_offset)
    assert (target.end_offset, target.epoch) == expected


def test_open_transaction_counts_as_seen(log_dir: Path, backup: Backup) -> None:
    """Its offsets were used, although its changes never became visible."""
    write_own_log(log_dir, [added(number) for number in range(4, 9)])
    segment = log_dir / METADATA_TOPIC_DIRECTORY / f"{0:020d}.log"
    begin = b"\1\x17\0\0"
    segment.write_bytes(segment.read_bytes() + data_batch(7, [begin, added(9)]))
    assert examine(log_dir, backup).end_offset == 10


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=size(10, 60))
@given(st.data())
def test_damaged_log_never_reached_the_offset_at_which_it_continues(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Nor the epoch: wherever the damage is, and however much of the log it hides."""
    folder = tmp_path_factory.mktemp("damaged")
    backup, log_dir = new_backup(folder, ACLS), folder / "log"
    write_own_log(log_dir, [])
    end, epoch = 2, 1
    for _ in range(data.draw(st.integers(1, 3))):
        batches = []
        for _ in range(data.draw(st.integers(1, 4))):
            epoch += 1
            batches.append(control_batch(end, ControlType.LEADER_CHANGE, epoch=epoch))
            records = [added(end + 1 + number) for number in range(data.draw(st.integers(1, 3)))]
            batches.append(data_batch(end + 1, records, epoch=epoch))
            end += 1 + len(records)
        write_segment(log_dir, end - sum(map(_count, batches)), *batches)
    paths = sorted((log_dir / METADATA_TOPIC_DIRECTORY).glob("*.log"))
    path = data.draw(st.sampled_from(paths))
    content = path.read_bytes()
    path.write_bytes(flipped(content, data.draw(st.integers(0, len(content) - 1)), 0xFF))
    target = examine(log_dir, backup)
    assert target.end_offset > end
    assert target.epoch > epoch
    assert target.old is not None
    assert bool(target.old.fault) == (target.old.acls is None)


def _count(batch: bytes) -> int:
    return int.from_bytes(batch[57:61])


def test_damaged_log_is_replaced_and_kept(log_dir: Path, backup: Backup) -> None:
    write_own_log(log_dir, [added(9)])
    segment = log_dir / METADATA_TOPIC_DIRECTORY / f"{0:020d}.log"
    damaged = flipped(segment.read_bytes(), 100)
    segment.write_bytes(damaged)
    restored = run(log_dir, backup)
    assert restored.replaced is not None
    assert (restored.replaced / METADATA_TOPIC_DIRECTORY / segment.name).read_bytes() == damaged
    assert read_acls(log_dir) == dict(backup.state.acls.items())


class WornDisk(Storage):
    """A disk that changes one byte of each checkpoint that is written."""

    def append_to(self, path: Path, like: Path | None = None) -> AppendFile:
        file = super().append_to(path, like)
        return _WornFile(file) if ".checkpoint" in path.name else file


class _WornFile:
    def __init__(self, file: AppendFile) -> None:
        self._file = file

    def append(self, pieces: Sequence[bytes]) -> None:
        self._file.append([flipped(piece, len(piece) // 2) for piece in pieces])

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()


def test_log_that_reads_back_otherwise_replaces_nothing(log_dir: Path, backup: Backup) -> None:
    write_own_log(log_dir, [added(9)])
    before = names(log_dir)
    with pytest.raises(BackupError, match="has a fault, nothing was replaced"):
        run(log_dir, backup, WornDisk())
    assert names(log_dir) == before


def test_log_that_lacks_an_acl_replaces_nothing(
    log_dir: Path, backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A valid log is not enough: it must be what the backup says."""

    def write_less(part: Path, state: CheckpointState, *rest: Any, **more: Any) -> Path:  # noqa: ANN401
        acls = dict(list(state.acls.items())[1:])
        return write_checkpoint(part, replace(state, acls=acls), *rest, **more)

    write_own_log(log_dir, [added(9)])
    before = names(log_dir)
    monkeypatch.setattr(restore_module, "write_checkpoint", write_less)
    with pytest.raises(BackupError, match="differs from the backup, nothing was replaced"):
        run(log_dir, backup)
    assert names(log_dir) == before


def test_second_restore_in_the_same_second_keeps_both_logs(log_dir: Path, backup: Backup) -> None:
    write_own_log(log_dir, [added(9)])
    first, second = run(log_dir, backup), run(log_dir, backup)
    assert first.replaced is not None
    assert second.replaced == first.replaced.with_name(f"{first.replaced.name}.2")
    assert names(first.replaced) != names(second.replaced)


def test_restored_log_has_the_permissions_of_the_replaced_one(
    log_dir: Path, backup: Backup
) -> None:
    write_own_log(log_dir, [added(9)])
    log = log_dir / METADATA_TOPIC_DIRECTORY
    for path in log.iterdir():
        path.chmod(0o600)
    log.chmod(0o700)
    before = os.umask(0)
    try:
        replaced = run(log_dir, backup).replaced
    finally:
        os.umask(before)
    assert replaced is not None
    assert {stat.S_IMODE(path.stat().st_mode) for path in (log, replaced)} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in log.iterdir()} == {0o600}


def test_state_was_not_in_force_before_the_restore(log_dir: Path, backup: Backup) -> None:
    """A question about an earlier time has no answer, rather than that of the backup."""
    write_own_log(log_dir, [added(9)])
    run(log_dir, backup)
    moment = AsOf(time_ms=TIME_MS + 1)
    with pytest.raises(PastRangeError, match="too old"):
        read_past(log_dir, lambda log: log.find_offset(moment))
    assert read_state(log_dir).content.timestamp_ms == TIME_MS + 60_000
