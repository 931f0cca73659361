"""What our daemon left behind goes to Kafka, comes back, and goes there once more.

Law: Kafka's tools read every file without a complaint, and a binding that one of the two made is
listed by the other, whoever owned the log in between.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
)
from confluent_kafka.admin import ResourceType as ClientResourceType

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from ops.kafka_rig.broker import CLUSTER_ID, Broker, BrokerSettings, running_broker
from ops.kafka_rig.rig import Program, Rig
from tests.cli.test_main import bindings
from tests.conformance.test_written_files import PAYLOAD, dumped, shown
from tests.support.admin_client import create_acls
from tests.support.daemon_process import DaemonProcess, run, running, write_config

SECONDS_MAX = 20.0
SMALL = {
    "super.users": "User:ANONYMOUS",
    "metadata.log.max.record.bytes.between.snapshots": "500",
    "metadata.log.segment.bytes": "1024",
}
"""A few ACLs fill a segment, and make a checkpoint due."""

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
ACLS = (
    Acl(TOPIC, "orders", LITERAL, "User:alice", "*", Operation.READ, ALLOW),
    Acl(TOPIC, "ord", PREFIXED, "User:bob", "*", Operation.ALL, ALLOW),
    Acl(TOPIC, "*", LITERAL, "User:*", "10.0.0.9", Operation.WRITE, DENY),
    Acl(GROUP, "billing", LITERAL, "User:alice", "10.0.0.1", Operation.READ, ALLOW),
    Acl(GROUP, "été-", PREFIXED, "User:CN=Zoé 日本,O=x", "*", Operation.DESCRIBE, DENY),
    Acl(
        ResourceType.TRANSACTIONAL_ID, "\U0001f600", LITERAL, "Group:staff:night",
        "0:0:0:0:0:0:0:1", Operation.WRITE, ALLOW,
    ),
    *(
        Acl(TOPIC, f"topic-{number}", LITERAL, "User:zoé", "*", Operation.ALTER_CONFIGS, ALLOW)
        for number in range(8)
    ),
)  # fmt: skip
LAST = Acl(TOPIC, "last", LITERAL, "User:alice", "*", Operation.DELETE, ALLOW)


def address_of(daemon: DaemonProcess) -> str:
    address: str = daemon.ready["listeners"]["PLAINTEXT"]
    return address


def create(daemon: DaemonProcess, acl: Acl) -> None:
    """Create one ACL, a batch of its own."""
    binding = AclBinding(
        ClientResourceType[ResourceType(acl.resource_type).name],
        acl.resource_name,
        ResourcePatternType[PatternType(acl.pattern_type).name],
        acl.principal,
        acl.host,
        AclOperation[Operation(acl.operation).name],
        AclPermissionType[PermissionType(acl.permission_type).name],
    )
    admin = AdminClient({"bootstrap.servers": address_of(daemon)})
    assert create_acls(admin, binding) == [None], acl


def listed(daemon: DaemonProcess) -> set[tuple[str, str]]:
    done = run("acls", "--list", "--bootstrap-server", address_of(daemon))
    assert done.returncode == 0, done
    return bindings(done.stdout)


def kafka_listed(broker: Broker) -> set[tuple[str, str]]:
    done = broker.run(Program.ACLS, "--list")
    assert done.exit_code == 0, done
    return bindings(done.stdout)


def files(log_dir: Path, suffix: str) -> list[Path]:
    """Return segments or checkpoints, the oldest first."""
    return sorted((log_dir / METADATA_TOPIC_DIRECTORY).glob(f"*{suffix}"))


def added_names(rig: Rig, segment: Path) -> list[str]:
    """Return the resource of each ACL that kafka-dump-log finds added; all batches are whole.

    kafka-dump-log counts from 0: of a segment that begins later, Kafka's own too, it says so.
    """
    done = rig.dump_log(segment)
    base = int(segment.stem)
    later = f"Non-consecutive offsets in {segment}\n  -1 is followed by {base}\n"
    assert (done.exit_code, done.stderr) == (0, later if base else "")
    assert "isvalid: true" in done.stdout
    assert "isvalid: false" not in done.stdout
    payloads = map(json.loads, PAYLOAD.findall(done.stdout))
    return [
        payload["data"]["resourceName"]
        for payload in payloads
        if payload["type"] == "ACCESS_CONTROL_ENTRY_RECORD"
    ]


def epochs(log_dir: Path) -> list[int]:
    """Return what Kafka takes for the epochs of a log; whoever starts on it begins one."""
    path = log_dir / METADATA_TOPIC_DIRECTORY / "leader-epoch-checkpoint"
    _, count, *lines = path.read_text().splitlines()
    assert int(count) == len(lines)
    return [int(line.split()[0]) for line in lines]


def wait_for_checkpoint(log_dir: Path) -> None:
    give_up = time.monotonic() + SECONDS_MAX
    while not files(log_dir, ".checkpoint"):
        assert time.monotonic() < give_up, "no checkpoint in time"
        time.sleep(0.05)


def stop(daemon: DaemonProcess) -> str:
    """End a daemon as an operator would; return what it said."""
    code, errors = daemon.stop()
    assert code == 0, errors
    return errors


@dataclass(frozen=True)
class LeftBehind:
    """A log directory that a daemon left, and what was listed last."""

    log_dir: Path
    bindings: set[tuple[str, str]]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> LeftBehind:
    folder = tmp_path_factory.mktemp("left")
    log_dir = folder / "log"
    config = write_config(folder, log_dir)
    done = run("format", "--config", config, "--cluster-id", CLUSTER_ID)
    assert done.returncode == 0, done.stderr
    with running(folder, log_dir, SMALL) as daemon:
        for acl in ACLS:
            create(daemon, acl)
        wait_for_checkpoint(log_dir)
        create(daemon, LAST)
        found = listed(daemon)
        assert len(found) == len(ACLS) + 1
        stop(daemon)
    return LeftBehind(log_dir, found)


def test_kafka_dump_log_reads_every_file(rig: Rig, left: LeftBehind) -> None:
    """Segments and checkpoints; of the segments all records together are the ACLs."""
    segments = files(left.log_dir, ".log")
    assert len(segments) > 1
    names = [name for segment in segments for name in added_names(rig, segment)]
    assert names == [acl.resource_name for acl in (*ACLS, LAST)]
    for checkpoint in files(left.log_dir, ".checkpoint"):
        assert dumped(rig, checkpoint)


def test_the_metadata_shell_shows_the_newest_checkpoint(rig: Rig, left: LeftBehind) -> None:
    """The ACLs up to some moment: which are in it depends on when it was due."""
    newest = files(left.log_dir, ".checkpoint")[-1]
    found = shown(rig.metadata_shell(newest, "tree", "/image/acls"))
    assert found
    assert sorted(found.values()) == sorted(map(str, (*ACLS, LAST)[: len(found)]))


def test_the_metadata_shell_shows_the_log(rig: Rig, left: LeftBehind, tmp_path: Path) -> None:
    """All segments as one, since the shell takes a single file."""
    whole = tmp_path / METADATA_TOPIC_DIRECTORY / segment_name(0)
    whole.parent.mkdir()
    whole.write_bytes(b"".join(segment.read_bytes() for segment in files(left.log_dir, ".log")))
    found = shown(rig.metadata_shell(whole, "tree", "/image/acls"))
    assert sorted(found.values()) == sorted(map(str, (*ACLS, LAST)))


def test_the_log_goes_to_kafka_and_back_and_again(
    rig: Rig, left: LeftBehind, tmp_path: Path
) -> None:
    """Nothing is lost on the way; behind Kafka's own records no checkpoint is written."""
    log_dir = tmp_path / "log"
    shutil.copytree(left.log_dir, log_dir)
    added = ("--allow-principal", "User:kafka", "--operation", "Read", "--topic", "of-kafka")
    with running_broker(rig, tmp_path / "first", log_dir) as broker:
        assert kafka_listed(broker) == left.bindings
        assert broker.run(Program.ACLS, "--add", *added).exit_code == 0
        with_kafkas = kafka_listed(broker)
    assert len(with_kafkas - left.bindings) == 1
    assert left.bindings < with_kafkas

    checkpoints = files(log_dir, ".checkpoint")
    with running(tmp_path, log_dir, SMALL) as daemon:
        assert listed(daemon) == with_kafkas
        create(daemon, Acl(TOPIC, "ours-again", LITERAL, "User:zoé", "*", Operation.READ, ALLOW))
        with_ours = listed(daemon)
        assert "no checkpoints are written" in stop(daemon)
    assert len(with_ours - with_kafkas) == 1
    assert files(log_dir, ".checkpoint") == checkpoints

    small = BrokerSettings(more={"internal.metadata.log.segment.bytes": "1024"})
    with running_broker(rig, tmp_path / "second", log_dir, small) as broker:
        assert kafka_listed(broker) == with_ours
    assert epochs(log_dir) == [1, 2, 3, 4, 5]
    segments = files(log_dir, ".log")
    names = [name for segment in segments for name in added_names(rig, segment)]
    assert names[-2:] == ["of-kafka", "ours-again"]
