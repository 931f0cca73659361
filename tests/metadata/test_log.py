"""A whole log: its checkpoint and segments in order."""

from collections.abc import Callable
from pathlib import Path

import pytest

from authorizerd.metadata.directory import CLEAN_SHUTDOWN_NAME, checkpoint_name, segment_name
from authorizerd.metadata.errors import CorruptLogError, LogDirectoryError
from authorizerd.metadata.log import MetadataLog
from authorizerd.protocol.records.batch import ControlType, batch_size, control_key, encode_batch
from authorizerd.protocol.records.control import snapshot_header
from tests.metadata.reading import BATCHES, numbers, read, refusal
from tests.support.log_files import (
    METADATA_VERSION,
    TIME_MS,
    acl_id,
    added,
    checkpoint_batches,
    control_batch,
    data_batch,
    read_acls,
    removed,
    resealed,
    write_checkpoint,
    write_file,
    write_log,
    write_segment,
)
from tests.support.recording_storage import RecordingStorage


def offsets(path: Path) -> list[int]:
    """Return the base offset of each batch. No batch may come from a checkpoint."""
    batches, progress = read(path)
    assert not any(each.is_checkpoint for each in batches)
    assert progress.last_offset == batches[-1].last_offset
    return [each.placed.batch.base_offset for each in batches]


RECORDS = (METADATA_VERSION, added(1), added(2))
HEADER = control_batch(0, ControlType.SNAPSHOT_HEADER)
FOOTER = control_batch(1, ControlType.SNAPSHOT_FOOTER)


def test_batches_come_in_order(tmp_path: Path) -> None:
    """Control batches are included."""
    path = write_segment(tmp_path, 0, *BATCHES)
    batches, progress = read(tmp_path)
    assert [each.last_offset for each in batches] == [0, 1, 3, 5]
    assert {each.placed.path for each in batches} == {path}
    assert (progress.last_offset, progress.last_epoch, progress.torn_tail) == (5, 1, None)


def test_segments_are_contiguous(tmp_path: Path) -> None:
    """The last one may be new and empty."""
    write_segment(tmp_path, 0, *BATCHES[:2])
    write_segment(tmp_path, 2, BATCHES[2])
    write_segment(tmp_path, 4, BATCHES[3])
    assert offsets(tmp_path) == [0, 1, 2, 4]
    write_segment(tmp_path, 6)
    assert offsets(tmp_path) == [0, 1, 2, 4]


LEADER_CHANGE = ControlType.LEADER_CHANGE


def test_epoch_begins_with_a_leader_change(tmp_path: Path) -> None:
    """Epochs may be skipped."""
    pieces = [control_batch(n, LEADER_CHANGE, epoch=epoch) for n, epoch in enumerate((1, 4, 9))]
    write_segment(tmp_path, 0, *pieces, data_batch(3, [added(3)], epoch=9))
    assert read(tmp_path)[1].last_epoch == 9


Write = Callable[[Path], Path]


def segment(base_offset: int, *batches: bytes) -> Write:
    return lambda log_dir: write_segment(log_dir, base_offset, *batches)


def covered_to(end_offset: int, *, epoch: int = 1) -> Write:
    return lambda log_dir: write_checkpoint(log_dir, end_offset, RECORDS, epoch=epoch)


SIZES = [sum(map(len, BATCHES[:count])) for count in range(len(BATCHES) + 1)]
EPOCH_7 = control_batch(0, LEADER_CHANGE, epoch=7)
UNFIT: list[tuple[list[Write], int, int, str]] = [
    # No CRC covers epochs, so they are compared at the end of the log, too.
    ([segment(0, *BATCHES, data_batch(6, [added(9)], epoch=2))], SIZES[4], 6,
     "epoch 2 follows epoch 1 without a LeaderChange"),
    ([segment(0, *BATCHES, control_batch(6, LEADER_CHANGE))], SIZES[4], 6,
     "epoch 1 has a second LeaderChange"),
    ([segment(0, *BATCHES, control_batch(6, LEADER_CHANGE, epoch=2**31 - 1))], SIZES[4], 6,
     "epoch 2147483647 is the highest possible, so none can follow it"),
    *(([segment(0, EPOCH_7, data_batch(1, [added(1)], epoch=epoch))], len(EPOCH_7), 1,
       f"epoch {epoch} follows the higher epoch 7") for epoch in (6, 0, -1)),
    ([segment(0, data_batch(0, [added(0)], epoch=-1))], 0, 0,
     "epoch -1 follows the higher epoch 0"),
    ([covered_to(4, epoch=2), segment(0, *BATCHES)], SIZES[3], 4,
     "epoch 1 follows the higher epoch 2"),
    *(([segment(0, *BATCHES[:3], data_batch(base, [added(9)]))], SIZES[3], 4,
       f"expected base offset 4, found {base}") for base in (3, 5, 0, 2**40)),
    ([segment(0, *BATCHES[:2]), segment(2, BATCHES[3])], 0, 2, "expected base offset 2, found 4"),
    *(([segment(0, *BATCHES[:3]), segment(base, data_batch(base, [added(9)]))], 0, 4,
       f"the segment begins at offset {base}") for base in (3, 5, 7)),
    ([segment(0, *BATCHES[:2]), segment(2), segment(4, BATCHES[3])], 0, 2,
     "the segment begins at offset 4"),
    ([segment(2, data_batch(2, [added(9)]))], 0, 0,
     "the log begins at offset 2, and no checkpoint covers offsets 0 to 1"),
    ([covered_to(4), segment(6, data_batch(6, [added(9)]))], 0, 4,
     "the log begins at offset 6, and no checkpoint covers offsets 4 to 5"),
    ([covered_to(5), segment(0, *BATCHES)], SIZES[3], 4,
     "the batch contains the checkpoint's end, 5"),
]  # fmt: skip


@pytest.mark.parametrize(("writes", "position", "offset", "reason"), UNFIT)
def test_part_that_does_not_follow_the_one_before_it_is_rejected(
    tmp_path: Path, writes: list[Write], position: int, offset: int, reason: str
) -> None:
    """The error names the last file, and the place in it."""
    *_, path = [write(tmp_path) for write in writes]
    error = refusal(tmp_path)
    assert (error.path, error.position, error.offset) == (path, position, offset)
    assert str(error) == f"{path}: at byte {position}, log offset {offset}: {reason}"
    assert error.reason == reason


def test_log_continues_from_the_end_of_a_checkpoint(tmp_path: Path) -> None:
    """Covered batches are skipped."""
    after = data_batch(6, [removed(2)])
    write_checkpoint(tmp_path, 6, [METADATA_VERSION, added(2), added(3)])
    write_segment(tmp_path, 0, *BATCHES, after)
    batches, progress = read(tmp_path)
    assert [(each.last_offset, each.is_checkpoint) for each in batches] == [
        (5, True), (6, False)
    ]  # fmt: skip
    assert (progress.last_offset, progress.last_epoch, progress.torn_tail) == (6, 1, None)
    assert numbers(tmp_path) == {3}
    write_segment(tmp_path, 0, *BATCHES)
    write_segment(tmp_path, 6, after)
    assert numbers(tmp_path) == {3}


def test_covered_segments_may_be_missing_or_damaged(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 4, RECORDS)
    write_segment(tmp_path, 4, BATCHES[3])
    assert numbers(tmp_path) == {2, 3}
    write_segment(tmp_path, 0, b"damaged")
    assert numbers(tmp_path) == {2, 3}


def test_checkpoint_alone_is_the_state(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 90, RECORDS, epoch=3)
    for each in (tmp_path, path):
        batches, progress = read(each)
        assert (progress.last_offset, progress.last_epoch, progress.torn_tail) == (89, 3, None)
        assert [each.last_offset for each in batches] == [89]
        assert numbers(each) == {1, 2}
    path = write_checkpoint(tmp_path, 91, [])
    assert numbers(path) == set()
    assert read(path)[1].last_offset == 90


def test_checkpoint_at_offset_0_covers_nothing(tmp_path: Path) -> None:
    """Kafka's bootstrap checkpoint is one."""
    write_checkpoint(tmp_path, 0, [], epoch=0)
    write_segment(tmp_path, 0, *BATCHES)
    assert offsets(tmp_path) == [0, 1, 2, 4]


def test_newest_checkpoint_is_used(tmp_path: Path) -> None:
    """Unfinished and deleted ones are skipped."""
    write_file(tmp_path, "00000000000000000003-0000000001.checkpoint", b"damaged")
    write_checkpoint(tmp_path, 6, [METADATA_VERSION, added(7)])
    write_file(tmp_path, "00000000000000000007-0000000001.checkpoint.part", b"unfinished")
    write_file(tmp_path, "00000000000000000008-0000000001.checkpoint.deleted", b"")
    write_segment(tmp_path, 0, *BATCHES)
    assert numbers(tmp_path) == {7}


def test_log_that_ends_before_its_checkpoint_is_rejected(tmp_path: Path) -> None:
    """The missing end was durable before the checkpoint was written, so the log has lost it."""
    checkpoint = write_checkpoint(tmp_path, 90, RECORDS, epoch=3)
    for batches, end in (
        ((*BATCHES[:3], BATCHES[3][:-1]), 4), (BATCHES, 6), ((), 0), ((BATCHES[0][:30],), 0)
    ):  # fmt: skip
        path = write_segment(tmp_path, 0, *batches)
        with pytest.raises(CorruptLogError) as refused:
            read(tmp_path)
        assert (refused.value.path, refused.value.offset) == (path, end)
    path.unlink()
    assert numbers(tmp_path) == {1, 2}, "an operator may keep only the checkpoint"
    write_segment(tmp_path, 90)
    assert numbers(tmp_path) == {1, 2}, "as after Kafka has fetched a checkpoint"
    checkpoint.unlink()


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("data", [b"", bytes(600), BATCHES[0][:-1]])
def test_empty_log_is_rejected(tmp_path: Path, data: bytes, *, is_clean: bool) -> None:
    """Even a new log contains a batch."""
    path = write_segment(tmp_path, 0, data)
    if is_clean:
        (tmp_path / CLEAN_SHUTDOWN_NAME).touch()
    with pytest.raises(CorruptLogError) as refused:
        read(tmp_path)
    assert (refused.value.path, refused.value.offset) == (path, 0)


def test_cut_checkpoint_is_rejected(tmp_path: Path) -> None:
    """A checkpoint gets its name only when it is complete, so a cut one is damaged."""
    path = write_checkpoint(tmp_path, 90, RECORDS)
    whole = path.read_bytes()
    header, data, _ = checkpoint_batches(RECORDS, end_offset=90)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        error = refusal(path)
        assert error.path == path
        assert error.position <= size
        if size < len(header + data):
            assert error.offset == (0 if size < len(header) else 1)
    for following in (b"\0", b"\1", bytes(700), whole, FOOTER):
        path.write_bytes(whole + following)
        assert refusal(path).position >= len(whole)


def test_checkpoint_without_header_or_footer_is_rejected(tmp_path: Path) -> None:
    header, data, footer = checkpoint_batches(RECORDS)
    name = "00000000000000000090-0000000001.checkpoint"
    path = write_file(tmp_path, name, data_batch(0, RECORDS), FOOTER)
    assert refusal(path).reason == "the checkpoint has no header"
    path = write_file(tmp_path, name, control_batch(0, ControlType.LEADER_CHANGE), data, footer)
    assert refusal(path).reason == "the checkpoint has no header"
    for pieces in ((), (header,), (header, data)):
        path = write_file(tmp_path, name, *pieces)
        error = refusal(path)
        assert error.reason == "the checkpoint has no footer"
        assert error.position == sum(map(len, pieces))


def test_data_after_the_footer_is_rejected(tmp_path: Path) -> None:
    pieces = (HEADER, FOOTER, data_batch(2, [added(1)]))
    path = write_file(tmp_path, "00000000000000000090-0000000001.checkpoint", *pieces)
    assert refusal(path).reason == "a batch follows the checkpoint's footer"


HALF_A_CHECKPOINT = b"".join(checkpoint_batches(RECORDS))[:-1]


def written_with_damage(log_dir: Path, *, is_older_whole: bool = True) -> Path:
    """Write BATCHES, a damaged checkpoint of all of them, and a valid one of the first ones."""
    write_segment(log_dir, 0, *BATCHES)
    if is_older_whole:
        write_checkpoint(log_dir, 4, RECORDS)
    else:
        write_file(log_dir, checkpoint_name(4, 1), HALF_A_CHECKPOINT)
    return write_file(log_dir, checkpoint_name(6, 1), HALF_A_CHECKPOINT)


@pytest.mark.parametrize("is_older_whole", [True, False])
def test_damaged_checkpoint_is_skipped(tmp_path: Path, *, is_older_whole: bool) -> None:
    """The older one or the log alone contains the same state."""
    path = written_with_damage(tmp_path, is_older_whole=is_older_whole)
    assert numbers(tmp_path) == {2, 3}
    batches, progress = read(tmp_path)
    assert [each.is_checkpoint for each in batches].count(True) == is_older_whole
    assert (progress.last_offset, progress.last_epoch) == (5, 1)
    ends = [each.checkpoint.end_offset for each in progress.damaged_checkpoints]
    assert ends == ([6] if is_older_whole else [6, 4])
    told = str(progress.damaged_checkpoints[0].error)
    assert told.startswith(f"{path}: at byte ")
    assert "a batch of 75 bytes of which 74 exist" in told


@pytest.mark.parametrize(
    "damaged",
    [b"", HALF_A_CHECKPOINT, HEADER, HEADER + FOOTER + FOOTER, b"".join(BATCHES), bytes(2000)],
    ids=["empty", "half", "without footer", "two footers", "a log", "zeros"],
)
def test_no_batch_of_a_damaged_checkpoint_is_used(tmp_path: Path, damaged: bytes) -> None:
    write_segment(tmp_path, 0, *BATCHES)
    write_file(tmp_path, checkpoint_name(6, 1), damaged)
    assert offsets(tmp_path) == [0, 1, 2, 4]
    assert len(read(tmp_path)[1].damaged_checkpoints) == 1


def test_unreadable_checkpoint_is_skipped(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, *BATCHES)
    (write_segment(tmp_path, 0, *BATCHES).parent / checkpoint_name(6, 1)).mkdir()
    _, progress = read(tmp_path)
    assert "Is a directory" in str(progress.damaged_checkpoints[0].error)


def test_log_that_begins_after_a_damaged_checkpoint_is_rejected(tmp_path: Path) -> None:
    checkpoint = write_file(tmp_path, checkpoint_name(6, 1), HALF_A_CHECKPOINT)
    segment = write_segment(tmp_path, 4, BATCHES[3])
    with pytest.raises(CorruptLogError) as refused:
        read(tmp_path)
    assert str(refused.value) == (
        f"{segment}: at byte 0, log offset 0: the log begins at offset 4, and no checkpoint "
        f"covers offsets 0 to 3; {checkpoint}: at byte {len(HALF_A_CHECKPOINT) - 74}, log offset "
        "4: a batch of 75 bytes of which 74 exist; only the end of a log that was not shut "
        "down cleanly may be unfinished"
    )


def test_log_that_ends_before_a_damaged_checkpoint_is_rejected(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, *BATCHES)
    path = write_file(tmp_path, checkpoint_name(90, 1), HALF_A_CHECKPOINT)
    with pytest.raises(CorruptLogError, match="the log ends here, below the end") as error:
        read(tmp_path)
    assert (error.value.path, error.value.offset) == (path, 6)
    write_file(tmp_path, checkpoint_name(90, 1)).rename(path.with_name(checkpoint_name(6, 1)))
    assert numbers(tmp_path) == {2, 3}


def test_damaged_checkpoint_without_a_log_is_rejected(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 4, RECORDS)
    path = write_file(tmp_path, checkpoint_name(6, 1), HALF_A_CHECKPOINT)
    assert refusal(tmp_path).path == path


def test_invalid_record_in_a_checkpoint_is_rejected(tmp_path: Path) -> None:
    """Its CRC is correct, so the checkpoint is not skipped."""
    write_segment(tmp_path, 0, *BATCHES)
    path = write_checkpoint(tmp_path, 6, [METADATA_VERSION, removed(1)])
    with pytest.raises(CorruptLogError) as refused:
        numbers(tmp_path)
    assert refused.value.path == path


def test_end_of_the_log_is_read_from_the_disk(tmp_path: Path) -> None:
    """After a failed sync, the page cache may contain data that the disk lacks."""
    for base_offset, batches in ((0, BATCHES[:2]), (2, BATCHES[2:3]), (4, BATCHES[3:])):
        write_segment(tmp_path, base_offset, *batches)
    storage = RecordingStorage()
    list(MetadataLog.open(tmp_path, storage).batches())
    assert storage.named("drop_cache") == [("drop_cache", segment_name(4))]
    (tmp_path / CLEAN_SHUTDOWN_NAME).touch()
    list(MetadataLog.open(tmp_path, storage).batches())
    assert len(storage.named("drop_cache")) == 1


def test_other_control_records_are_skipped(tmp_path: Path) -> None:
    """A broker with dynamic voters writes two of them after the header."""
    name = "00000000000000000090-0000000001.checkpoint"
    voters = [
        (control_key(ControlType.KRAFT_VERSION), b""),
        (control_key(ControlType.KRAFT_VOTERS), b""),
    ]
    ending = (data_batch(3, [added(1)]), control_batch(4, ControlType.SNAPSHOT_FOOTER))
    apart = encode_batch(1, 1, TIME_MS, voters, is_control=True)
    assert numbers(write_file(tmp_path, name, HEADER, apart, *ending)) == {1}
    joined = encode_batch(0, 1, TIME_MS, [snapshot_header(TIME_MS), *voters], is_control=True)
    assert numbers(write_file(tmp_path, name, joined, *ending)) == {1}


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_batches_of_a_checkpoint_have_epoch_and_dense_offsets(tmp_path: Path, wrong: int) -> None:
    name = "00000000000000000090-0000000001.checkpoint"
    pieces = list(checkpoint_batches(RECORDS))
    other = checkpoint_batches(RECORDS, epoch=2)[wrong]
    path = write_file(tmp_path, name, *pieces[:wrong], other, *pieces[wrong + 1 :])
    assert refusal(path).reason == "expected epoch 1, as in the name, found 2"
    moved = resealed((77).to_bytes(8, "big") + pieces[wrong][8:])
    path = write_file(tmp_path, name, *pieces[:wrong], moved, *pieces[wrong + 1 :])
    assert refusal(path).reason.endswith(", found 77")


def test_invalid_control_batch_is_rejected(tmp_path: Path) -> None:
    bad = encode_batch(0, 1, TIME_MS, [(b"\0", b"")], is_control=True)
    path = write_file(tmp_path, "00000000000000000090-0000000001.checkpoint", bad, FOOTER)
    error = refusal(path)
    assert error.reason.startswith("control record version")
    assert 61 < error.position < len(bad)


def test_path_without_a_log_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    segment = write_log(tmp_path / "log")
    for path in (missing, tmp_path, segment, tmp_path / ("x" * 300)):
        with pytest.raises(LogDirectoryError) as refused:
            MetadataLog.open(path)
        assert str(refused.value).startswith(str(path))


def test_file_that_disappears_is_named(tmp_path: Path) -> None:
    path = write_log(tmp_path)
    log = MetadataLog.open(tmp_path)
    path.unlink()
    with pytest.raises(LogDirectoryError, match="No such file or directory"):
        list(log.batches())


def test_progress_follows_the_reading(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, *BATCHES)
    log = MetadataLog.open(tmp_path)
    assert (log.progress.last_offset, log.progress.last_epoch) == (-1, 0)
    batches = log.batches()
    next(batches)
    next(batches)
    assert log.progress.last_offset == 1


def test_log_builder_writes_dense_offsets(tmp_path: Path) -> None:
    """Other tests rely on it."""
    path = write_log(tmp_path, [added(1), added(2)], [removed(1), added(3)])
    assert path.read_bytes() == b"".join(BATCHES)
    assert batch_size(path.read_bytes()) == len(BATCHES[0])
    assert acl_id(3) in read_acls(tmp_path)
