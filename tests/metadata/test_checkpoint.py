"""A checkpoint's name must give its true place in the log."""

from pathlib import Path

from authorizerd.metadata.directory import checkpoint_name, segment_name
from tests.metadata.reading import BATCHES, numbers, read, refusal
from tests.support.log_files import (
    METADATA_VERSION,
    TIME_MS,
    added,
    data_batch,
    removed,
    write_checkpoint,
    write_kafka_checkpoint,
    write_segment,
)

RECORDS = (METADATA_VERSION, added(1), added(2))


def test_renamed_checkpoint_is_rejected(tmp_path: Path) -> None:
    """Its header has the end offset. It is skipped if the log contains the same state."""
    path = write_checkpoint(tmp_path, 4, [METADATA_VERSION, added(1), added(2)])
    moved = path.rename(path.with_name(checkpoint_name(6, 1)))
    error = refusal(tmp_path)
    assert (error.path, error.position, error.offset) == (moved, 0, 0)
    assert error.reason == (
        "it ends at offset 4 by its header, at 6 by its name: restore the file's name"
    )
    write_segment(tmp_path, 0, *BATCHES)
    assert numbers(tmp_path) == {2, 3}
    write_segment(tmp_path, 0)
    path.with_name(segment_name(0)).rename(path.with_name(segment_name(6)))
    assert error.reason in refusal(tmp_path).reason


def test_checkpoint_of_the_last_possible_epoch_is_rejected(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 4, RECORDS, epoch=2**31 - 1)
    assert refusal(tmp_path).reason == "epoch 2147483647 is the last possible epoch"


def timed_log(log_dir: Path) -> tuple[bytes, ...]:
    """Write a log whose batches end at offsets 0, 1, 3 and 5, one per second."""
    batches = (
        BATCHES[0],
        data_batch(1, [METADATA_VERSION], time_ms=TIME_MS + 1000),
        data_batch(2, [added(1), added(2)], time_ms=TIME_MS + 2000),
        data_batch(4, [removed(1), added(3)], time_ms=TIME_MS + 3000),
    )
    write_segment(log_dir, 0, *batches)
    return batches


def test_kafkas_checkpoint_is_compared_with_the_log(tmp_path: Path) -> None:
    """Only its name has the end offset: a batch of its epoch must end there, and not be newer."""
    timed_log(tmp_path)
    write_kafka_checkpoint(
        tmp_path, 4, [METADATA_VERSION, added(1), added(7)], time_ms=TIME_MS + 2000
    )
    assert read(tmp_path)[0][0].is_checkpoint, "it is used in its own place"
    for end, epoch, reason in (
        (
            6,
            1,
            "its last record has the time 1792000002000 ms, the log's at offset 5 the later one",
        ),
        (5, 1, "no batch of the log ends at offset 5"),
        (4, 2, "its epoch is 2, the log's at offset 3 is 1"),
    ):
        path = write_kafka_checkpoint(
            tmp_path, end, [METADATA_VERSION], epoch=epoch, time_ms=TIME_MS + 2000
        )
        _, progress = read(tmp_path)
        (damaged,) = progress.damaged_checkpoints
        assert damaged.checkpoint.path == path
        assert reason in str(damaged.error)
        assert numbers(tmp_path) == {3, 7}
        path.unlink()


def test_kafkas_checkpoint_after_the_end_of_the_log_is_rejected(tmp_path: Path) -> None:
    """Its name or the end of the log is wrong."""
    timed_log(tmp_path)
    path = write_kafka_checkpoint(tmp_path, 7, RECORDS, time_ms=TIME_MS + 9000)
    error = refusal(tmp_path)
    assert (error.path, error.offset) == (path, 6)
    assert "no batch of the log ends at offset 7" in error.reason


def test_kafkas_checkpoint_is_accepted_if_nothing_contradicts_it(tmp_path: Path) -> None:
    """For example, the log begins at its end, or the segment before it is damaged."""
    batches = timed_log(tmp_path)
    write_kafka_checkpoint(tmp_path, 4, [METADATA_VERSION, added(1), added(2)])
    path = write_segment(tmp_path, 4, batches[3])
    before = path.with_name(segment_name(0))
    before.write_bytes(b"damaged")
    assert numbers(tmp_path) == {2, 3}
    before.unlink()
    assert numbers(tmp_path) == {2, 3}
