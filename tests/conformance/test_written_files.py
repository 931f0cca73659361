"""Kafka's own tools read our files, and a broker continues our log."""

import json
import shutil
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from authorizerd.acl.model import AclAdded
from authorizerd.image.changes import FeatureLevel
from authorizerd.metadata.backups.backup import write_backup
from authorizerd.metadata.checkpoint_writer import CheckpointState
from authorizerd.metadata.checkpoint_writer import write_checkpoint as write_our_checkpoint
from authorizerd.metadata.copy_directory import CopyMark, write_mark
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, find_files, segment_name
from authorizerd.metadata.log_state import read_state
from authorizerd.metadata.storage import DISK
from tests.conformance.kafka_files import dump_records, tree_acls
from tests.kafka_rig.broker import running_broker
from tests.kafka_rig.rig import Program, Rig
from tests.support import log_files
from tests.support.acls import acl
from tests.support.daemon_process import run
from tests.support.kafka_acls_output import bindings
from tools.example.log import ACLS
from tools.example.log import write_log as write_example

ODD_NAMES = acl(
    "User:CN=a,O=b", "TWO_PHASE_COMMIT", transactional_id="été 日本 \U0001f600",
    pattern="PREFIXED", deny=True, host="0:0:0:0:0:0:0:1",
)  # fmt: skip
OF_4_3 = FeatureLevel("metadata.version", 30)
CHANGES = (log_files.added(1), log_files.added(2, ODD_NAMES), log_files.added(3))


def uuid(acl_id: bytes) -> str:
    """Return an id as Kafka prints it."""
    return urlsafe_b64encode(acl_id).decode().rstrip("=")


def added_record(change: AclAdded) -> tuple[str, dict[str, object]]:
    data = {
        "id": uuid(change.id),
        "resourceType": change.acl.resource_type,
        "resourceName": change.acl.resource_name,
        "patternType": change.acl.pattern_type,
        "principal": change.acl.principal,
        "host": change.acl.host,
        "operation": change.acl.operation,
        "permissionType": change.acl.permission_type,
    }
    return "ACCESS_CONTROL_ENTRY_RECORD", data


VERSION_RECORD = ("FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 30})


def test_kafka_dump_log_reads_our_segments(rig: Rig, tmp_path: Path) -> None:
    """Every batch is complete and every record is the written one."""
    segment = log_files.write_log(tmp_path, CHANGES, [log_files.removed(3)])
    assert dump_records(rig, segment) == [
        VERSION_RECORD,
        *map(added_record, CHANGES),
        ("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", {"id": uuid(log_files.removed(3).id)}),
    ]


def test_kafka_dump_log_reads_our_checkpoints(rig: Rig, tmp_path: Path) -> None:
    """Control records, which are the header and the footer, are not counted."""
    checkpoint = log_files.write_checkpoint(tmp_path, 7, [OF_4_3, *CHANGES])
    assert dump_records(rig, checkpoint) == [VERSION_RECORD, *map(added_record, CHANGES)]


def test_kafka_dump_log_reads_our_copy_of_a_brokers_checkpoint(
    rig: Rig, real_log_dir: Path, tmp_path: Path
) -> None:
    """Every record and field is kept except for registrations of brokers and controllers."""
    *_, newest = find_files(real_log_dir).checkpoints
    (tmp_path / METADATA_TOPIC_DIRECTORY).mkdir()
    state = CheckpointState(
        end_offset=newest.end_offset,
        epoch=newest.epoch,
        timestamp_ms=log_files.TIME_MS,
        cluster=log_files.read_cluster(newest.path),
        acls=log_files.read_acls(newest.path),
    )
    ours = dump_records(rig, write_our_checkpoint(tmp_path, state, DISK))
    theirs = [
        each for each in dump_records(rig, newest.path) if not each[0].startswith("REGISTER_")
    ]
    assert ours[0] == theirs[0] == VERSION_RECORD
    assert sorted(map(json.dumps, ours)) == sorted(map(json.dumps, theirs))


def test_kafka_reads_a_backup(rig: Rig, real_log_dir: Path, tmp_path: Path) -> None:
    """Both of Kafka's tools accept the facts in the footer. Only kafka-dump-log needs the name."""
    *_, newest = find_files(real_log_dir).checkpoints
    write_mark(tmp_path, CopyMark("quorum"), DISK)  # a copy may lack registrations of brokers
    folder = tmp_path / METADATA_TOPIC_DIRECTORY
    folder.mkdir()
    shutil.copy(newest.path, folder)
    backup = tmp_path / newest.path.name
    write_backup(read_state(tmp_path), backup, log_files.TIME_MS)
    renamed = Path(shutil.copy(backup, tmp_path / "nightly.checkpoint"))
    acls = log_files.read_acls(newest.path)
    records = dump_records(rig, backup)
    dumped = [each for each in records if each[0] == "ACCESS_CONTROL_ENTRY_RECORD"]
    assert {data["id"] for _, data in dumped} == set(map(uuid, acls))
    assert len(dumped) == len(acls)
    assert tree_acls(rig, renamed) == {uuid(acl_id): str(acl) for acl_id, acl in acls.items()}


def test_kafka_dump_log_notices_a_damaged_batch(rig: Rig, tmp_path: Path) -> None:
    """The checks above can fail."""
    segment = log_files.write_log(tmp_path, CHANGES)
    segment.write_bytes(segment.read_bytes().replace(b"topic-1", b"topic-9"))
    with pytest.raises(AssertionError, match="isvalid"):
        dump_records(rig, segment)


def test_the_metadata_shell_shows_the_acls_of_our_checkpoint(rig: Rig, tmp_path: Path) -> None:
    """The shell prints each ACL as our audit lines do."""
    checkpoint = log_files.write_checkpoint(tmp_path, 7, [OF_4_3, *CHANGES])
    assert tree_acls(rig, checkpoint) == {uuid(change.id): str(change.acl) for change in CHANGES}


def test_the_metadata_shell_shows_the_acls_of_the_example(rig: Rig, tmp_path: Path) -> None:
    """The example is the log of ``make run``."""
    write_example(tmp_path, OF_4_3.level)
    segment = tmp_path / METADATA_TOPIC_DIRECTORY / segment_name(0)
    assert sorted(tree_acls(rig, segment).values()) == sorted(map(str, ACLS))


def test_broker_continues_our_log(rig: Rig, formatted: Path, tmp_path: Path) -> None:
    """It lists the ACLs of the example's log, and we read its later records."""
    log_dir = tmp_path / "log"
    shutil.copytree(formatted, log_dir)
    write_example(log_dir, OF_4_3.level)
    ours = bindings(run("acls", "--list", "--log-dir", log_dir).stdout)
    assert len(ours) == len(ACLS)
    new = ("--allow-principal", "User:new", "--operation", "Read", "--topic", "new")
    with running_broker(rig, tmp_path, log_dir) as broker:
        assert broker.run(Program.ACLS, "--add", *new).exit_code == 0
        theirs = bindings(broker.run(Program.ACLS, "--list").stdout)
    assert len(theirs - ours) == 1
    assert ours < theirs
    assert bindings(run("acls", "--list", "--log-dir", log_dir).stdout) == theirs


def test_broker_continues_a_restored_log(rig: Rig, formatted: Path, tmp_path: Path) -> None:
    """It needs no segment before the restored checkpoint, and no file of the replaced log."""
    log_dir, backup = tmp_path / "log", tmp_path / "nightly.checkpoint"
    shutil.copytree(formatted, log_dir)
    write_example(log_dir, OF_4_3.level)
    expected = bindings(run("acls", "--list", "--log-dir", log_dir).stdout)
    assert run("backup", "--log-dir", log_dir, backup).returncode == 0
    log_files.write_log(log_dir, CHANGES)
    done = run("restore", backup, "--log-dir", log_dir)
    assert done.returncode == 0, done
    (replaced,) = log_dir.glob("replaced-*")
    replaced.rename(tmp_path / replaced.name)  # a broker would take it for a topic's directory
    with running_broker(rig, tmp_path, log_dir) as broker:
        assert bindings(broker.run(Program.ACLS, "--list").stdout) == expected
