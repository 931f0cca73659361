"""The inspection of a whole log directory."""

import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, checkpoint_name, segment_name
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.inspection.findings import FaultKind, Note
from authorizerd.metadata.inspection.inspection import Inspection
from authorizerd.metadata.storage import DISK
from authorizerd.protocol.records.batch import ControlType, control_key, encode_batch
from authorizerd.protocol.records.metadata import BeginTransaction, EndTransaction, MetadataRecord
from tests.metadata.sound_logs import END, SEGMENTS, start_of, write_sound_log
from tests.metadata.stored_files import StoredFiles, faults_of
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
    write_file,
    write_kafka_checkpoint,
    write_log,
    write_segment,
)
from tests.support.recording_storage import RecordingStorage


def reasons(log_dir: Path) -> list[str]:
    """Return the faults of a log, each with the name of its file and its offset."""
    return [f"{each.path.name} {each.offset}: {each.reason}" for each in faults_of(log_dir, DISK)]


def notes(log_dir: Path) -> list[str]:
    findings = Inspection(log_dir).findings()
    return [f"{each.path.name}: {each.reason}" for each in findings if isinstance(each, Note)]


def ids(inspection: Inspection) -> set[bytes]:
    assert inspection.snapshot is not None
    return set(inspection.snapshot.acls)


def test_valid_log_is_summarized(tmp_path: Path) -> None:
    """Control records of the segments are counted as well."""
    write_sound_log(tmp_path, checkpoints=True, clean=True)
    inspection = Inspection(tmp_path)
    assert list(inspection.findings()) == []
    summary = inspection.summary
    assert (summary.segments, summary.checkpoints) == (3, 2)
    assert (summary.batches, summary.records) == (10, END)
    assert (summary.first_offset, inspection.end_offset, inspection.last_epoch) == (0, END, 2)
    assert (summary.was_shut_down_cleanly, summary.torn_tail) == (True, None)
    assert ids(inspection) == {acl_id(2), acl_id(3), acl_id(6)}


def test_log_of_a_broker_is_valid(real_log_dir: Path) -> None:
    """The log has topics, and six checkpoints that equal it."""
    inspection = Inspection(real_log_dir)
    assert [finding for finding in inspection.findings() if not isinstance(finding, Note)] == []
    assert (inspection.summary.checkpoints, inspection.summary.records) == (6, 3060)
    assert len(ids(inspection)) == 1751
    assert len(inspection.sound_checkpoints) == 6


def test_inspection_changes_nothing(tmp_path: Path) -> None:
    write_sound_log(tmp_path, checkpoints=True)
    storage = RecordingStorage()
    assert list(Inspection(tmp_path, storage).findings()) == []
    assert storage.calls == []
    assert not (tmp_path / ".lock").exists()


def test_directory_without_a_log_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(LogDirectoryError, match="no metadata log found"):
        list(Inspection(tmp_path).findings())


def test_epoch_without_a_leader_change_is_a_fault(tmp_path: Path) -> None:
    """Reading can continue, since the CRC does not cover the epoch. The right epoch is known."""
    write_sound_log(tmp_path)
    write_segment(tmp_path, 10, *SEGMENTS[10][:2], data_batch(14, [removed(4)], epoch=3))
    (fault,) = faults_of(tmp_path, DISK)
    assert fault.kind is FaultKind.EPOCH
    assert (fault.position, fault.batch_position) == (start_of(10, 2) + 12, start_of(10, 2))
    assert (fault.offset, fault.right_epoch) == (14, 2)
    assert fault.reason == "epoch 3 follows epoch 2 without a LeaderChange"


def test_leader_change_that_repeats_an_epoch_is_a_fault(tmp_path: Path) -> None:
    batches = (
        control_batch(0, ControlType.LEADER_CHANGE),
        control_batch(1, ControlType.LEADER_CHANGE),
    )
    write_segment(tmp_path, 0, *batches)
    (fault,) = faults_of(tmp_path, DISK)
    assert fault.reason == "epoch 1 has a second LeaderChange"
    assert fault.right_epoch == 2


def test_leader_that_is_not_a_voter_is_a_fault(tmp_path: Path) -> None:
    voters = b"\2" + struct.pack(">i", 2) + b"\0"
    value = b"\0\0" + struct.pack(">i", 1) + voters + voters + b"\0"
    record = (control_key(ControlType.LEADER_CHANGE), value)
    write_segment(tmp_path, 0, encode_batch(0, 1, TIME_MS, [record], is_control=True))
    name = segment_name(0)
    assert reasons(tmp_path) == [f"{name} 0: a LeaderChange to node 1, which is not a voter"]
    write_segment(tmp_path, 0, encode_batch(0, 1, TIME_MS, [(record[0], b"\0\0")], is_control=True))
    assert reasons(tmp_path) == [f"{name} 0: node id: 4 bytes announced, 0 left"]


def test_every_segment_and_checkpoint_is_inspected(tmp_path: Path) -> None:
    """This includes those below the newest checkpoint. The last ACLs are still known."""
    write_sound_log(tmp_path, checkpoints=True)
    directory = tmp_path / METADATA_TOPIC_DIRECTORY
    for path in directory.iterdir():
        whole = path.read_bytes()
        path.write_bytes(flipped(whole, 70))
    found = faults_of(tmp_path, DISK)
    assert {each.path for each in found} == set(directory.iterdir())
    assert len(found) == 5


def test_acls_are_known_again_from_the_next_checkpoint(tmp_path: Path) -> None:
    write_sound_log(tmp_path, checkpoints=True)
    segment = tmp_path / METADATA_TOPIC_DIRECTORY / segment_name(6)
    segment.write_bytes(flipped(segment.read_bytes(), 70))
    inspection = Inspection(tmp_path)
    assert len(list(inspection.findings())) == 1
    assert ids(inspection) == {acl_id(2), acl_id(3), acl_id(6)}
    assert inspection.end_offset == END


def test_trimmed_log_continues_from_a_checkpoint(tmp_path: Path) -> None:
    """The log may begin inside a transaction. Other checkpoints are compared with the log."""
    write_segment(
        tmp_path,
        5,
        data_batch(5, [added(3), EndTransaction()], epoch=4),
        data_batch(7, [added(4)], epoch=4),
    )
    (tmp_path / "meta.properties").write_bytes(b"version=1\ncluster.id=a\nnode.id=1\n")
    write_checkpoint(tmp_path, 7, [METADATA_VERSION, added(3)], epoch=4)
    inspection = Inspection(tmp_path)
    assert list(inspection.findings()) == []
    assert ids(inspection) == {acl_id(3), acl_id(4)}
    write_checkpoint(tmp_path, 8, [METADATA_VERSION, added(3)], epoch=4)
    (reason,) = reasons(tmp_path)
    assert "its ACLs differ from the log's: it lacks StandardAcl[" in reason
    assert reason.endswith(f"with id {acl_id(4).hex()}")


def test_log_that_begins_after_its_checkpoint_is_a_fault(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 4, [METADATA_VERSION])
    name = write_segment(tmp_path, 5, data_batch(5, [added(1)])).name
    assert reasons(tmp_path) == [
        f"{name} 0: the log begins at offset 5, and no valid checkpoint covers the offsets"
        " before it"
    ]


CHECKPOINTS: dict[str, tuple[int, list[int], int, str]] = {
    "an ACL too few": (10, [2, 3], 2, f"with id {acl_id(4).hex()}"),
    "an ACL too many": (10, [2, 3, 4, 5], 2, f"with id {acl_id(5).hex()}"),
    "another epoch": (10, [2, 3, 4], 1, "its epoch is 1, the log's at offset 9 is 2"),
    "within a batch": (7, [2, 3], 1, "it does not end where a batch of the log ends"),
    "within a transaction": (6, [1, 2], 1, "it ends within a transaction"),
    "before everything": (0, [1], 0, "its ACLs differ from the log's: it has"),
    "an epoch before everything": (0, [], 3, "its epoch is 3, the log's at offset -1 is 0"),
    "behind the log": (16, [2, 3, 6], 2, "the log ends before it, at offset 15"),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoint_that_differs_from_the_log_is_a_fault(name: str, tmp_path: Path) -> None:
    end, numbers, epoch, reason = CHECKPOINTS[name]
    write_sound_log(tmp_path)
    write_checkpoint(tmp_path, end, [METADATA_VERSION, *map(added, numbers)], epoch=epoch)
    (found,) = reasons(tmp_path)
    assert reason in found


def test_renamed_checkpoint_is_a_fault(tmp_path: Path) -> None:
    """Ours has the end offset in its header. Kafka's has the time of the last record."""
    write_sound_log(tmp_path)
    records: list[MetadataRecord] = [METADATA_VERSION, *map(added, (2, 3, 4))]
    path = write_checkpoint(tmp_path, 9, records, epoch=2)
    path.rename(path.with_name(checkpoint_name(10, 2)))
    (reason,) = reasons(tmp_path)
    assert "it ends at offset 9 by its header, at 10 by its name" in reason
    write_kafka_checkpoint(tmp_path, 10, records, epoch=2, time_ms=TIME_MS - 1)
    (reason,) = reasons(tmp_path)
    assert "its last record has the time 1791999999999 ms, the log's at offset 9" in reason
    write_kafka_checkpoint(tmp_path, 10, records, epoch=2)
    assert reasons(tmp_path) == []


def test_empty_log_is_a_fault(tmp_path: Path) -> None:
    write_sound_log(tmp_path)
    for base_offset in (6, 10):
        (tmp_path / METADATA_TOPIC_DIRECTORY / segment_name(base_offset)).unlink()
    name = write_segment(tmp_path, 0).name
    assert reasons(tmp_path) == [
        f"{name} 0: the log contains no batch, although every log begins with one"
    ]
    write_checkpoint(tmp_path, 4, [METADATA_VERSION])
    (fault,) = faults_of(tmp_path, DISK)
    assert fault.kind is FaultKind.AHEAD


def test_highest_epoch_is_a_repairable_fault(tmp_path: Path) -> None:
    write_sound_log(tmp_path)
    last = control_batch(END, ControlType.LEADER_CHANGE, epoch=2**31 - 1)
    write_segment(tmp_path, 10, *SEGMENTS[10], last)
    (fault,) = faults_of(tmp_path, DISK)
    assert (fault.kind, fault.right_epoch) == (FaultKind.EPOCH, 3)
    assert fault.reason == "epoch 2147483647 is the highest possible, so none can follow it"


def test_checkpoint_with_contradictory_changes_is_a_fault(tmp_path: Path) -> None:
    for records, reason in (
        ([removed(2)], "AclRemoved in a checkpoint"),
        ([added(2), added(2)], "is already present"),
        ([added(2), added(9, added(2).acl)], "has the same binding as another ACL"),
    ):
        write_sound_log(tmp_path)
        write_checkpoint(tmp_path, 10, [METADATA_VERSION, *records], epoch=2)
        (found,) = reasons(tmp_path)
        assert reason in found


def test_contradictory_changes_are_faults(tmp_path: Path) -> None:
    for records, reason in (
        ([added(2)], "is already present"),
        ([added(9, added(2).acl)], "has the same binding as another ACL"),
        ([removed(4)], f"cannot remove the ACL with id {acl_id(4).hex()}: there is none"),
        ([EndTransaction()], "a transaction ends that never began"),
        ([BeginTransaction(), BeginTransaction()], "a transaction begins within another"),
        ([b"\1\x12\0"], "ACL id: 16 bytes announced, 0 left"),
    ):
        write_sound_log(tmp_path)
        write_segment(tmp_path, END, data_batch(END, records, epoch=2))
        (fault,) = faults_of(tmp_path, DISK)
        assert (fault.kind, fault.offset, fault.batch_position) == (FaultKind.DAMAGE, END, 0)
        assert reason in fault.reason


def test_broken_transaction_is_one_fault(tmp_path: Path) -> None:
    """The next checkpoint makes the ACLs known again."""
    write_sound_log(tmp_path, checkpoints=True)
    twice = data_batch(6, [BeginTransaction(), EndTransaction()])
    write_segment(tmp_path, 6, twice, *SEGMENTS[6][1:])
    inspection = Inspection(tmp_path)
    (fault,) = inspection.findings()
    assert "a transaction begins within another" in str(fault)
    assert ids(inspection) == {acl_id(2), acl_id(3), acl_id(6)}


def test_unfinished_write_is_a_fault_only_after_a_clean_shutdown(tmp_path: Path) -> None:
    write_sound_log(tmp_path)
    write_segment(tmp_path, 10, *SEGMENTS[10], b"\0\0\0")
    (note,) = notes(tmp_path)
    assert note == (
        f"{segment_name(10)}: at byte {start_of(10, 3)}, log offset 15: unfinished write of "
        "3 bytes, will be cut at the next start: only zeros to the end of the file"
    )
    assert reasons(tmp_path) == []
    (tmp_path / ".kafka_cleanshutdown").touch()
    (reason,) = reasons(tmp_path)
    assert "only the end of a log that was not shut down cleanly" in reason


KNOWN = ("00000000000000000000.index", "00000000000000000000.timeindex", "quorum-state",
         "00000000000000000000.log.deleted", "partition.metadata", "leader-epoch-checkpoint",
         "00000000000000000004-0000000001.checkpoint.part", "00000000000000000005.snapshot",
         "00000000000000000004-0000000001.checkpoint.deleted")  # fmt: skip
ALMOST = ("0000000000000000006.log", "00000000000000000006.lof", "0000000000000000p.log",
          "00000000000000000004_0000000001.checkpoint", "99999999999999999999.log")  # fmt: skip


def test_names_are_known_unknown_or_faults(tmp_path: Path) -> None:
    write_sound_log(tmp_path)
    for name in (*KNOWN, "core"):
        write_file(tmp_path, name, b"")
    for name in ("recovery-point-offset-checkpoint", "bootstrap.checkpoint", "mine"):
        (tmp_path / name).touch()
    (tmp_path / "orders-0").mkdir()
    assert notes(tmp_path) == ["core: not known", "mine: not known"]
    assert reasons(tmp_path) == []
    for name in ALMOST:
        path = write_file(tmp_path, name, b"")
        assert [each.path for each in faults_of(tmp_path, DISK)] == [path]
        path.unlink()


def test_meta_properties_are_inspected(tmp_path: Path) -> None:
    """A missing file is only a note."""
    write_sound_log(tmp_path)
    path = tmp_path / "meta.properties"
    for data, reason in (
        (b"version=2\n", "expected version=1, found '2'"),
        (b"version=1\nnode.id=1\n", "the key cluster.id is missing"),
        (
            b"version=1\nnode.id=-1\ncluster.id=a\n",
            "expected a node.id of at least 0 and a cluster.id, found -1 and 'a'",
        ),
    ):
        path.write_bytes(data)
        assert reasons(tmp_path) == [f"meta.properties 0: {reason}"]
    path.unlink()
    assert notes(tmp_path) == ["meta.properties: missing: the next start creates a cluster id"]


def test_unreadable_file_is_a_fault(tmp_path: Path) -> None:
    write_sound_log(tmp_path, checkpoints=True)

    class Failing(StoredFiles):
        def size(self, path: Path) -> int:
            if path.name == segment_name(6):
                raise OSError(5, "Input/output error")
            return super().size(path)

    (fault,) = faults_of(tmp_path, Failing.of(tmp_path))
    assert fault.reason.endswith("Input/output error")


@given(data=st.data())
def test_any_damage_is_a_finding_and_never_a_crash(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log_dir = tmp_path_factory.mktemp("log")
    write_sound_log(log_dir, checkpoints=True)
    storage = StoredFiles.of(log_dir)
    shutil.rmtree(log_dir)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(sorted(storage.files)))
        whole = storage.files[path]
        start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
        storage.files[path] = whole[:start] + data.draw(st.binary(max_size=80)) + whole[end:]
    list(Inspection(log_dir, storage).findings())


def test_log_of_one_segment_needs_no_checkpoint(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)])
    assert reasons(tmp_path) == []
