"""The state that is read from a log is the one at its end, also while the log changes."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from authorizerd.metadata.copy_directory import CopyMark, write_mark
from authorizerd.metadata.directory import segment_name
from authorizerd.metadata.errors import CorruptLogError, LogDirectoryError, PastNotReadError
from authorizerd.metadata.live_files import TRIES_MAX
from authorizerd.metadata.log_state import read_state
from authorizerd.metadata.meta_properties import NAME, MetaProperties, write_meta_properties
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.protocol.records.batch import ControlType
from tests.metadata.past_logs import LoggedBatch, kept, logged_batches, write_past
from tests.support.log_files import (
    METADATA_VERSION,
    TIME_MS,
    added,
    control_batch,
    data_batch,
    flipped,
    read_acls,
    removed,
    write_checkpoint,
    write_kafka_checkpoint,
    write_log,
    write_segment,
)
from tests.support.sizes import size

REGISTER_BROKER = b"\1\0\3"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


class ChangingDisk(Storage):
    """A disk on which the log's owner does something before a file is opened."""

    def __init__(self, change: Callable[[Path], None]) -> None:
        super().__init__()
        self._change = change

    def open(self, path: Path) -> BinaryIO:
        self._change(path)
        return super().open(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=size(10, 60))
@given(st.data(), logged_batches())
def test_state_is_that_of_the_last_batch_outside_transactions(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, batches: list[LoggedBatch]
) -> None:
    """The log may end within a transaction, whose records are not part of the state."""
    batches = batches[: data.draw(st.integers(2, len(batches)))]
    how = data.draw(kept(batches))
    log_dir = tmp_path_factory.mktemp("log")
    write_past(log_dir, batches, how)
    state = read_state(log_dir)
    last = [batch for batch in batches if not batch.is_open][-1]
    assert dict(state.content.acls.items()) == last.acls
    assert (state.content.end_offset, state.content.epoch) == (last.last_offset + 1, 1)
    assert state.content.timestamp_ms == last.time_ms
    assert (state.next_offset, state.last_epoch) == (batches[-1].last_offset + 1, 1)
    assert dict(state.content.cluster.features) == {METADATA_VERSION.name: METADATA_VERSION.level}
    assert state.foreign_types == set()


def test_state_names_its_cluster_and_what_it_lacks(tmp_path: Path) -> None:
    """An empty record of a controller is not missed; a broker's registration is."""
    write_log(tmp_path, [b"\1\x14\0", REGISTER_BROKER, added(1)])
    properties = MetaProperties("some-cluster", 3, "some-directory")
    write_meta_properties(tmp_path, properties, DISK)
    state = read_state(tmp_path)
    assert (state.properties, state.mark) == (properties, None)
    assert state.foreign_types == {0}
    write_mark(tmp_path, CopyMark("quorum"), DISK)
    assert read_state(tmp_path).mark == CopyMark("quorum")


def test_checkpoint_alone_has_a_state_without_a_cluster(tmp_path: Path) -> None:
    path = write_kafka_checkpoint(tmp_path, 90, [METADATA_VERSION, added(1)], epoch=4)
    state = read_state(path)
    assert (state.content.end_offset, state.content.epoch) == (90, 4)
    assert state.content.timestamp_ms == TIME_MS
    assert (state.properties, state.mark) == (None, None)


def test_damaged_checkpoint_is_named_if_the_log_has_its_content(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)], [added(2)])
    checkpoint = write_checkpoint(tmp_path, 3, [METADATA_VERSION, added(1)])
    checkpoint.write_bytes(flipped(checkpoint.read_bytes(), 100))
    state = read_state(tmp_path)
    assert [each.checkpoint.path for each in state.damaged_checkpoints] == [checkpoint]
    assert len(state.content.acls) == 2


def test_damaged_log_is_an_error(tmp_path: Path) -> None:
    segment = write_log(tmp_path, [added(1)], [added(2)])
    data = segment.read_bytes()
    segment.write_bytes(flipped(data, len(data) // 2))
    with pytest.raises(CorruptLogError):
        read_state(tmp_path)


@pytest.mark.parametrize("opened", [0, 3])
def test_reading_begins_again_if_the_owner_replaces_files(tmp_path: Path, opened: int) -> None:
    """Whichever file is opened last before the change, the state is whole."""
    write_log(tmp_path, [added(1)])
    write_segment(tmp_path, 3, data_batch(3, [added(2)]))
    changes = 0

    def change(path: Path) -> None:
        """Do as a daemon does: write a checkpoint, then remove what it covers, and go on."""
        nonlocal changes
        if path.name == segment_name(opened) and not changes:
            changes += 1
            write_segment(tmp_path, 4, data_batch(4, [added(3), removed(1)]))
            write_checkpoint(tmp_path, 4, [METADATA_VERSION, added(1), added(2)])
            for base in (0, 3):
                (path.parent / segment_name(base)).unlink(missing_ok=True)

    state = read_state(tmp_path, ChangingDisk(change))
    assert changes == 1
    assert set(state.content.acls) == {added(2).id, added(3).id}
    assert dict(state.content.acls.items()) == read_acls(tmp_path)


def test_log_that_changes_at_each_attempt_is_an_error(tmp_path: Path) -> None:
    """The text says that another attempt may succeed."""
    for number in range(1, TRIES_MAX + 2):
        write_checkpoint(tmp_path, number * 10, [METADATA_VERSION])

    def change(path: Path) -> None:
        path.unlink(missing_ok=True)

    with pytest.raises(PastNotReadError, match="try again"):
        read_state(tmp_path, ChangingDisk(change))


def test_owner_that_starts_meanwhile_may_leave_an_unfinished_write(tmp_path: Path) -> None:
    """After a clean shutdown the log's end must be whole. A start ends this promise."""
    segment = write_log(tmp_path, [added(1)])
    whole = segment.read_bytes()
    mark = tmp_path / CLEAN_SHUTDOWN
    mark.touch()

    def change(path: Path) -> None:
        if mark.exists():
            mark.unlink()
            segment.write_bytes(whole + data_batch(3, [added(2)])[:-5])

    assert set(read_state(tmp_path, ChangingDisk(change)).content.acls) == {added(1).id}


def test_unfinished_write_after_a_clean_shutdown_is_damage(tmp_path: Path) -> None:
    segment = write_log(tmp_path, [added(1)])
    segment.write_bytes(segment.read_bytes()[:-5])
    (tmp_path / CLEAN_SHUTDOWN).touch()
    with pytest.raises(CorruptLogError, match="not shut down cleanly"):
        read_state(tmp_path)


def test_directory_that_is_given_to_another_cluster_is_an_error(tmp_path: Path) -> None:
    """The state of one cluster never gets the id of another."""
    write_log(tmp_path, [added(1)])
    write_meta_properties(tmp_path, MetaProperties("one", 1, ""), DISK)

    def change(path: Path) -> None:
        if path.suffix == ".log":
            (tmp_path / NAME).unlink()
            write_meta_properties(tmp_path, MetaProperties("two", 1, ""), DISK)

    with pytest.raises(LogDirectoryError, match="given to another cluster"):
        read_state(tmp_path, ChangingDisk(change))


def test_later_epoch_is_the_states(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 5, [METADATA_VERSION, added(1)], epoch=2)
    write_segment(
        tmp_path, 5, control_batch(5, ControlType.LEADER_CHANGE, epoch=7),
        data_batch(6, [removed(1)], epoch=7, time_ms=TIME_MS + 9),
    )  # fmt: skip
    content = read_state(tmp_path).content
    assert (content.end_offset, content.epoch, content.timestamp_ms) == (7, 7, TIME_MS + 9)
    assert len(content.acls) == 0
