"""The changes after an offset lead back to the state at that offset, exactly."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from authorizerd.acl.errors import PastMismatchError
from authorizerd.acl.model import AclAdded
from authorizerd.acl.past import PastChange, undo_changes
from authorizerd.acl.snapshot import AclSnapshot, apply_changes, at_offset
from authorizerd.metadata.directory import find_files
from authorizerd.metadata.errors import PastDamagedError, PastNotReadError, PastRangeError
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.past.history import ChangesAfter, read_changes_after
from authorizerd.metadata.past.past_log import PastLog, read_past
from authorizerd.protocol.records.batch import ControlType, decode_batch
from authorizerd.protocol.records.metadata import MetadataRecord, encode_value
from tests.metadata.past_logs import (
    BEGIN,
    END,
    NO_OP,
    Kept,
    LoggedBatch,
    kept,
    logged_batches,
    oldest_offset,
    snapshot_at,
    write_past,
)
from tests.support.acls import acl
from tests.support.copies import acl_batch, begun_copy, state_of
from tests.support.log_files import (
    METADATA_VERSION,
    TIME_MS,
    acl_id,
    added,
    control_batch,
    data_batch,
    flipped,
    removed,
    write_checkpoint,
    write_log,
    write_segment,
)


def history(path: Path, offset: int, **limits: int) -> ChangesAfter:
    return read_past(path, lambda log: read_changes_after(log, offset, **limits))


def undo(newest: AclSnapshot, after: ChangesAfter) -> AclSnapshot:
    return undo_changes(newest, after.changes, after.moment.offset)


def past(offset: int, change: str, number: int) -> PastChange:
    """Return the change of ``added(number)``, or of its removal."""
    record = added(number)
    return PastChange(offset, TIME_MS, change == "added", record.id, record.acl)


def test_changes_have_their_acl_offset_and_time(tmp_path: Path) -> None:
    """A removal has the ACL that an earlier record added. The last offset of the batch counts."""
    write_log(tmp_path, [added(1), added(2)], [removed(1), added(3)], [removed(3), removed(2)])
    assert history(tmp_path, 1).changes == (
        past(3, "added", 1), past(3, "added", 2), past(5, "removed", 1), past(5, "added", 3),
        past(7, "removed", 3), past(7, "removed", 2),
    )  # fmt: skip
    after = history(tmp_path, 4)
    assert after.changes == history(tmp_path, 3).changes == history(tmp_path, 1).changes[2:]
    assert (after.moment.offset, after.last.offset) == (3, 7)
    assert history(tmp_path, 7).changes == ()


def test_removed_acl_comes_from_the_checkpoint(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 6, [METADATA_VERSION, added(1), added(2)])
    write_segment(tmp_path, 6, data_batch(6, [removed(1)]), data_batch(7, [added(1)]))
    assert history(tmp_path, 5).changes == (past(6, "removed", 1), past(7, "added", 1))
    assert history(tmp_path, 6).changes == (past(7, "added", 1),)


def test_removed_acl_may_be_in_an_unusual_record(tmp_path: Path) -> None:
    """The search for its id first looks only for the usual encoding of a record."""
    usual = encode_value(added(1))
    unusual = usual[:1] + bytes((usual[1] | 0x80, 0)) + usual[2:]  # the type in two bytes
    write_checkpoint(tmp_path, 6, [METADATA_VERSION, unusual])
    write_segment(tmp_path, 6, data_batch(6, [removed(1)]))
    assert history(tmp_path, 5).changes == (past(6, "removed", 1),)


def test_changes_of_a_transaction_are_visible_at_its_end(tmp_path: Path) -> None:
    """Also those that it made before the offset that is asked about."""
    write_log(tmp_path, [added(1)], [BEGIN, removed(1), added(2)], [END], [NO_OP])
    for offset in (2, 3, 5):
        assert history(tmp_path, offset).changes == (past(6, "removed", 1), past(6, "added", 2))
    assert history(tmp_path, 6).changes == ()


def test_open_transaction_is_not_part_of_the_past(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)], [BEGIN, removed(1)])
    assert history(tmp_path, 2).changes == ()


def test_id_may_be_used_again(tmp_path: Path) -> None:
    """Each removal has the ACL that its id had then."""
    other = AclAdded(acl_id(1), acl(topic="other"))
    write_log(tmp_path, [added(1)], [removed(1), other], [removed(1)])
    changes = history(tmp_path, 2).changes
    assert [change.acl for change in changes] == [added(1).acl, other.acl, other.acl]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.data(), logged_batches())
def test_state_at_every_offset_equals_a_replay_stopped_there(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, batches: list[LoggedBatch]
) -> None:
    """The newest snapshot with the later changes undone has the same ACLs and the same index."""
    how = data.draw(kept(batches))
    log_dir = tmp_path_factory.mktemp("log")
    write_past(log_dir, batches, how)
    end = batches[-1].last_offset
    newest = snapshot_at(batches, end)
    oldest = oldest_offset(batches, how)
    for offset in range(oldest, end + 1):
        assert undo(newest, history(log_dir, offset)) == snapshot_at(batches, offset)
    for offset in range(oldest):
        with pytest.raises(PastRangeError, match=rf"^offset {offset} is too old: .* {oldest} "):
            history(log_dir, offset)
    with pytest.raises(PastRangeError, match="is in the future"):
        history(log_dir, end + 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.data(), logged_batches())
def test_later_batches_do_not_count(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, batches: list[LoggedBatch]
) -> None:
    """The state that changes are undone from may be older than the log's end."""
    log_dir = tmp_path_factory.mktemp("log")
    write_past(log_dir, batches, Kept(0, frozenset(), frozenset()))
    newest = data.draw(st.sampled_from(batches)).last_offset
    offset = data.draw(st.integers(0, newest))
    after = history(log_dir, offset, newest=newest)
    assert after.last.offset == newest
    assert undo(snapshot_at(batches, newest), after) == snapshot_at(batches, offset)


def test_log_that_ends_before_the_newest_state_is_refused(tmp_path: Path) -> None:
    """The copy of a followed log may lack the newest records."""
    write_log(tmp_path, [added(1)])
    with pytest.raises(PastNotReadError, match=r"end at offset 2, before .* offset 3: try again"):
        history(tmp_path, 1, newest=3)


def test_changes_are_limited(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)], [added(2)], [removed(1)])
    assert len(history(tmp_path, 1, changes_max=3).changes) == 3
    with pytest.raises(PastRangeError, match="more than 2 ACLs have changed since"):
        history(tmp_path, 1, changes_max=2)


def test_removal_of_an_unknown_acl_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)], [removed(2)])
    with pytest.raises(PastMismatchError, match=acl_id(2).hex()):
        history(tmp_path, 2)


def test_past_before_a_damaged_batch_is_refused(tmp_path: Path) -> None:
    """The error says which part is readable: what follows a checkpoint needs nothing before it."""
    records: list[list[MetadataRecord]] = [[METADATA_VERSION], [added(1)], [added(2)]]
    pieces = [data_batch(offset, each) for offset, each in enumerate(records, 1)]
    path = write_segment(
        tmp_path,
        0,
        control_batch(0, ControlType.LEADER_CHANGE),
        *pieces[:2],
        flipped(pieces[2], 70),
    )
    write_segment(tmp_path, 4, data_batch(4, [removed(1)]), data_batch(5, [removed(2)]))
    write_checkpoint(tmp_path, 4, [METADATA_VERSION, added(1), added(2)])
    for offset in (0, 1, 2):
        with pytest.raises(PastDamagedError, match="CRC") as refused:
            history(tmp_path, offset)
        assert str(path) in str(refused.value)
        assert "the past can be read from offset 3 on" in str(refused.value)
    assert history(tmp_path, 3).changes == (past(4, "removed", 1), past(5, "removed", 2))


def test_damage_after_the_last_checkpoint_hides_all_of_the_past(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 4, [METADATA_VERSION, added(1), added(2)])
    write_segment(tmp_path, 4, flipped(data_batch(4, [removed(1)]), 70), data_batch(5, [added(3)]))
    with pytest.raises(PastDamagedError, match="no part of the past can be read"):
        history(tmp_path, 3)


def test_copy_of_a_followed_log_reaches_back_to_its_checkpoint(tmp_path: Path) -> None:
    """Also while the copy is open, and while a checkpoint replaces what came before."""
    copy = begun_copy(tmp_path, acl_batch(2, 1, 2), segment_bytes_max=1)
    copy.append([decode_batch(data_batch(4, [removed(1)]))])
    assert history(tmp_path, 3).changes == (past(4, "removed", 1),)
    assert len(history(tmp_path, 0).changes) == 3
    copy.begin_checkpoint()
    copy.append([acl_batch(5, 3)])
    assert copy.write_checkpoint(state_of(list(MetadataLog.open(tmp_path).batches())[:-1]))
    assert history(tmp_path, 4, newest=5).changes == (past(5, "added", 3),)
    with pytest.raises(PastRangeError, match=r"offset 3 is too old: .* to offset 4 "):
        history(tmp_path, 3)
    copy.close()


def test_real_log_leads_back_to_each_of_its_states(real_log_dir: Path) -> None:
    """Undone change by change, each state of a broker's log equals that of a replay."""
    log = PastLog(find_files(real_log_dir))
    replayed: list[AclSnapshot] = []
    snapshot = snapshot_at([], 0)
    for timed in log.read(0):
        changes = timed.changes
        snapshot = at_offset(apply_changes(snapshot, changes.changes), changes.last_offset)
        if changes.is_end:
            replayed.append(snapshot)
    after = read_changes_after(log, 0)
    assert len(after.changes) == 1946 + 195
    left = list(after.changes)
    undone = replayed[-1]
    for state in reversed(replayed):
        later = [change for change in left if change.offset > state.offset]
        del left[len(left) - len(later) :]
        undone = undo_changes(undone, later, state.offset)
        assert undone == state
    assert not undone.acls


@pytest.mark.parametrize("offset", [*range(0, 2957, 311), 924, 925, 1822, 2521, 2806, 2807])
def test_real_log_gives_the_same_changes_from_each_checkpoint(
    real_log_dir: Path, offset: int
) -> None:
    log = PastLog(find_files(real_log_dir))
    everything = read_changes_after(log, 0).changes
    expected = tuple(change for change in everything if change.offset > offset)
    assert read_changes_after(log, offset).changes == expected
