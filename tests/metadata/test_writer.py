"""The LogWriter on real files, through a Storage that records calls and may fail."""

import errno
import itertools
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from authorizerd.acl.model import AclAdded, AclRemoved
from authorizerd.image.changes import FeatureLevel
from authorizerd.image.features import METADATA_VERSION_KNOWN
from authorizerd.metadata.directory import (
    CLEAN_SHUTDOWN_NAME,
    METADATA_TOPIC_DIRECTORY,
    find_files,
    segment_name,
)
from authorizerd.metadata.errors import LogNotWrittenError
from authorizerd.metadata.log import LogBatch, MetadataLog, Progress
from authorizerd.metadata.replay import Replay
from authorizerd.metadata.segments import SHORTAGES
from authorizerd.metadata.storage import Storage
from authorizerd.metadata.writer import CLEAN_SHUTDOWN_MARK, FEATURES_WRITTEN, LogWriter
from authorizerd.protocol.records.batch import HEADER_SIZE, ControlType
from authorizerd.protocol.records.fast_reader import Texts, read_records
from authorizerd.protocol.records.metadata import AbortTransaction, BeginTransaction
from tests.metadata.reading import numbers, read
from tests.support.log_files import (
    METADATA_VERSION,
    acl_id,
    added,
    control_batch,
    data_batch,
    read_acls,
    removed,
    write_checkpoint,
    write_log,
    write_segment,
)
from tests.support.recording_storage import PowerFailure, RecordingStorage

NODE_ID = 7
NOW_MS = 1_792_000_000_000
FIRST_SEGMENT = segment_name(0)


BEGUN = 1 + len(FEATURES_WRITTEN)
"""The number of records at the beginning of a new log."""


def started(
    log_dir: Path,
    storage: Storage | None = None,
    *,
    segment_bytes_max: int = 1 << 30,
    metadata_version: int = METADATA_VERSION_KNOWN,
) -> LogWriter:
    """Return a writer that has begun at the end of the log, or a new log."""
    clock = itertools.count(NOW_MS)
    writer = LogWriter(
        log_dir,
        storage=storage or Storage(),
        segment_bytes_max=segment_bytes_max,
        now_ms=lambda: next(clock),
    )
    progress, replay = Progress(), Replay()
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    if directory.exists():
        log = MetadataLog.open(log_dir)
        for batch in log.batches():
            list(replay.steps(batch))
        progress = log.progress
    directory.mkdir(parents=True, exist_ok=True)
    writer.start(progress, replay, node_id=NODE_ID, metadata_version=metadata_version)
    return writer


def epochs(log_dir: Path) -> list[tuple[int, int, bool]]:
    """Return base offset, epoch and kind (control) of each batch."""
    return [
        (
            each.placed.batch.base_offset,
            each.placed.batch.leader_epoch,
            each.placed.batch.is_control,
        )
        for each in read(log_dir)[0]
    ]


def record_types(batch: LogBatch) -> list[str]:
    records = itertools.chain.from_iterable(read_records(batch.placed.batch, Texts()))
    return [type(record).__name__ for record in records]


def test_acknowledged_changes_are_read_after_a_restart(tmp_path: Path) -> None:
    writer = started(tmp_path)
    assert writer.append([[added(1), added(2)], [removed(1)]]) == BEGUN + 2
    assert writer.append([[added(3)]]) == writer.last_offset == BEGUN + 3
    writer.close()
    assert numbers(tmp_path) == {2, 3}
    writer = started(tmp_path)
    assert writer.append([[removed(3), added(4)]]) == BEGUN + 6
    writer.close()
    assert numbers(tmp_path) == {2, 4}
    assert read_acls(tmp_path)[acl_id(2)] == added(2).acl


def test_log_begins_with_a_leader_change_and_a_metadata_version(tmp_path: Path) -> None:
    started(tmp_path).append([[added(1)]])
    batches, _ = read(tmp_path)
    leader, feature, acls = (each.placed.batch for each in batches)
    voter = b"\2" + struct.pack(">i", NODE_ID) + b"\0"
    key, value = b"\0\0\0\2", b"\0\0" + struct.pack(">i", NODE_ID) + voter + voter + b"\0"
    record = b"\0\0\0" + bytes([2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\0"
    assert leader.data[HEADER_SIZE:] == bytes([2 * len(record)]) + record
    attributes = leader.data[21:23]
    assert attributes == b"\0\x20"
    assert leader.data[43:57] == b"\xff" * 14, "producer id, epoch and sequence: none"
    assert [each.base_offset for each in (leader, feature, acls)] == [0, 1, BEGUN]
    assert {each.leader_epoch for each in (leader, feature, acls)} == {1}
    named = list(itertools.chain.from_iterable(read_records(feature, Texts())))
    assert named[0] == FeatureLevel("metadata.version", 33)
    assert named == [FeatureLevel(*each) for each in FEATURES_WRITTEN.items()]


def test_log_of_an_older_level_has_the_features_of_its_time(tmp_path: Path) -> None:
    """Kafka 4.3 does not know level 2 of share.version."""
    started(tmp_path, metadata_version=30).close()
    (_, feature), _ = read(tmp_path)
    named = itertools.chain.from_iterable(read_records(feature.placed.batch, Texts()))
    assert FeatureLevel("share.version", 1) in [*named]


def test_each_start_begins_the_next_epoch(tmp_path: Path) -> None:
    """It begins with a LeaderChange, but without a second metadata.version."""
    for _ in range(3):
        started(tmp_path).close()
    assert epochs(tmp_path) == [(0, 1, True), (1, 1, False), (BEGUN, 2, True), (BEGUN + 1, 3, True)]
    write_segment(tmp_path, 0, control_batch(0, ControlType.LEADER_CHANGE, epoch=41))
    assert started(tmp_path).epoch == 42
    assert epochs(tmp_path) == [(0, 41, True), (1, 42, True), (2, 42, False)]


def test_each_request_is_a_batch_and_several_share_a_sync(tmp_path: Path) -> None:
    storage = RecordingStorage()
    writer = started(tmp_path, storage)
    storage.calls.clear()

    def note() -> None:
        storage.calls.append(("written", ""))

    removals = [removed(1), removed(2), removed(3)]
    writer.append([[added(1), added(2)], [added(3)], removals], before_sync=note)
    assert storage.calls == [("append", FIRST_SEGMENT), ("written", ""), ("sync", FIRST_SEGMENT)]
    batches, _ = read(tmp_path)
    assert [record_types(each) for each in batches[2:]] == [
        ["AclAdded"] * 2,
        ["AclAdded"],
        ["AclRemoved"] * 3,
    ]


def test_empty_append_is_not_synced(tmp_path: Path) -> None:
    storage = RecordingStorage()
    writer = started(tmp_path, storage)
    storage.calls.clear()
    assert writer.append([]) == BEGUN - 1
    assert storage.calls == []


def test_full_segment_is_followed_by_a_new_one(tmp_path: Path) -> None:
    bytes_max = 400
    writer = started(tmp_path, segment_bytes_max=bytes_max)
    for number in range(20):
        writer.append([[added(number)]])
    writer.close()
    segments = find_files(tmp_path).segments
    assert len(segments) > 5
    assert all(each.path.stat().st_size <= bytes_max for each in segments)
    batches, progress = read(tmp_path)
    first_of = {each.placed.path: each.placed.batch.base_offset for each in reversed(batches)}
    assert {each.path: each.base_offset for each in segments} == first_of
    assert progress.last_offset == BEGUN + 19
    assert numbers(tmp_path) == set(range(20))


def test_batches_of_one_append_are_in_one_segment(tmp_path: Path) -> None:
    """They stay together even if the segment then exceeds its maximum size."""
    writer = started(tmp_path, segment_bytes_max=500)
    writer.append([[added(number) for number in range(50)], [added(50)]])
    writer.append([[added(51)]])
    assert [each.base_offset for each in find_files(tmp_path).segments] == [0, BEGUN, BEGUN + 51]
    assert numbers(tmp_path) == set(range(52))


def test_name_of_a_segment_is_durable_before_its_contents(tmp_path: Path) -> None:
    storage = RecordingStorage()
    writer = started(tmp_path, storage, segment_bytes_max=550)
    writer.append([[added(1)]])
    storage.calls.clear()
    writer.append([[added(2)]])
    new = segment_name(BEGUN + 1)
    assert storage.calls == [
        ("open_directory", METADATA_TOPIC_DIRECTORY),
        ("append_to", new),
        ("sync_directory", METADATA_TOPIC_DIRECTORY),
        ("append", new),
        ("sync", new),
    ]


@pytest.mark.parametrize("failing", ["open_directory", "append_to"])
@pytest.mark.parametrize("number", sorted(SHORTAGES))
def test_append_without_a_new_file_changes_nothing(
    tmp_path: Path, failing: str, number: int
) -> None:
    """The next append succeeds."""
    storage = RecordingStorage(number=number)
    writer = started(tmp_path, storage, segment_bytes_max=300)
    contents = {each: each.read_bytes() for each in tmp_path.rglob("*.log")}
    storage.failing = failing
    with pytest.raises(LogNotWrittenError, match=os.strerror(number)):
        writer.append([[added(1)], [added(2)]])
    assert {each: each.read_bytes() for each in tmp_path.rglob("*.log")} == contents
    assert writer.append([[added(3)]]) == writer.last_offset == BEGUN
    writer.close()
    assert (tmp_path / CLEAN_SHUTDOWN_NAME).exists()
    assert numbers(tmp_path) == {3}


@pytest.mark.parametrize("how", ["replaced", "removed", "cut"])
def test_write_into_a_replaced_file_is_not_acknowledged(tmp_path: Path, how: str) -> None:
    writer = started(tmp_path)
    path = tmp_path / METADATA_TOPIC_DIRECTORY / FIRST_SEGMENT
    match how:
        case "replaced":
            copy = path.with_name("copy")
            copy.write_bytes(path.read_bytes())
            copy.replace(path)
        case "removed":
            path.unlink()
        case "cut":
            path.write_bytes(path.read_bytes()[:-1])
    for _ in range(2):
        with pytest.raises(
            OSError, match=r"another process|No such file|the log accepts no writes"
        ):
            writer.append([[added(1)]])
    writer.close()
    assert not (tmp_path / CLEAN_SHUTDOWN_NAME).exists()


def test_log_continues_in_its_last_segment(tmp_path: Path) -> None:
    """A start counts the bytes of the segment."""
    for number in range(12):
        writer = started(tmp_path, segment_bytes_max=400)
        writer.append([[added(number)]])
        writer.close()
    segments = find_files(tmp_path).segments
    assert len(segments) > 3
    assert all(each.path.stat().st_size <= 400 for each in segments)
    assert numbers(tmp_path) == set(range(12))


def test_torn_tail_is_cut_before_the_first_write(tmp_path: Path) -> None:
    last = data_batch(3, [added(2), added(3)])
    for kept in range(1, len(last)):
        path = write_log(tmp_path, [added(1)])
        whole = path.read_bytes()
        path.write_bytes(whole + last[:kept])
        storage = RecordingStorage()
        writer = started(tmp_path, storage)
        written = storage.named("truncate", "append")
        assert written == [("truncate", path.name), ("append", path.name)]
        assert path.read_bytes().startswith(whole)
        writer.append([[added(4)]])
        assert numbers(tmp_path) == {1, 4}
        assert read(tmp_path)[1].torn_tail is None


def test_tail_of_zeros_is_cut(tmp_path: Path) -> None:
    path = write_log(tmp_path, [added(1)])
    path.write_bytes(path.read_bytes() + bytes(5000))
    started(tmp_path).append([[added(2)]])
    assert numbers(tmp_path) == {1, 2}
    assert path.stat().st_size < 1000


def test_empty_last_segment_is_continued(tmp_path: Path) -> None:
    """A crash after its creation leaves it empty."""
    write_log(tmp_path, [added(1)])
    write_segment(tmp_path, 3)
    started(tmp_path).append([[added(2)]])
    assert [each.base_offset for each in find_files(tmp_path).segments] == [0, 3]
    assert numbers(tmp_path) == {1, 2}


def test_open_transaction_is_aborted(tmp_path: Path) -> None:
    """Otherwise later writes would belong to it."""
    write_log(tmp_path, [added(1)], [BeginTransaction("t"), added(2)])
    writer = started(tmp_path)
    writer.append([[added(3)]])
    assert numbers(tmp_path) == {1, 3}
    assert [record_types(each) for each in read(tmp_path)[0][-2:]] == [
        [AbortTransaction.__name__],
        [AclAdded.__name__],
    ]
    writer.close()
    started(tmp_path).close()
    assert record_types(read(tmp_path)[0][-2]) == [AclAdded.__name__], "once"


def test_log_continues_after_a_single_checkpoint(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 10, [METADATA_VERSION, added(5)], epoch=4)
    writer = started(tmp_path)
    assert writer.append([[added(6)]]) == 11
    assert [each.base_offset for each in find_files(tmp_path).segments] == [10]
    assert epochs(tmp_path)[-2:] == [(10, 5, True), (11, 5, False)]
    writer.close()
    started(tmp_path).append([[removed(5)]])
    assert numbers(tmp_path) == {6}


def test_start_removes_no_segment_below_a_checkpoint(tmp_path: Path) -> None:
    """Only retention does: the past begins there, and the checkpoint may be damaged later."""
    writer = started(tmp_path, segment_bytes_max=300)
    for number in range(1, 9):
        writer.append([[added(number)]])
    segments = find_files(tmp_path).segments
    write_checkpoint(
        tmp_path, writer.last_offset + 1, [METADATA_VERSION, *map(added, range(1, 9))],
        epoch=writer.epoch,
    )  # fmt: skip
    started(tmp_path, segment_bytes_max=300)
    assert len(segments) > 3
    assert {*segments} <= {*find_files(tmp_path).segments}


def test_clean_shutdown_mark_is_removed_before_the_first_write(tmp_path: Path) -> None:
    """The removal is durable, or a later torn tail might look clean."""
    started(tmp_path).close()
    assert (tmp_path / CLEAN_SHUTDOWN_NAME).read_bytes() == CLEAN_SHUTDOWN_MARK
    storage = RecordingStorage()
    writer = started(tmp_path, storage)
    assert storage.calls[:2] == [("remove", CLEAN_SHUTDOWN_NAME), ("sync_directory", tmp_path.name)]
    assert not (tmp_path / CLEAN_SHUTDOWN_NAME).exists()
    storage.calls.clear()
    writer.close()
    assert storage.calls == [
        ("append_to", CLEAN_SHUTDOWN_NAME),
        ("append", CLEAN_SHUTDOWN_NAME),
        ("sync", CLEAN_SHUTDOWN_NAME),
        ("sync_directory", tmp_path.name),
    ]


def test_unsynced_removal_by_another_process_is_synced(tmp_path: Path) -> None:
    started(tmp_path).close()
    with pytest.raises(PowerFailure):
        started(tmp_path, RecordingStorage("sync_directory", is_crash=True))
    assert not (tmp_path / CLEAN_SHUTDOWN_NAME).exists()
    storage = RecordingStorage()
    started(tmp_path, storage)
    before_writing = storage.calls[: storage.calls.index(("append", FIRST_SEGMENT))]
    assert ("sync_directory", tmp_path.name) in before_writing


def test_records_of_a_killed_process_are_synced_first(tmp_path: Path) -> None:
    """They were read as part of the log, so they must not vanish. The new epoch is in a new
    segment here, whose sync would not cover them.
    """
    path = write_log(tmp_path, [added(1)])
    storage = RecordingStorage()
    started(tmp_path, storage, segment_bytes_max=path.stat().st_size)
    new = segment_name(3)
    before = storage.calls[: storage.calls.index(("append_to", new))]
    assert ("sync", FIRST_SEGMENT) in before
    assert ("sync_directory", METADATA_TOPIC_DIRECTORY) in before


def test_damaged_checkpoint_is_set_aside_before_the_first_write(tmp_path: Path) -> None:
    """Otherwise retention might count on it."""
    write_log(tmp_path, [added(1)])
    path = write_checkpoint(tmp_path, 3, [METADATA_VERSION, added(1)])
    path.write_bytes(path.read_bytes()[:-1])
    whole = write_checkpoint(tmp_path, 2, [METADATA_VERSION])
    storage = RecordingStorage()
    started(tmp_path, storage).append([[added(2)]])
    aside = path.name + ".corrupt"
    before_writing = storage.calls[: storage.calls.index(("append", FIRST_SEGMENT))]
    assert before_writing.index(("rename", aside)) < before_writing.index(
        ("sync_directory", METADATA_TOPIC_DIRECTORY)
    )
    assert [each.path for each in find_files(tmp_path).checkpoints] == [whole]
    assert (path.parent / aside).is_file()
    assert numbers(tmp_path) == {1, 2}


def test_writer_that_never_started_leaves_no_mark(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)])
    storage = RecordingStorage()
    LogWriter(tmp_path, storage=storage, segment_bytes_max=1024, now_ms=lambda: 0).close()
    assert storage.calls == []
    with pytest.raises(OSError, match="accepts no writes"):
        LogWriter(tmp_path, storage=storage, segment_bytes_max=1024, now_ms=lambda: 0).append([])


@pytest.mark.parametrize("name", [FIRST_SEGMENT, segment_name(BEGUN + 1)])
def test_nothing_is_written_after_another_process_has_written(tmp_path: Path, name: str) -> None:
    """A Kafka node may begin its epoch before it notices the lock."""
    writer = started(tmp_path)
    writer.append([[added(1)]])
    with (tmp_path / METADATA_TOPIC_DIRECTORY / name).open("ab") as file:
        file.write(b"other")
    before = {each: each.read_bytes() for each in tmp_path.rglob("*.log")}
    for _ in range(2):
        with pytest.raises(OSError, match=r"accepts no writes|has written"):
            writer.append([[added(2)]])
    writer.close()
    assert {each: each.read_bytes() for each in tmp_path.rglob("*.log")} == before
    assert not (tmp_path / CLEAN_SHUTDOWN_NAME).exists()


@pytest.mark.parametrize(
    ("failing", "number"),
    [
        ("append_to", errno.EIO),
        *itertools.product(("append", "sync", "sync_directory"), (errno.EIO, errno.ENOSPC)),
    ],
)
def test_nothing_is_written_after_an_error(tmp_path: Path, failing: str, number: int) -> None:
    """The contents of the file are then unknown, also if the disk is only full."""
    storage = RecordingStorage(number=number)
    writer = started(tmp_path, storage, segment_bytes_max=300)
    storage.failing = failing
    with pytest.raises(OSError, match=os.strerror(number)):
        writer.append([[added(1)], [added(2)]])
    storage.calls.clear()
    contents = {each: each.read_bytes() for each in tmp_path.rglob("*.log")}
    for _ in range(2):
        with pytest.raises(OSError, match="the log accepts no writes"):
            writer.append([[added(3)]])
    writer.close()
    assert storage.calls == []
    assert {each: each.read_bytes() for each in tmp_path.rglob("*.log")} == contents
    assert not (tmp_path / CLEAN_SHUTDOWN_NAME).exists()
    started(tmp_path).append([[added(4)]])
    assert 4 in numbers(tmp_path)


@pytest.mark.parametrize("failing", ["remove", "truncate", "append", "sync", "sync_directory"])
def test_failed_start_writes_nothing_more(tmp_path: Path, failing: str) -> None:
    if failing == "truncate":
        path = write_log(tmp_path, [added(1)])
        path.write_bytes(path.read_bytes() + b"\0\0\0")
    else:
        started(tmp_path).close()
    storage = RecordingStorage(failing)
    with pytest.raises(OSError, match="Input/output error"):
        started(tmp_path, storage)
    assert numbers(tmp_path) <= {1}
    started(tmp_path).append([[added(2)]])
    assert 2 in numbers(tmp_path)


STEPS: Sequence[list[AclAdded | AclRemoved]] = (
    [added(1), added(2)],
    [removed(1)],
    [added(3)],
    [removed(2), added(4)],
)
STATES = [set(), {1, 2}, {2}, {2, 3}, {3, 4}]


@pytest.mark.parametrize("what", ["append_to", "append", "sync", "sync_directory", "remove"])
def test_crash_at_any_call_loses_nothing_acknowledged(tmp_path: Path, what: str) -> None:
    """At most one further request is in the log."""
    for skip in itertools.count():
        log_dir = tmp_path / str(skip)
        started(log_dir).close()
        storage = RecordingStorage(what, skip=skip, is_crash=True)
        acknowledged = 0
        try:
            writer = started(log_dir, storage, segment_bytes_max=300)
            for step in STEPS:
                writer.append([step])
                acknowledged += 1
        except PowerFailure:
            pass
        else:
            assert skip, "no such call was made"
            return
        assert numbers(log_dir) in STATES[acknowledged : acknowledged + 2]
        started(log_dir).append([[added(9)]])
        assert 9 in numbers(log_dir)
