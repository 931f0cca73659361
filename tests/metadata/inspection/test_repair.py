"""The repair of a log: the result is always the log at an earlier offset."""

import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.inspection.repair import (
    RepairPlan,
    UnrepairableLogError,
    plan_repair,
    repair,
)
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.storage import DISK
from authorizerd.metadata.writer import LogWriter
from tests.metadata.sound_logs import END, SEGMENTS, start_of, write_sound_log
from tests.metadata.stored_files import StoredFiles, faults_of
from tests.support.log_files import (
    METADATA_VERSION,
    acl_id,
    added,
    checkpoint_batches,
    data_batch,
    flipped,
    read_acls,
    write_checkpoint,
    write_file,
    write_segment,
)
from tests.support.recording_storage import PowerFailure, RecordingStorage

COPIES = "repair-20260102T030405Z"
NEXT_COPIES = "repair-20260102T030406Z"
STATES = {0: (), 1: (), 2: (), 4: (1, 2), 6: (1, 2), 8: (2, 3), 9: (2, 3), 10: (2, 3, 4),
          13: (2, 3, 4), 14: (2, 3, 4, 6), 15: (2, 3, 6)}  # fmt: skip
"""The ACLs in force, by the log's end offset (exclusive)."""

CALLS = ("append_to", "append", "sync", "truncate", "rename", "remove", "sync_directory",
         "make_directory")  # fmt: skip

Damage = Callable[[Path], object]


def segment(log_dir: Path, base_offset: int) -> Path:
    return log_dir / METADATA_TOPIC_DIRECTORY / f"{base_offset:020d}.log"


def flip(path: Path, position: int) -> None:
    path.write_bytes(flipped(path.read_bytes(), position))


def spoil(base_offset: int, number: int, *, at: int = 70, checkpoints: bool = False) -> Damage:
    """Return a function that writes the log with a flipped byte in batch ``number`` of one file."""

    def write(log_dir: Path) -> None:
        write_sound_log(log_dir, checkpoints=checkpoints)
        flip(segment(log_dir, base_offset), start_of(base_offset, number) + at)

    return write


def in_one_segment(log_dir: Path) -> None:
    """Damage below the newest checkpoint, in the segment in which the log continues."""
    write_sound_log(log_dir, checkpoints=True)
    for base_offset in SEGMENTS:
        segment(log_dir, base_offset).unlink()
    pieces = [batch for batches in SEGMENTS.values() for batch in batches]
    flip(write_segment(log_dir, 0, *pieces), start_of(0, 2) + 70)


def in_one_segment_twice(log_dir: Path) -> None:
    """The batch after the checkpoint is damaged as well."""
    in_one_segment(log_dir)
    before = sum(map(len, SEGMENTS[0] + SEGMENTS[6]))
    flip(segment(log_dir, 0), before + 70)


def trimmed(log_dir: Path) -> None:
    """A checkpoint, then damage, then a segment that follows no intact batch."""
    write_sound_log(log_dir, checkpoints=True)
    for base_offset in (0, 6):
        segment(log_dir, base_offset).unlink()
    flip(write_segment(log_dir, 10, *SEGMENTS[10][:1]), 70)
    write_segment(log_dir, 13, *SEGMENTS[10][1:])


def damaged_checkpoint(log_dir: Path) -> None:
    write_sound_log(log_dir, checkpoints=True)
    flip(max((log_dir / METADATA_TOPIC_DIRECTORY).glob("*.checkpoint")), 200)


def other_checkpoint(log_dir: Path) -> None:
    write_sound_log(log_dir, checkpoints=True)
    write_checkpoint(log_dir, 10, [METADATA_VERSION, added(2), added(7), added(4)], epoch=2)


def missing_segment(log_dir: Path) -> None:
    write_sound_log(log_dir)
    segment(log_dir, 6).unlink()


def cut_after_clean_shutdown(log_dir: Path) -> None:
    write_sound_log(log_dir, clean=True)
    path = segment(log_dir, 10)
    path.write_bytes(path.read_bytes()[:-1])


def repeated_acl(log_dir: Path) -> None:
    write_sound_log(log_dir)
    write_segment(log_dir, END, data_batch(END, [added(2)], epoch=2))


def three_faults(log_dir: Path) -> None:
    """Damage with and without a covering checkpoint, and a damaged newest checkpoint."""
    damaged_checkpoint(log_dir)
    flip(segment(log_dir, 0), start_of(0, 1) + 70)
    flip(segment(log_dir, 10), start_of(10, 2) + 70)


DAMAGES: dict[str, tuple[Damage, int]] = {
    "last segment": (spoil(10, 1), 13),
    "first segment": (spoil(0, 2), 2),
    "first segment, covered": (spoil(0, 2, checkpoints=True), END),
    "segment's start": (spoil(10, 0), 10),
    "base offset": (spoil(6, 1, at=7), 8),
    "epoch": (spoil(10, 2, at=15), END),
    "one segment, covered": (in_one_segment, END),
    "one segment, twice": (in_one_segment_twice, 10),
    "trimmed": (trimmed, 10),
    "damaged checkpoint": (damaged_checkpoint, END),
    "other checkpoint": (other_checkpoint, END),
    "missing segment": (missing_segment, 6),
    "cut after a clean shutdown": (cut_after_clean_shutdown, 14),
    "repeated ACL": (repeated_acl, END),
    "three faults": (three_faults, 14),
}


def files(log_dir: Path) -> dict[str, bytes]:
    """Return the log's files by name, except unfinished ones."""
    paths = (log_dir / METADATA_TOPIC_DIRECTORY).iterdir()
    return {path.name: path.read_bytes() for path in paths if path.suffix != ".part"}


def repaired(log_dir: Path, copies: str = COPIES) -> RepairPlan:
    plan = plan_repair(log_dir, DISK)
    repair(plan, log_dir, copies, DISK)
    return plan


def start_and_read(log_dir: Path) -> set[bytes]:
    """Begin an epoch as the daemon does, and return the ids of the ACLs."""
    log, replay = MetadataLog.open(log_dir), Replay()
    for log_batch in log.batches():
        for _ in replay.steps(log_batch):
            pass
    writer = LogWriter(log_dir, storage=DISK, segment_bytes_max=2**20, now_ms=lambda: 1)
    writer.start(log.progress, replay, node_id=1)
    writer.close()
    return set(read_acls(log_dir))


@pytest.mark.parametrize("name", DAMAGES)
def test_repaired_log_is_the_log_at_an_offset(name: str, tmp_path: Path) -> None:
    """It passes an inspection and a start, and the copies equal the original files."""
    damage, end = DAMAGES[name]
    damage(tmp_path)
    before = files(tmp_path)
    plan = repaired(tmp_path)
    assert plan.faults
    assert plan.end_offset == end
    assert set(plan.snapshot.acls) == {acl_id(number) for number in STATES[end]}
    assert not faults_of(tmp_path, StoredFiles.of(tmp_path))
    changed = {key for key, value in before.items() if files(tmp_path).get(key) != value}
    copies = {path.name: path.read_bytes() for path in (tmp_path / COPIES).iterdir()}
    assert copies == {key: before[key] for key in changed}
    assert plan_repair(tmp_path, DISK).steps == ()
    assert start_and_read(tmp_path) == set(plan.snapshot.acls)
    assert not faults_of(tmp_path, StoredFiles.of(tmp_path))


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("call", CALLS)
def test_crash_at_any_call_leaves_a_repairable_log(name: str, call: str, tmp_path: Path) -> None:
    """Nothing changes before the copies are complete, and the next repair has the same result."""
    damage, _ = DAMAGES[name]
    damage(tmp_path / "whole")
    before = files(tmp_path / "whole")
    plan = repaired(tmp_path / "whole")
    after = files(tmp_path / "whole")
    for skip in range(100):
        log_dir = tmp_path / str(skip)
        damage(log_dir)
        storage = RecordingStorage(call, skip=skip, is_crash=True)
        crashing = plan_repair(log_dir, storage)
        try:
            repair(crashing, log_dir, COPIES, storage)
        except PowerFailure:
            if files(log_dir) != before:
                copies = {path.name: path.read_bytes() for path in (log_dir / COPIES).iterdir()}
                assert copies == {path.name: before[path.name] for path in crashing.files}
            again = repaired(log_dir, NEXT_COPIES)
            assert files(log_dir) == after
            assert again.end_offset == plan.end_offset
            assert again.snapshot.acls == plan.snapshot.acls
        else:
            assert files(log_dir) == after
            return
    pytest.fail("the repair never came to its end")


def test_copies_are_durable_before_any_change(tmp_path: Path) -> None:
    damage, _ = DAMAGES["first segment"]
    damage(tmp_path)
    storage = RecordingStorage()
    repair(plan_repair(tmp_path, storage), tmp_path, COPIES, storage)
    calls = storage.named("sync", "sync_directory", "truncate", "remove", "rename")
    first_change = next(n for n, each in enumerate(calls) if each[0] in CALLS[3:6])
    synced = calls[:first_change]
    assert [each[0] for each in synced[:-2]] == ["sync"] * len(list((tmp_path / COPIES).iterdir()))
    assert synced[-2:] == [("sync_directory", COPIES), ("sync_directory", tmp_path.name)]


@pytest.mark.parametrize("name", DAMAGES)
def test_each_step_is_durable_before_the_next(name: str, tmp_path: Path) -> None:
    damage, _ = DAMAGES[name]
    damage(tmp_path)
    storage = RecordingStorage()
    repair(plan_repair(tmp_path, storage), tmp_path, COPIES, storage)
    calls = [what for what, _ in storage.named("sync", "sync_directory", "remove", "rename")]
    for call, following in pairwise(calls):
        if call in ("remove", "rename"):
            assert following == "sync_directory"
        assert following != "rename" or call == "sync"


def test_any_flipped_byte_is_repaired_or_rejected(tmp_path: Path) -> None:
    """The result is always the log at an offset."""
    write_sound_log(tmp_path, checkpoints=True)
    storage = StoredFiles.of(tmp_path)
    ends = set()
    for path in [each for each in storage.files if each.parent != tmp_path]:
        whole = storage.files[path]
        for position in range(0, len(whole), 5):
            storage.files[path] = flipped(whole, position, 0x10)
            with suppress(UnrepairableLogError):
                plan = plan_repair(tmp_path, storage)
                assert plan.steps
                assert set(plan.snapshot.acls) == set(map(acl_id, STATES[plan.end_offset]))
                ends.add(plan.end_offset)
        storage.files[path] = whole
    assert ends == {10, 13, 14, END}


def ahead(log_dir: Path) -> None:
    write_sound_log(log_dir)
    write_checkpoint(log_dir, 90, [METADATA_VERSION, added(2)], epoch=2)


def uncovered(log_dir: Path) -> None:
    write_sound_log(log_dir, checkpoints=True)
    segment(log_dir, 0).unlink()
    segment(log_dir, 6).unlink()
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    for path in directory.glob("*-0000000002.checkpoint"):
        flip(path, 200)


def renamed(log_dir: Path) -> None:
    write_sound_log(log_dir)
    segment(log_dir, 10).rename(segment(log_dir, 10).with_suffix(".lof"))


def strange_properties(log_dir: Path) -> None:
    write_sound_log(log_dir)
    flip(log_dir / "meta.properties", 1)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (ahead, "the log ends before it, at offset 15"),
        (
            uncovered,
            "the log begins at offset 10, and no valid checkpoint covers the offsets before it",
        ),
        (spoil(0, 0), "no part of the log can be kept"),
        (renamed, "the name resembles a log file"),
        (strange_properties, "expected version=1"),
    ],
)
def test_unrepairable_log_is_unchanged(damage: Damage, reason: str, tmp_path: Path) -> None:
    damage(tmp_path)
    before = StoredFiles.of(tmp_path).files
    with pytest.raises(UnrepairableLogError) as refused:
        plan_repair(tmp_path, DISK)
    assert reason in str(refused.value)
    assert str(refused.value).endswith("nothing was changed")
    assert StoredFiles.of(tmp_path).files == before


def test_nothing_is_changed_without_disk_space(tmp_path: Path) -> None:
    damage, _ = DAMAGES["first segment"]
    damage(tmp_path)
    before = files(tmp_path)
    plan = plan_repair(tmp_path, DISK)
    with pytest.raises(LogDirectoryError, match=r"needs \d+ free bytes, found 10"):
        repair(plan, tmp_path, COPIES, DISK, free_bytes=lambda path: 10)
    assert not (tmp_path / COPIES).exists()
    with pytest.raises(LogDirectoryError, match="Input/output error"):
        repair(plan, tmp_path, COPIES, RecordingStorage("append"))
    assert files(tmp_path) == before


def test_copies_of_an_earlier_repair_are_kept(tmp_path: Path) -> None:
    """Two repairs may begin in one second, which is in the name."""
    damage, _ = DAMAGES["last segment"]
    damage(tmp_path)
    for name in (COPIES, f"{COPIES}.2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kept").touch()
    repaired(tmp_path)
    assert sorted(each.name for each in tmp_path.glob(f"{COPIES}*/kept")) == ["kept", "kept"]
    assert [each.name for each in (tmp_path / f"{COPIES}.3").iterdir()]


@pytest.mark.parametrize("damaged", DAMAGES)
def test_repair_keeps_the_permissions(tmp_path: Path, damaged: str) -> None:
    """Nothing that a repair writes is open to others than the log was."""
    damage, _ = DAMAGES[damaged]
    damage(tmp_path)
    log = tmp_path / METADATA_TOPIC_DIRECTORY
    for path in (*log.iterdir(), log):
        path.chmod(0o700 if path.is_dir() else 0o600)
    before = os.umask(0)
    try:
        repaired(tmp_path)
    finally:
        os.umask(before)
    modes = {
        str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode)
        for folder in (log, tmp_path / COPIES)
        for path in (*folder.iterdir(), folder)
    }
    assert modes == {name: 0o700 if (tmp_path / name).is_dir() else 0o600 for name in modes}


def test_losses_are_reported(tmp_path: Path) -> None:
    damage, _ = DAMAGES["last segment"]
    damage(tmp_path)
    lost = len(SEGMENTS[10][1])
    assert list(plan_repair(tmp_path, DISK).losses.lines()) == [
        "lost: offsets 13 to 14 (readable records: 1)",
        f"lost: {lost} unreadable bytes from offset 13 on; which ACLs they created or removed is"
        " unknown",
        f"would come back: {added(4).acl}",
    ]
    shutil.rmtree(tmp_path)
    missing_segment(tmp_path)
    assert list(plan_repair(tmp_path, DISK).losses.lines()) == [
        "lost: offsets 6 to 14 (readable records: 5)",
        f"would be gone: {added(5).acl}",
        f"would be gone: {added(6).acl}",
    ]


def test_repair_without_losses_says_so(tmp_path: Path) -> None:
    for name in ("first segment, covered", "one segment, covered", "damaged checkpoint", "epoch"):
        log_dir = tmp_path / name
        DAMAGES[name][0](log_dir)
        assert list(plan_repair(log_dir, DISK).losses.lines()) == [
            "nothing is lost: the remaining files contain every readable record"
        ]


def test_epoch_repair_changes_only_the_epoch(tmp_path: Path) -> None:
    write_sound_log(tmp_path)
    whole = files(tmp_path)
    for at in (12, 14, 15):
        flip(segment(tmp_path, 10), start_of(10, 1) + at)
        repaired(tmp_path, f"{COPIES}{at}")
        assert files(tmp_path) == whole


def test_valid_log_needs_no_repair(tmp_path: Path) -> None:
    """The next start cuts off an unfinished write."""
    write_sound_log(tmp_path, checkpoints=True)
    write_file(tmp_path, segment(tmp_path, 10).name, *SEGMENTS[10], checkpoint_batches([])[0][:9])
    plan = plan_repair(tmp_path, DISK)
    assert (plan.steps, plan.files, plan.end_offset) == ((), (), END)
