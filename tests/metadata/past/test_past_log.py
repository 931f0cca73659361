"""Which moments of the past a log can answer for, and what happens if files change meanwhile."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from authorizerd.acl.as_of import AsOf, Moment
from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, checkpoint_name, segment_name
from authorizerd.metadata.errors import (
    LogDirectoryError,
    PastDamagedError,
    PastNotReadError,
    PastRangeError,
)
from authorizerd.metadata.log import open_files
from authorizerd.metadata.past.past_log import PastLog, check_time, read_past
from authorizerd.protocol.records.batch import ControlType
from tests.metadata.past_logs import (
    LoggedBatch,
    kept,
    logged_batches,
    oldest_offset,
    snapshot_at,
    write_past,
)
from tests.support.log_files import (
    METADATA_VERSION,
    TIME_MS,
    added,
    control_batch,
    data_batch,
    flipped,
    removed,
    write_checkpoint,
    write_kafka_checkpoint,
    write_log,
    write_segment,
)


def read_state(log: PastLog, as_of: AsOf) -> AclSnapshot:
    """Return the snapshot as of a moment, built from a checkpoint and the records up to then."""
    builder = SnapshotBuilder()
    offset = -1
    for timed in log.read_until(as_of):
        builder.apply_changes(timed.changes.changes)
        offset = timed.changes.last_offset
    return builder.freeze(offset)


def state(path: Path, as_of: AsOf) -> AclSnapshot:
    return read_past(path, lambda log: read_state(log, as_of))


def starts(path: Path) -> tuple[int, ...]:
    return PastLog(open_files(path)).starts


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.data(), logged_batches())
def test_any_moment_equals_a_daemon_stopped_then(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, batches: list[LoggedBatch]
) -> None:
    """As of a time, the last batch up to that time counts, even if the clock was set back."""
    how = data.draw(kept(batches))
    log_dir = tmp_path_factory.mktemp("log")
    write_past(log_dir, batches, how)
    oldest, end = oldest_offset(batches, how), batches[-1].last_offset
    assert PastLog(open_files(log_dir)).oldest().offset == oldest
    for offset in range(oldest, end + 1):
        assert state(log_dir, AsOf(offset=offset)) == snapshot_at(batches, offset)
    times = [batch.time_ms for batch in batches]
    for time_ms in range(min(times) - 1, max(times) + 2):
        until = [each.last_offset for each in batches if each.time_ms <= time_ms]
        if until and until[-1] >= oldest:
            assert state(log_dir, AsOf(time_ms=time_ms)) == snapshot_at(batches, until[-1])
        else:
            with pytest.raises(PastRangeError, match="is too old: the log reaches back to"):
                state(log_dir, AsOf(time_ms=time_ms))


def test_single_checkpoint_answers_for_its_end_only(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 90, [METADATA_VERSION, added(1)])
    assert starts(path) == (90,)
    assert set(state(path, AsOf(offset=89)).acls.keys()) == {added(1).id}
    assert state(path, AsOf(time_ms=TIME_MS)).offset == 89
    with pytest.raises(PastRangeError, match=r"offset 88 is too old: .* offset 89 "):
        state(path, AsOf(offset=88))
    with pytest.raises(PastRangeError, match="offset 90 is in the future: the newest one is 89"):
        state(path, AsOf(offset=90))
    with pytest.raises(PastRangeError, match="is too old"):
        state(path, AsOf(time_ms=TIME_MS - 1))


def test_checkpoint_before_a_gap_does_not_count(tmp_path: Path) -> None:
    """Retention has removed the records between it and the log."""
    write_checkpoint(tmp_path, 4, [METADATA_VERSION])
    write_checkpoint(tmp_path, 8, [METADATA_VERSION, added(1)])
    write_segment(tmp_path, 6, data_batch(6, [added(1)]), data_batch(7, [added(2)]))
    assert starts(tmp_path) == (8,)
    log = PastLog(open_files(tmp_path))
    assert log.oldest() == Moment(7, TIME_MS)
    with pytest.raises(PastRangeError):
        list(log.read(6))


def test_damaged_checkpoint_is_replaced_by_an_older_one(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 2, [METADATA_VERSION])
    damaged = write_checkpoint(tmp_path, 3, [METADATA_VERSION, added(1)])
    write_segment(tmp_path, 2, data_batch(2, [added(1)]), data_batch(3, [removed(1)]))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert set(state(tmp_path, AsOf(offset=2)).acls.keys()) == {added(1).id}
    assert state(tmp_path, AsOf(time_ms=TIME_MS)).offset == 3


def test_damage_after_the_moment_does_not_matter(tmp_path: Path) -> None:
    """A state that is read forwards needs nothing of what follows."""
    pieces = data_batch(1, [added(1)]), flipped(data_batch(2, [added(2)]), 70)
    write_segment(tmp_path, 0, control_batch(0, ControlType.LEADER_CHANGE), *pieces)
    assert set(state(tmp_path, AsOf(offset=1)).acls.keys()) == {added(1).id}
    with pytest.raises(PastDamagedError, match=r"log offset 2: .*CRC"):
        state(tmp_path, AsOf(offset=2))


def test_time_of_a_checkpoint_is_that_of_its_last_record(tmp_path: Path) -> None:
    write_kafka_checkpoint(tmp_path, 4, [METADATA_VERSION, added(1)], time_ms=TIME_MS + 5)
    write_segment(tmp_path, 4, data_batch(4, [removed(1)], time_ms=TIME_MS + 7))
    assert state(tmp_path, AsOf(time_ms=TIME_MS + 6)).offset == 3
    assert state(tmp_path, AsOf(time_ms=TIME_MS + 7)).offset == 4
    with pytest.raises(PastRangeError, match=r"offset 3 \(2026-10-14T17:46:40.005Z\)$"):
        state(tmp_path, AsOf(time_ms=TIME_MS + 4))


def test_newest_offset_limits_times(tmp_path: Path) -> None:
    """A batch that is written, but not yet applied, is not part of the answer."""
    write_log(tmp_path, [added(1)])
    log = PastLog(open_files(tmp_path))
    assert log.find_offset(AsOf(time_ms=TIME_MS)) == 2
    assert log.find_offset(AsOf(time_ms=TIME_MS), newest=1) == 1
    with pytest.raises(PastRangeError, match="offset 2 is in the future: the newest one is 1"):
        log.find_offset(AsOf(offset=2), newest=1)


def test_time_in_the_future_is_refused() -> None:
    check_time(AsOf(time_ms=TIME_MS), TIME_MS)
    check_time(AsOf(offset=7), TIME_MS)
    with pytest.raises(PastRangeError, match=r"in the future: it is 2026-10-14T17:46:40.000Z now"):
        check_time(AsOf(time_ms=TIME_MS + 1), TIME_MS)


def write_many(log_dir: Path) -> None:
    """Write five segments, and a checkpoint before each except the first."""
    write_segment(
        log_dir, 0, control_batch(0, ControlType.LEADER_CHANGE),
        data_batch(1, [added(number) for number in range(1, 10)]),
    )  # fmt: skip
    for base in range(10, 50, 10):
        records = [added(number) for number in range(base, base + 10)]
        write_segment(log_dir, base, data_batch(base, records))
        below = [added(number) for number in range(1, base)]
        write_checkpoint(log_dir, base, [METADATA_VERSION, *below])


def remove(log_dir: Path, base: int) -> None:
    """Remove a segment, and the checkpoint before it."""
    for name in (checkpoint_name(base, 1), segment_name(base)):
        (log_dir / METADATA_TOPIC_DIRECTORY / name).unlink(missing_ok=True)


@pytest.mark.parametrize("offset", [9, 25])
def test_reading_begins_again_if_retention_removes_files(tmp_path: Path, offset: int) -> None:
    """The files that are left decide whether the moment can still be asked about."""
    write_many(tmp_path)
    tries = 0

    def read(log: PastLog) -> AclSnapshot:
        nonlocal tries
        tries += 1
        if tries == 1:
            remove(tmp_path, 0)
            remove(tmp_path, 10)
            list(log.read(0))
        return read_state(log, AsOf(offset=offset))

    if offset == 9:
        with pytest.raises(PastRangeError, match=r"offset 9 is too old: .* to offset 19"):
            read_past(tmp_path, read)
    else:
        assert len(read_past(tmp_path, read).acls) == 19
    assert tries == 2


def test_missing_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogDirectoryError, match="no metadata log found"):
        state(tmp_path, AsOf(offset=0))


def test_file_that_vanishes_again_and_again_is_an_error(tmp_path: Path) -> None:
    """Only another attempt by the user may succeed."""
    write_many(tmp_path)
    tries = 0

    def read(log: PastLog) -> None:
        nonlocal tries
        tries += 1
        number = tries * 10
        (tmp_path / METADATA_TOPIC_DIRECTORY / checkpoint_name(number, 1)).unlink()
        raise LogDirectoryError("gone")

    with pytest.raises(PastNotReadError, match="removed while they were read: try again"):
        read_past(tmp_path, read)
    assert tries == 3
