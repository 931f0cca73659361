"""Our metadata shell prints what Kafka's prints, byte by byte, but for stated differences."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from authorizerd.cli.main import main
from authorizerd.cli.shell.log_tree import log_tree, read_contents
from authorizerd.image.changes import (
    ConfigChanged,
    CredentialAdded,
    FeatureLevel,
    Partition,
    PartitionAdded,
    ScramCredential,
    TopicAdded,
)
from authorizerd.metadata.checkpoint_writer import CheckpointState, write_checkpoint
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, checkpoint_name, segment_name
from authorizerd.metadata.storage import DISK
from authorizerd.protocol.primitives import compact_string
from authorizerd.protocol.records.foreign import ForeignType
from authorizerd.protocol.records.metadata import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    MetadataRecord,
)
from tests.conformance.kafka_clients import create_topics
from tests.conformance.kafka_files import dump_records
from tests.conformance.kafka_shell import converse_with_kafka
from tests.kafka_rig.broker import ADMIN, Broker
from tests.kafka_rig.rig import Program, Rig
from tests.support.acls import acl
from tests.support.foreign_records import (
    ONE_ID,
    TWO_IDS,
    broker,
    changed,
    controller,
    frame,
    int32,
    int64,
    quota,
    token,
)
from tests.support.log_files import added, read_acls, read_cluster, write_log
from tests.support.shell_transcript import converse, expect_ours, read_transcript

TRANSCRIPT = Path(__file__).parents[1] / "cli" / "shell" / "transcript.txt"
NEWEST = checkpoint_name(2807, 1)
TREE = ("tree /image", "find /image", "tree /local", "ls /image/*")

CREDENTIAL = ScramCredential(b"salt", b"stored key", b"server key", 4096)
TOPIC_ID, OTHER_ID = bytes(range(16)), bytes(15) + b"\1"
ELIGIBLE = Partition(
    replicas=(2, 1), isr=(), leader=-1, leader_epoch=3, partition_epoch=4, removing_replicas=(1,),
    adding_replicas=(2,), leader_recovery_state=1, directories=OTHER_ID + TOPIC_ID,
    eligible_leader_replicas=(1,), last_known_eligible=(2,), version=2,
)  # fmt: skip
PLAIN = Partition(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
RECORDS: Sequence[Sequence[MetadataRecord | bytes]] = (
    [TopicAdded("t", TOPIC_ID), TopicAdded("été", OTHER_ID)],
    [PartitionAdded(TOPIC_ID, 0, ELIGIBLE), PartitionAdded(TOPIC_ID, 10, PLAIN)],
    [PartitionAdded(TOPIC_ID, 2, PLAIN), PartitionAdded(OTHER_ID, 0, ELIGIBLE)],
    [frame(ForeignType.CLEAR_ELR, compact_string("t"))],
    [broker(tags=b"\2\0\x21" + TWO_IDS + b"\1\x11" + ONE_ID)],
    [changed(tags=b"\3\0\1\xff\1\1\1\3\x11" + ONE_ID), changed(tags=b"\1\3\1\1")],
    [controller()],
    [frame(ForeignType.FENCE_BROKER, int32(1), int64(5))],
    [quota("producer_byte_rate", 1e7, user="a(\\)"), quota("request_percentage", 2.5, ip="::1")],
    [quota("consumer_byte_rate", 123456789.0, user="a", client_id="c")],
    [quota("producer_byte_rate", 0, is_removed=True, user="a(\\)")],
    [quota("connection_creation_rate", 1e-5, ip="10.0.0.1")],
    [frame(ForeignType.PRODUCER_IDS, int32(1), int64(5), int64(3000))],
    [token("t1"), token("t2")],
    [frame(ForeignType.REMOVE_DELEGATION_TOKEN, compact_string("t2"))],
    # Java sorts the first of these names before the second one.
    [CredentialAdded("\U0001f600", 1, CREDENTIAL), CredentialAdded("\uff5e", 1, CREDENTIAL)],
    [ConfigChanged(2, "t", "retention.ms", "1"), ConfigChanged(4, "1", "num.io.threads", "2")],
    [ConfigChanged(32, "g", "consumer.session.timeout.ms", "3"), ConfigChanged(4, "", "x", None)],
    [FeatureLevel("group.version", 1), added(1), added(2, acl("User:\U0001f600", topic="\uff5e"))],
    [BeginTransaction(), quota("never", 1, user="b"), added(3), AbortTransaction()],
    [BeginTransaction("name"), token("t3"), added(4)],
    [EndTransaction()],
)


def compare(rig: Rig, theirs: Path, ours: Path, lines: Sequence[str]) -> None:
    """Compare what both shells print about a file, and about a log with the same records."""
    printed = converse_with_kafka(rig, theirs, lines)
    found = converse(log_tree(read_contents(ours)), lines)
    pairs = zip(lines, found, map(expect_ours, printed), strict=True)
    assert [(line, mine) for line, mine, _ in pairs] == [
        (line, expect_ours(each)) for line, each in zip(lines, printed, strict=True)
    ]
    assert any(printed)


def test_conversation_is_that_of_kafka(rig: Rig, real_log_dir: Path) -> None:
    """The recorded transcript is still what Kafka's shell prints."""
    recorded = read_transcript(TRANSCRIPT)
    file = real_log_dir / METADATA_TOPIC_DIRECTORY / NEWEST
    lines = [line for line, _ in recorded]
    printed = converse_with_kafka(rig, file, lines)
    assert list(zip(lines, printed, strict=True)) == recorded


def test_every_checkpoint_of_a_broker_has_the_same_tree(rig: Rig, real_log_dir: Path) -> None:
    checkpoints = sorted((real_log_dir / METADATA_TOPIC_DIRECTORY).glob("*.checkpoint"))
    assert len(checkpoints) == 6
    for checkpoint in checkpoints:
        compare(rig, checkpoint, checkpoint, TREE)


def test_log_of_a_broker_has_the_same_tree(rig: Rig, real_log_dir: Path, tmp_path: Path) -> None:
    """We read the directory without its checkpoints, Kafka's shell its only segment."""
    segment = real_log_dir / METADATA_TOPIC_DIRECTORY / segment_name(0)
    copy = tmp_path / METADATA_TOPIC_DIRECTORY / segment.name
    copy.parent.mkdir()
    copy.write_bytes(segment.read_bytes())
    compare(rig, segment, tmp_path, TREE)


def test_checkpoint_of_the_daemon_has_the_same_tree(
    rig: Rig, real_log_dir: Path, tmp_path: Path
) -> None:
    """It has all that the daemon keeps of a broker's log."""
    state = CheckpointState(
        end_offset=3060,
        epoch=1,
        timestamp_ms=1_767_225_600_000,
        cluster=read_cluster(real_log_dir),
        acls=read_acls(real_log_dir),
    )
    (tmp_path / METADATA_TOPIC_DIRECTORY).mkdir()
    checkpoint = write_checkpoint(tmp_path, state, DISK)
    compare(rig, checkpoint, checkpoint, TREE)


@pytest.mark.parametrize("count", [9, 14, len(RECORDS)])
def test_every_record_has_the_same_effect(rig: Rig, tmp_path: Path, count: int) -> None:
    segment = write_log(tmp_path, *RECORDS[:count])
    compare(rig, segment, tmp_path, TREE)


def test_acl_is_the_json_of_its_record(rig: Rig, real_log_dir: Path) -> None:
    """KIP-801: compare with kafka-dump-log, which writes the same JSON."""
    file = real_log_dir / METADATA_TOPIC_DIRECTORY / NEWEST
    records = [
        data for kind, data in dump_records(rig, file) if kind == "ACCESS_CONTROL_ENTRY_RECORD"
    ]
    ids = [str(each["id"]) for each in records]
    printed = converse(log_tree(read_contents(file)), [f"cat /acl/id/{each}" for each in ids])
    assert [json.loads(each) for each in printed] == records
    assert len(records) > 1000


TOLD = (
    "cat /image/acls/byId/*",
    "tree /image/features",
    "tree /image/scram",
    "ls /image/topics/byName",
    "cat /image/topics/byName/shell-1/id",
    "tree /image/configs",
    "cat /image/configs/TOPIC:shell-1/retention.ms",
    "tree /image/clientQuotas",
    "ls /image/cluster/brokers",
)
"""Commands that show the same of a broker and of its log, except the order of lines."""
PREPARATIONS = (
    "--alter --add-config retention.ms=1234 --entity-type topics --entity-name shell-1",
    "--alter --add-config producer_byte_rate=1024 --entity-type users --entity-name u",
    "--alter --add-config log.cleaner.threads=2 --entity-type brokers --entity-default",
    "--alter --add-config SCRAM-SHA-512=[password=p] --entity-type users --entity-name shelly",
)


def test_broker_tells_what_its_log_has(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(broker.client_config(ADMIN))
    connection = ["--bootstrap-server", broker.sasl_plaintext, "--command-config", config]
    create_topics(broker, ADMIN, "shell-1")
    for words in PREPARATIONS:
        done = broker.run(Program.CONFIGS, *words.split())
        assert done.exit_code == 0, done
    rule = ["--allow-principal", "User:shelly", "--operation", "Read", "--topic", "shell-1"]
    assert main(["acls", *connection, "--add", *rule]) == 0
    capsys.readouterr()
    for words in TOLD:
        found = []
        for source in (connection, ["--log-dir", str(broker.log_dir)]):
            assert main(["shell", *source, *words.split()]) == 0
            found.append(sorted(capsys.readouterr().out.splitlines()))
        told, logged = found
        assert told == logged, words
        assert told, words
    assert main(["acls", *connection, "--remove", "--force", *rule]) == 0
