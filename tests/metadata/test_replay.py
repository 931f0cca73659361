"""Replay turns batches into visible changes, also for the log of a broker."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from immutables import Map
from msgspec.structs import replace

from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.acl.model import Acl, ChangeBatch, Operation, PatternType, PermissionType
from authorizerd.acl.model import ResourceType as Resource
from authorizerd.image.changes import (
    ConfigChanged,
    CredentialRemoved,
    FeatureLevel,
    PartitionChanged,
    TopicAdded,
    TopicRemoved,
)
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, find_files
from authorizerd.metadata.errors import CorruptLogError
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.replay import Replay, read_changes
from authorizerd.protocol.records.fast_reader import RECORDS_PER_SLICE
from authorizerd.protocol.records.metadata import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    MetadataRecord,
)
from tests.support.log_files import (
    METADATA_VERSION,
    added,
    data_batch,
    read_acls,
    read_cluster,
    removed,
    write_checkpoint,
    write_log,
    write_segment,
)
from tests.support.strategies import logs

BEGIN, END, ABORT = BeginTransaction("t"), EndTransaction(), AbortTransaction("why")
TOPIC, CONFIG = TopicAdded("t", b"t" * 16), ConfigChanged(2, "t", "retention.ms", "1")
BEFORE_THE_FIRST = [ChangeBatch(0), ChangeBatch(1, cluster_changes=(METADATA_VERSION,))]
"""The visible changes of the first two batches, LeaderChange and metadata.version."""

LISTED_PATTERN = re.compile(
    r"Current ACLs for resource `ResourcePattern\(resourceType=(\w+), name=(.*), "
    r"patternType=(\w+)\)`:"
)
LISTED_ENTRY = re.compile(r"\t\(principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)\)")


def shown(log_dir: Path) -> list[ChangeBatch]:
    """Return the visible changes of the batches that a test gave to ``write_log``."""
    batches = list(read_changes(log_dir))
    assert batches[:2] == BEFORE_THE_FIRST
    return batches[2:]


def refusal(log_dir: Path) -> CorruptLogError:
    with pytest.raises(CorruptLogError) as refused:
        list(read_changes(log_dir))
    return refused.value


def replayed(path: Path) -> Replay:
    replay = Replay()
    for log_batch in MetadataLog.open(path).batches():
        list(replay.steps(log_batch))
    return replay


def features(path: Path) -> dict[str, int]:
    return replayed(path).features


def listed(path: Path) -> list[Acl]:
    """Return the ACLs in the output of ``kafka-acls --list``."""
    found = []
    for line in path.read_text("utf-8").splitlines():
        if pattern := LISTED_PATTERN.fullmatch(line):
            resource_type, name, pattern_type = pattern.groups()
        elif entry := LISTED_ENTRY.fullmatch(line):
            principal, host, operation, permission = entry.groups()
            acl = Acl(
                Resource[resource_type], name, PatternType[pattern_type], principal, host,
                Operation[operation], PermissionType[permission],
            )  # fmt: skip
            found.append(acl)
        else:
            assert not line.strip()
    return found


def with_files(log_dir: Path, real: Path, *patterns: str) -> Path:
    """Create a log directory with links to the matching files of the broker's log."""
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    directory.mkdir(parents=True)
    for pattern in patterns:
        for path in (real / METADATA_TOPIC_DIRECTORY).glob(pattern):
            (directory / path.name).symlink_to(path)
    return log_dir


@pytest.mark.parametrize(("batches", "expected"), [
    # A skipped record only advances the offset.
    ([[added(1), removed(1), added(2)], [b"\1\x0e\0"], [added(3), b"\1\x0e\0"]],
     [(4, added(1), removed(1), added(2)), (5,), (7, added(3))]),
    # The changes of a transaction, and the records around it, stay in log order.
    ([[added(1), BEGIN, added(2), removed(1), END, added(3)]],
     [(7, added(1), added(2), removed(1), added(3))]),
    ([[added(1), BEGIN], [added(2)], [removed(1), added(3)], [added(4), END, added(5)]],
     [(3, added(1)), (4,), (6,), (9, added(2), removed(1), added(3), added(4), added(5))]),
    # Kafka's controller writes its bootstrap transaction this way.
    ([[BEGIN], [added(1)], [END], [added(2)]], [(2,), (3,), (4, added(1)), (5, added(2))]),
    # A transaction that is open at the end never becomes visible.
    ([[added(1), BEGIN, added(2)], [added(3)]], [(4, added(1)), (5,)]),
])  # fmt: skip
def test_records_become_visible_with_their_batch_or_transaction(
    tmp_path: Path, batches: list[list[MetadataRecord]], expected: list[tuple[Any, ...]]
) -> None:
    write_log(tmp_path, *batches)
    assert shown(tmp_path) == [ChangeBatch(offset, tuple(changes)) for offset, *changes in expected]


@pytest.mark.parametrize("batches", [
    [[BEGIN, added(1), ABORT, added(2)]],
    [[BEGIN], [added(1), removed(9)], [ABORT, added(2)]],
    [[BEGIN, added(1)], [ABORT], [BEGIN, added(2), END]],
])  # fmt: skip
def test_aborted_transaction_never_becomes_visible(
    tmp_path: Path, batches: list[list[MetadataRecord]]
) -> None:
    write_log(tmp_path, *batches)
    assert [change for batch in shown(tmp_path) for change in batch.changes] == [added(2)]


def test_torn_end_leaves_the_transaction_open(tmp_path: Path) -> None:
    path = write_log(tmp_path, [BEGIN, added(1)], [END])
    path.write_bytes(path.read_bytes()[:-1])
    assert read_acls(tmp_path) == {}


@pytest.mark.parametrize(
    ("batches", "offset", "reason"),
    [
        ([[BEGIN, added(1), BEGIN]], 2, "a transaction begins within another"),
        ([[BEGIN], [added(1)], [BEGIN]], 4, "a transaction begins within another"),
        ([[added(1), END]], 2, "a transaction ends that never began"),
        ([[BEGIN, END], [added(1)], [END]], 5, "a transaction ends that never began"),
        ([[BEGIN, ABORT], [END]], 4, "a transaction ends that never began"),
        ([[ABORT]], 2, "a transaction is aborted that never began"),
        ([[BEGIN, END, ABORT]], 2, "a transaction is aborted that never began"),
    ],
)
def test_transaction_records_out_of_order_are_corruption(
    tmp_path: Path, batches: list[list[MetadataRecord]], offset: int, reason: str
) -> None:
    path = write_log(tmp_path, *batches)
    error = refusal(tmp_path)
    assert (error.path, error.offset, error.reason) == (path, offset, reason)
    assert f"log offset {offset}: {reason}" in str(error)
    start = path.read_bytes().index(data_batch(offset, batches[-1]))
    assert start <= error.position < path.stat().st_size


def test_features_become_visible_like_acls(tmp_path: Path) -> None:
    """Level 0 removes a feature."""
    kraft, groups = FeatureLevel("kraft.version", 1), FeatureLevel("group.version", 1)
    write_log(tmp_path, [kraft], [FeatureLevel("kraft.version", 2), groups])
    assert features(tmp_path) == {"metadata.version": 30, "kraft.version": 2, "group.version": 1}
    write_log(tmp_path, [kraft, groups], [FeatureLevel("group.version", 0)])
    assert features(tmp_path) == {"metadata.version": 30, "kraft.version": 1}
    write_log(tmp_path, [BEGIN, kraft], [END, BEGIN, groups])
    assert features(tmp_path) == {"metadata.version": 30, "kraft.version": 1}
    write_log(tmp_path, [BEGIN, kraft], [ABORT, groups])
    assert features(tmp_path) == {"metadata.version": 30, "group.version": 1}
    write_log(tmp_path, [FeatureLevel("group.version", 0)])
    assert features(tmp_path) == {"metadata.version": METADATA_VERSION.level}


def test_metadata_version_is_known_once_visible(tmp_path: Path) -> None:
    write_log(tmp_path, [BEGIN, FeatureLevel("metadata.version", 31)], [END])
    replay = Replay()
    versions = []
    for log_batch in MetadataLog.open(tmp_path).batches():
        list(replay.steps(log_batch))
        versions.append(replay.metadata_version)
    assert versions == [-1, 30, 30, 31]


def test_checkpoint_becomes_visible_at_its_last_offset(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 6, [METADATA_VERSION, added(1), added(2)])
    write_segment(tmp_path, 6, data_batch(6, [removed(1)]))
    assert list(read_changes(tmp_path)) == [
        ChangeBatch(5, (added(1), added(2)), cluster_changes=(METADATA_VERSION,)),
        ChangeBatch(6, (removed(1),)),
    ]
    assert features(tmp_path) == {"metadata.version": METADATA_VERSION.level}


@pytest.mark.parametrize(
    "record",
    [
        removed(1), BEGIN, END, ABORT, TopicRemoved(b"t" * 16), CredentialRemoved("carol", 1),
        PartitionChanged(topic_id=b"t" * 16, number=0),
        ConfigChanged(2, "t", "retention.ms", None),
    ],
    ids=lambda record: type(record).__name__,
)  # fmt: skip
def test_checkpoint_contains_only_what_exists(tmp_path: Path, record: MetadataRecord) -> None:
    """A removal, a partial state or part of a transaction is corruption."""
    path = write_checkpoint(tmp_path, 90, [METADATA_VERSION, added(1), TOPIC, CONFIG, record])
    error = refusal(path)
    assert (error.path, error.offset) == (path, 1)
    assert error.reason == (
        f"{type(record).__name__} in a checkpoint, which contains only what exists"
    )


def test_unreadable_record_is_located(tmp_path: Path) -> None:
    """Nothing of its batch becomes visible."""
    path = write_log(tmp_path, [added(1)], [added(2), b"\1\x12\1"])
    whole = path.read_bytes()
    found: list[ChangeBatch] = []
    with pytest.raises(CorruptLogError) as refused:
        found.extend(read_changes(tmp_path))
    assert found == [*BEFORE_THE_FIRST, ChangeBatch(2, (added(1),))]
    assert refused.value.path == path
    assert refused.value.offset == 3
    assert refused.value.position == whole.rindex(b"\1\x12\1")


def test_large_batch_comes_in_slices(tmp_path: Path) -> None:
    """Only the last one ends the batch."""
    write_log(tmp_path, [added(n) for n in range(1000)])
    replay = Replay()
    *_, large = MetadataLog.open(tmp_path).batches()
    pause, *pieces = replay.steps(large)
    assert pause is None
    assert [piece and (piece.last_offset, piece.is_end) for piece in pieces] == [
        *[(1001, False)] * (1000 // RECORDS_PER_SLICE),
        (1001, True),
    ]
    changes = [change for piece in pieces if piece is not None for change in piece.changes]
    assert changes == [added(n) for n in range(1000)]


def test_long_transaction_becomes_visible_in_slices(tmp_path: Path) -> None:
    write_log(tmp_path, [BEGIN, *(added(n) for n in range(300))], [END, added(300)])
    replay = Replay()
    *_, held, last = MetadataLog.open(tmp_path).batches()
    assert [step for step in replay.steps(held) if step is not None] == [ChangeBatch(302)]
    pieces = [piece for piece in replay.steps(last) if piece is not None]
    assert [len(piece.changes) for piece in pieces] == [RECORDS_PER_SLICE, RECORDS_PER_SLICE, 45]
    assert [piece.is_end for piece in pieces] == [False, False, True]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(logs(unknown_codes=True), st.data())
def test_any_log_reads_back_with_any_transactions(
    tmp_path: Path, log: list[ChangeBatch], data: st.DataObject
) -> None:
    """A transaction only delays its batches. Aborted or open ones change nothing."""
    written: list[list[MetadataRecord]] = []
    for batch in log:
        changes: list[MetadataRecord] = list(batch.changes)
        match data.draw(st.sampled_from(["plain", "framed", "split", "after an abort"])):
            case "framed":
                changes = [BEGIN, *changes, END]
            case "split" if changes:
                written.append([BEGIN, changes.pop(0)])
                changes.append(END)
            case "after an abort":
                written.append([BEGIN, added(2**64), removed(2**64 + 1), ABORT])
        if changes:
            written.append(changes)
    written.append([BEGIN, added(2**64)])
    write_log(tmp_path, *written)
    expected = [batch.changes for batch in log if batch.changes]
    assert [batch.changes for batch in shown(tmp_path) if batch.changes] == expected


def test_log_of_a_broker_gives_the_acls_kafka_listed(tmp_path: Path, real_log_dir: Path) -> None:
    """The log is read from the newest checkpoint, and from offset 0 without checkpoints."""
    listing = listed(real_log_dir / "acls-list.txt")
    assert len(listing) == len(set(listing)) == 1751
    from_checkpoint = read_acls(real_log_dir)
    assert len(from_checkpoint) == 1751
    assert set(from_checkpoint.values()) == set(listing)
    log_alone = with_files(tmp_path, real_log_dir, "*.log")
    assert find_files(log_alone).checkpoints == ()
    assert read_acls(log_alone) == from_checkpoint
    assert features(real_log_dir) == features(log_alone)
    assert features(log_alone)["metadata.version"] == 30


@pytest.mark.parametrize(
    ("end_offset", "acls"),
    [(925, 900), (1823, 1796), (2522, 1616), (2562, 1616), (2602, 1616), (2807, 1751)],
)
def test_each_checkpoint_of_a_broker_equals_the_log(
    tmp_path: Path, real_log_dir: Path, end_offset: int, acls: int
) -> None:
    name = f"{end_offset:020d}-0000000001.checkpoint"
    found = read_acls(real_log_dir / METADATA_TOPIC_DIRECTORY / name)
    assert len(found) == acls
    builder = SnapshotBuilder()
    for batch in read_changes(with_files(tmp_path / "log alone", real_log_dir, "*.log")):
        if batch.last_offset < end_offset:
            builder.apply_changes(batch.changes)
    assert dict(builder.freeze(0).acls.items()) == found
    both = with_files(tmp_path / "both", real_log_dir, "*.log", name)
    assert read_acls(both) == read_acls(real_log_dir)


def test_other_records_become_visible_like_acls(tmp_path: Path) -> None:
    write_log(tmp_path, [TOPIC, added(1), CONFIG], [BEGIN, CONFIG], [added(2), TOPIC, END], [TOPIC])
    assert shown(tmp_path) == [
        ChangeBatch(4, (added(1),), cluster_changes=(TOPIC, CONFIG)),
        ChangeBatch(6),
        ChangeBatch(9, (added(2),), cluster_changes=(CONFIG, TOPIC)),
        ChangeBatch(10, cluster_changes=(TOPIC,)),
    ]
    write_log(tmp_path, [BEGIN, CONFIG, ABORT, TOPIC], [BEGIN, CONFIG])
    assert shown(tmp_path) == [ChangeBatch(5, cluster_changes=(TOPIC,)), ChangeBatch(7)]


def test_long_batch_of_any_changes_comes_in_slices(tmp_path: Path) -> None:
    mixed: list[MetadataRecord] = [added(n) if n % 3 else CONFIG for n in range(500)]
    write_log(tmp_path, mixed)
    pieces = shown(tmp_path)
    assert [len(each.changes) + len(each.cluster_changes) for each in pieces] == [
        *[RECORDS_PER_SLICE] * (500 // RECORDS_PER_SLICE),
        500 % RECORDS_PER_SLICE,
    ]
    assert [each.is_end for each in pieces] == [*[False] * (len(pieces) - 1), True]
    assert [each for piece in pieces for each in piece.changes] == [
        added(n) for n in range(500) if n % 3
    ]
    assert sum(len(piece.cluster_changes) for piece in pieces) == 167


@pytest.mark.parametrize(
    ("record", "foreign"),
    [
        (TOPIC, set()),
        (CONFIG, set()),
        (b"\1\x14\0", set()),
        (b"\1\x1b\0anything", set()),
        (b"\1\x1d\0anything", set()),
        (b"\1\0\4anything", {0}),
        (b"\1\x0e\0anything", {14}),
        (b"\1\x1c\0anything", {28}),
        (b"\1\3\3anything", {3}),
    ],
    ids=["topic", "config", "no-op", "controller", "gone", "broker", "quota", "clear elr", "v3"],
)
def test_records_that_a_checkpoint_would_lose_are_foreign(
    tmp_path: Path, record: MetadataRecord | bytes, foreign: set[int]
) -> None:
    """Of known types, unknown versions. A controller's registration may be lost."""
    write_log(tmp_path, [record])
    assert replayed(tmp_path).foreign_types == foreign


def test_image_of_a_brokers_log_equals_its_checkpoints(tmp_path: Path, real_log_dir: Path) -> None:
    log_alone = with_files(tmp_path, real_log_dir, "*.log")
    assert without_values(read_cluster(log_alone)) == without_values(read_cluster(real_log_dir))
    image = read_cluster(real_log_dir)
    assert {key: node.level for key, node in image.nodes.items()} == NODES
    assert len(image.topics) == 238
    assert {user for user, _ in image.credentials} == {"carol", "dave"}
    assert image.features["metadata.version"] == 30
    for checkpoint in find_files(real_log_dir).checkpoints:
        image = EMPTY_IMAGE
        for batch in read_changes(log_alone):
            if batch.last_offset < checkpoint.end_offset:
                image = apply_cluster_changes(image, batch.cluster_changes)
        assert without_values(read_cluster(checkpoint.path)) == without_values(image)


NODES: Final = {(False, 1): 30, (True, 1): 30}


def without_values(image: ClusterImage) -> ClusterImage:
    """Return the image without the bytes of registrations: a checkpoint has later ones."""
    nodes = {key: replace(node, value=b"") for key, node in image.nodes.items()}
    return replace(image, nodes=Map(nodes))
