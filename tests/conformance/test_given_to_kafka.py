"""Our daemon and a broker take turns on one log directory.

**Invariant:** Kafka's tools read every file, and each side lists the bindings of the other.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType
from confluent_kafka.admin import ResourceType as ClientResourceType

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from tests.conformance.kafka_files import dump_records, listed_acls, tree_acls
from tests.kafka_rig.broker import CLUSTER_ID, BrokerSettings, running_broker
from tests.kafka_rig.rig import Program, Rig
from tests.support.acls import acl
from tests.support.admin_client import create_acls, new_admin
from tests.support.daemon_process import DaemonProcess, run, running, wait_until, write_config
from tests.support.kafka_acls_output import bindings

SMALL = {
    "super.users": "User:ANONYMOUS",
    "metadata.log.max.record.bytes.between.snapshots": "500",
    "metadata.log.segment.bytes": "1024",
}
"""A few ACLs fill a segment and trigger a checkpoint."""

ACLS = (
    acl("User:alice", topic="orders"),
    acl("User:bob", "ALL", topic="ord", pattern="PREFIXED"),
    acl("User:*", "WRITE", topic="*", deny=True, host="10.0.0.9"),
    acl("User:alice", group="billing", host="10.0.0.1"),
    acl("User:CN=Zoé 日本,O=x", "DESCRIBE", group="été-", pattern="PREFIXED", deny=True),
    acl("Group:staff:night", "WRITE", transactional_id="\U0001f600", host="0:0:0:0:0:0:0:1"),
    *(acl("User:zoé", "ALTER_CONFIGS", topic=f"topic-{number}") for number in range(8)),
)
LAST = acl("User:alice", "DELETE", topic="last")


def address_of(daemon: DaemonProcess) -> str:
    address: str = daemon.ready["listeners"]["PLAINTEXT"]
    return address


def create(daemon: DaemonProcess, new: Acl) -> None:
    binding = AclBinding(
        ClientResourceType[ResourceType(new.resource_type).name],
        new.resource_name,
        ResourcePatternType[PatternType(new.pattern_type).name],
        new.principal,
        new.host,
        AclOperation[Operation(new.operation).name],
        AclPermissionType[PermissionType(new.permission_type).name],
    )
    assert create_acls(new_admin(daemon), binding) == [None], new


def listed(daemon: DaemonProcess) -> set[tuple[str, str]]:
    done = run("acls", "--list", "--bootstrap-server", address_of(daemon))
    assert done.returncode == 0, done
    return bindings(done.stdout)


def files(log_dir: Path, suffix: str) -> list[Path]:
    """Return segments or checkpoints, oldest first."""
    return sorted((log_dir / METADATA_TOPIC_DIRECTORY).glob(f"*{suffix}"))


def added_names(rig: Rig, log_dir: Path) -> list[str]:
    """Return the resource names of all added ACLs, from kafka-dump-log."""
    return [
        str(data["resourceName"])
        for segment in files(log_dir, ".log")
        for kind, data in dump_records(rig, segment)
        if kind == "ACCESS_CONTROL_ENTRY_RECORD"
    ]


def epochs(log_dir: Path) -> list[int]:
    """Return the epochs of a log as Kafka stores them. Each start begins one."""
    path = log_dir / METADATA_TOPIC_DIRECTORY / "leader-epoch-checkpoint"
    _, count, *lines = path.read_text().splitlines()
    assert int(count) == len(lines)
    return [int(line.split()[0]) for line in lines]


def stop(daemon: DaemonProcess) -> str:
    """Stop a daemon with SIGTERM; return its standard error."""
    code, errors = daemon.stop()
    assert code == 0, errors
    return errors


@dataclass(frozen=True)
class LeftBehind:
    """A daemon's log directory, the Kafka for its level, and the bindings that were listed last."""

    rig: Rig
    log_dir: Path
    bindings: set[tuple[str, str]]


@pytest.fixture(scope="module", params=["4.3-IV0", "4.4-IV2"])
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LeftBehind:
    level: str = request.param
    rig = request.getfixturevalue("rig" if level == "4.3-IV0" else "newest_rig")
    folder = tmp_path_factory.mktemp("left")
    log_dir = folder / "log"
    config = write_config(folder, log_dir)
    new = ("--cluster-id", CLUSTER_ID, "--release-version", level)
    done = run("format", "--config", config, *new)
    assert done.returncode == 0, done.stderr
    with running(folder, log_dir, SMALL) as daemon:
        for each in ACLS:
            create(daemon, each)
        wait_until(lambda: files(log_dir, ".checkpoint") != [], "a checkpoint is written")
        create(daemon, LAST)
        found = listed(daemon)
        assert len(found) == len(ACLS) + 1
        stop(daemon)
    return LeftBehind(rig, log_dir, found)


@pytest.fixture
def shell(left: LeftBehind) -> Rig:
    """Return the rig for kafka-metadata-shell."""
    if "kafka-shell" not in left.rig.classpath:
        pytest.skip("Maven has no kafka-shell of this release")
    return left.rig


def test_kafka_dump_log_reads_every_file(left: LeftBehind) -> None:
    """The records of all segments are the ACLs."""
    assert len(files(left.log_dir, ".log")) > 1
    assert added_names(left.rig, left.log_dir) == [each.resource_name for each in (*ACLS, LAST)]
    for checkpoint in files(left.log_dir, ".checkpoint"):
        assert dump_records(left.rig, checkpoint)


def test_the_metadata_shell_shows_the_newest_checkpoint(shell: Rig, left: LeftBehind) -> None:
    """It has the ACLs up to some moment, which depends on timing."""
    newest = files(left.log_dir, ".checkpoint")[-1]
    found = tree_acls(shell, newest)
    assert found
    assert sorted(found.values()) == sorted(map(str, (*ACLS, LAST)[: len(found)]))


def test_the_metadata_shell_shows_the_log(shell: Rig, left: LeftBehind, tmp_path: Path) -> None:
    """All segments are joined in one file, because the shell reads only one."""
    whole = tmp_path / METADATA_TOPIC_DIRECTORY / segment_name(0)
    whole.parent.mkdir()
    whole.write_bytes(b"".join(segment.read_bytes() for segment in files(left.log_dir, ".log")))
    assert sorted(tree_acls(shell, whole).values()) == sorted(map(str, (*ACLS, LAST)))


def test_the_log_goes_to_kafka_and_back_and_again(left: LeftBehind, tmp_path: Path) -> None:
    """No binding is lost. The daemon writes no checkpoint of a log with Kafka's registrations."""
    log_dir = tmp_path / "log"
    shutil.copytree(left.log_dir, log_dir)
    added = ("--allow-principal", "User:kafka", "--operation", "Read", "--topic", "of-kafka")
    with running_broker(left.rig, tmp_path / "first", log_dir) as broker:
        assert listed_acls(broker) == left.bindings
        assert broker.run(Program.ACLS, "--add", *added).exit_code == 0
        with_kafkas = listed_acls(broker)
    assert len(with_kafkas - left.bindings) == 1
    assert left.bindings < with_kafkas

    checkpoints = files(log_dir, ".checkpoint")
    with running(tmp_path, log_dir, SMALL) as daemon:
        assert listed(daemon) == with_kafkas
        create(daemon, acl("User:zoé", topic="ours-again"))
        with_ours = listed(daemon)
        assert "no checkpoints are written" in stop(daemon)
    assert len(with_ours - with_kafkas) == 1
    assert files(log_dir, ".checkpoint") == checkpoints

    small = BrokerSettings(more={"internal.metadata.log.segment.bytes": "1024"})
    with running_broker(left.rig, tmp_path / "second", log_dir, small) as broker:
        assert listed_acls(broker) == with_ours
    assert epochs(log_dir) == [1, 2, 3, 4, 5]
    assert added_names(left.rig, log_dir)[-2:] == ["of-kafka", "ours-again"]
