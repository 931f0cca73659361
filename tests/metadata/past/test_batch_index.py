"""Reading begins near the wanted offset, and the answer is that of reading the whole log."""

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from authorizerd.acl.as_of import AsOf
from authorizerd.metadata.errors import PastRangeError
from authorizerd.metadata.past import batch_index
from authorizerd.metadata.past.batch_index import BatchIndex
from authorizerd.metadata.past.history import ChangesAfter, read_changes_after
from authorizerd.metadata.past.past_log import PastLog, read_past
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.protocol.records.batch import ControlType
from tests.metadata.past_logs import (
    BEGIN,
    END,
    LoggedBatch,
    kept,
    logged_batches,
    oldest_offset,
    write_past,
)
from tests.support.counting_storage import CountingStorage
from tests.support.log_files import (
    TIME_MS,
    added,
    control_batch,
    data_batch,
    removed,
    write_checkpoint,
    write_log,
    write_segment,
)

BATCHES = 2000


def ask(
    log_dir: Path, as_of: AsOf, index: BatchIndex, storage: Storage = DISK
) -> ChangesAfter | str:
    """Return the answer to a question as the daemon asks it, or why there is none."""

    def read(log: PastLog) -> ChangesAfter:
        return read_changes_after(log, log.find_offset(as_of))

    try:
        return read_past(log_dir, read, index=index, storage=storage)
    except PastRangeError as error:
        return str(error)


@pytest.fixture
def every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a place of every batch outside transactions."""
    monkeypatch.setattr(batch_index, "SPAN_BYTES", 1)


@pytest.mark.usefixtures("every_batch")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.data(), logged_batches())
def test_answers_do_not_depend_on_earlier_questions(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, batches: list[LoggedBatch]
) -> None:
    how = data.draw(kept(batches))
    log_dir = tmp_path_factory.mktemp("log")
    write_past(log_dir, batches, how)
    offsets = st.integers(oldest_offset(batches, how), batches[-1].last_offset)
    times = st.integers(TIME_MS - 9, max(each.time_ms for each in batches) + 1)
    moments = st.builds(AsOf, offset=offsets) | st.builds(AsOf, time_ms=times)
    index = BatchIndex()
    for moment in data.draw(st.lists(moments, min_size=2, max_size=12)):
        assert ask(log_dir, moment, index) == ask(log_dir, moment, BatchIndex())


@pytest.mark.usefixtures("every_batch")
def test_reading_does_not_begin_within_a_transaction(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)], [BEGIN, added(2)], [added(3)], [END], [added(4)])
    index = BatchIndex()
    for offset in (0, 3, 5, 4, 2):
        answer = ask(tmp_path, AsOf(offset=offset), index)
        assert answer == ask(tmp_path, AsOf(offset=offset), BatchIndex())
        assert isinstance(answer, ChangesAfter)
        assert [each.offset for each in answer.changes if each.acl in (added(2).acl, added(3).acl)]


def write_long_log(log_dir: Path) -> int:
    """Write a log whose times go up, but for one later batch. Return its size."""
    batches = [
        data_batch(
            number, [added(number)], time_ms=TIME_MS + (7 if number == BATCHES - 20 else number)
        )
        for number in range(1, BATCHES)
    ]
    path = write_segment(log_dir, 0, control_batch(0, ControlType.LEADER_CHANGE), *batches)
    return path.stat().st_size


@pytest.mark.parametrize(
    "moment",
    [AsOf(offset=BATCHES - 50), AsOf(time_ms=TIME_MS + BATCHES - 50), AsOf(time_ms=TIME_MS + 7)],
)
def test_only_the_end_of_the_log_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: AsOf
) -> None:
    """Also if a batch near the end has an old time."""
    monkeypatch.setattr(batch_index, "SPAN_BYTES", 1 << 10)
    size = write_long_log(tmp_path)
    index, storage = BatchIndex(), CountingStorage()
    ask(tmp_path, AsOf(offset=BATCHES - 60), index)
    assert ask(tmp_path, moment, index, storage) == ask(tmp_path, moment, BatchIndex())
    assert storage.bytes_read < size // 5


@pytest.mark.usefixtures("every_batch")
@pytest.mark.parametrize("moment", [AsOf(offset=3), AsOf(time_ms=TIME_MS)])
def test_log_that_was_replaced_is_read_anew(tmp_path: Path, moment: AsOf) -> None:
    """A copy that was cleared begins again in files of the same names."""
    write_log(tmp_path, [added(1)], [added(2)], [added(3)], [removed(1)])
    index = BatchIndex()
    ask(tmp_path, AsOf(offset=0), index)
    for replaced in tmp_path.iterdir():
        shutil.rmtree(replaced)
    write_log(tmp_path, [added(5)], [added(6), added(7), removed(5)], [added(8)])
    assert ask(tmp_path, moment, index) == ask(tmp_path, moment, BatchIndex())


@pytest.mark.usefixtures("every_batch")
@pytest.mark.parametrize("moment", [AsOf(offset=4), AsOf(time_ms=TIME_MS + 4)])
def test_removed_segments_are_forgotten(tmp_path: Path, moment: AsOf) -> None:
    first = write_segment(
        tmp_path,
        0,
        control_batch(0, ControlType.LEADER_CHANGE),
        *(data_batch(number, [added(number)], time_ms=TIME_MS + number) for number in (1, 2)),
    )
    write_segment(
        tmp_path,
        3,
        *(data_batch(number, [added(number)], time_ms=TIME_MS + number) for number in (3, 4, 5)),
    )
    index = BatchIndex()
    ask(tmp_path, AsOf(offset=0), index)
    write_checkpoint(tmp_path, 3, [added(1), added(2)])
    first.unlink()
    assert ask(tmp_path, moment, index) == ask(tmp_path, moment, BatchIndex())
    assert {each.path.exists() for each in index._positions} == {True}
