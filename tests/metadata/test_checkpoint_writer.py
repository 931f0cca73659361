"""Checkpoints written through a recording Storage, and the files that they replace."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from immutables import Map
from msgspec.structs import replace

from authorizerd.acl.model import Acl
from authorizerd.image.changes import FeatureLevel, NodeRegistered, VotersChanged
from authorizerd.image.cluster import ClusterImage, apply_cluster_changes
from authorizerd.metadata.checkpoint_writer import (
    RECORDS_PER_BATCH,
    CheckpointState,
    retire,
    write_checkpoint,
)
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, checkpoint_name, find_files
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.storage import Storage
from authorizerd.protocol.records.nodes import decode_node
from tests.metadata.reading import numbers
from tests.support.foreign_records import node
from tests.support.log_files import (
    METADATA_VERSION,
    TIME_MS,
    acl_id,
    added,
    checkpoint_batches,
    data_batch,
    read_acls,
    read_cluster,
    write_file,
    write_log,
    write_segment,
)
from tests.support.log_files import write_checkpoint as write_checkpoint_file
from tests.support.recording_storage import PowerFailure, RecordingStorage

FEATURES = {"group.version": 1, "metadata.version": METADATA_VERSION.level}
CLUSTER = ClusterImage(features=Map(FEATURES))
NO_BYTES_MAX = 2**63
NAME = "00000000000000000005-0000000003.checkpoint"


def state(acls: Mapping[bytes, Acl], *, end_offset: int = 5) -> CheckpointState:
    return CheckpointState(
        end_offset=end_offset, epoch=3, timestamp_ms=TIME_MS, cluster=CLUSTER, acls=acls
    )


def numbered(*wanted: int) -> dict[bytes, Acl]:
    return {acl_id(number): added(number).acl for number in wanted}


def directory_of(log_dir: Path) -> Path:
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def written(log_dir: Path, acls: Mapping[bytes, Acl], storage: Storage | None = None) -> Path:
    directory_of(log_dir)
    return write_checkpoint(log_dir, state(acls), storage or Storage())


def test_checkpoint_has_kafkas_layout(tmp_path: Path) -> None:
    """Header, metadata.version, ACLs, footer. Offsets count from 0."""
    path = written(tmp_path, numbered(1, 2))
    records = (METADATA_VERSION, FeatureLevel("group.version", 1), added(1), added(2))
    assert path.read_bytes() == b"".join(checkpoint_batches(records, epoch=3, end_offset=5))
    assert path.name == NAME


def test_many_acls_are_split_into_batches(tmp_path: Path) -> None:
    acls = numbered(*range(3 * RECORDS_PER_BATCH))
    path = written(tmp_path, acls)
    assert read_acls(path) == acls
    counts = [each.placed.batch.count for each in MetadataLog.open(path).batches()]
    assert counts == [*[RECORDS_PER_BATCH] * 3, len(FEATURES)]


def test_checkpoint_without_acls_is_valid(tmp_path: Path) -> None:
    path = written(tmp_path, {})
    assert read_acls(path) == {}
    [batch] = MetadataLog.open(path).batches()
    assert batch.placed.batch.count == len(FEATURES)


def test_checkpoint_is_durable_before_it_is_named(tmp_path: Path) -> None:
    storage = RecordingStorage()
    written(tmp_path, numbered(1), storage)
    part = f"{NAME}.part"
    assert storage.calls == [
        ("append_to", part),
        *[("append", part)] * 3,
        ("sync", part),
        ("rename", NAME),
        ("sync_directory", METADATA_TOPIC_DIRECTORY),
    ]
    assert [each.name for each in directory_of(tmp_path).iterdir()] == [NAME]


def test_leftovers_of_a_crash_are_replaced(tmp_path: Path) -> None:
    write_file(tmp_path, f"{NAME}.part", b"half of one")
    write_file(tmp_path, f"{checkpoint_name(3, 1)}.part", b"half of another")
    assert read_acls(written(tmp_path, numbered(1))) == numbered(1)
    assert [each.name for each in directory_of(tmp_path).iterdir()] == [NAME]


@pytest.mark.parametrize("what", ["append_to", "append", "sync", "rename"])
def test_crash_before_the_rename_changes_nothing(tmp_path: Path, what: str) -> None:
    write_log(tmp_path, [added(1)], [added(2)])
    with pytest.raises(PowerFailure):
        written(tmp_path, numbered(1, 2, 3), RecordingStorage(what, is_crash=True))
    assert find_files(tmp_path).checkpoints == ()
    assert numbers(tmp_path) == {1, 2}
    write_checkpoint(tmp_path, state(numbered(7), end_offset=4), Storage())
    assert numbers(tmp_path) == {7}


@pytest.mark.parametrize("what", ["append", "sync", "rename"])
def test_failed_checkpoint_is_removed(tmp_path: Path, what: str) -> None:
    """If the disk is full, the log needs the space."""
    with pytest.raises(OSError, match="Input/output error"):
        written(tmp_path, numbered(1), RecordingStorage(what))
    assert list(directory_of(tmp_path).iterdir()) == []


def log_of_checkpoints(log_dir: Path) -> list[str]:
    """Write segments 0, 3, 5, 7 and checkpoints 3, 6, 7. Return their names, sorted."""
    write_log(log_dir, [added(1)])
    write_segment(log_dir, 3, data_batch(3, [added(2)]), data_batch(4, [added(3)]))
    write_segment(log_dir, 5, data_batch(5, [added(4)]), data_batch(6, [added(5)]))
    write_segment(log_dir, 7, data_batch(7, [added(6)]))
    write_checkpoint_file(log_dir, 3, [METADATA_VERSION, added(1)])
    write_checkpoint_file(log_dir, 6, [METADATA_VERSION, *map(added, (1, 2, 3, 4))])
    write_checkpoint_file(log_dir, 7, [METADATA_VERSION, *map(added, (1, 2, 3, 4, 5))])
    return names(log_dir)


def names(log_dir: Path) -> list[str]:
    return sorted(each.name for each in directory_of(log_dir).iterdir())


def retired(log_dir: Path, *, bytes_max: int = NO_BYTES_MAX, oldest_ms: int = 0) -> list[str]:
    before = names(log_dir)
    paths = retire(find_files(log_dir), bytes_max=bytes_max, oldest_ms=oldest_ms, storage=Storage())
    assert set(before) - set(names(log_dir)) == {each.name for each in paths}
    return names(log_dir)


def test_everything_is_kept_without_a_limit(tmp_path: Path) -> None:
    everything = log_of_checkpoints(tmp_path)
    assert retired(tmp_path) == everything


def test_newest_checkpoint_and_later_segments_stay(tmp_path: Path) -> None:
    log_of_checkpoints(tmp_path)
    assert retired(tmp_path, bytes_max=0) == [
        "00000000000000000007-0000000001.checkpoint",
        "00000000000000000007.log",
    ]
    assert numbers(tmp_path) == {1, 2, 3, 4, 5, 6}


def test_only_the_excess_is_removed(tmp_path: Path) -> None:
    """A segment stays if the oldest remaining checkpoint does not cover it."""
    everything = log_of_checkpoints(tmp_path)
    directory = directory_of(tmp_path)
    size = sum((directory / name).stat().st_size for name in everything)
    assert retired(tmp_path, bytes_max=size) == everything
    assert retired(tmp_path, bytes_max=size - 1) == [
        "00000000000000000005.log",
        "00000000000000000006-0000000001.checkpoint",
        "00000000000000000007-0000000001.checkpoint",
        "00000000000000000007.log",
    ]
    assert numbers(tmp_path) == {1, 2, 3, 4, 5, 6}


def test_old_checkpoints_are_removed(tmp_path: Path) -> None:
    """A checkpoint's age is the time since its last write. The newest checkpoint stays."""
    log_of_checkpoints(tmp_path)
    directory = directory_of(tmp_path)
    for end_offset, age_ms in ((3, 1000), (6, 2000), (7, 3000)):
        path = directory / checkpoint_name(end_offset, 1)
        os.utime(path, ns=(0, (TIME_MS + age_ms) * 1_000_000))
    assert checkpoint_name(3, 1) in retired(tmp_path, oldest_ms=TIME_MS + 1000)
    assert checkpoint_name(3, 1) not in retired(tmp_path, oldest_ms=TIME_MS + 1001)
    assert checkpoint_name(6, 1) in names(tmp_path)
    assert retired(tmp_path, oldest_ms=TIME_MS + 10_000) == [
        checkpoint_name(7, 1),
        "00000000000000000007.log",
    ]


def test_nothing_is_removed_without_a_checkpoint(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)])
    write_segment(tmp_path, 3, data_batch(3, [added(2)]))
    everything = names(tmp_path)
    assert retired(tmp_path, bytes_max=0, oldest_ms=TIME_MS * 2) == everything


@pytest.mark.parametrize("skip", range(5))
def test_crash_between_removals_loses_nothing(tmp_path: Path, skip: int) -> None:
    log_of_checkpoints(tmp_path)
    storage = RecordingStorage("remove", skip=skip, is_crash=True)
    with pytest.raises(PowerFailure):
        retire(find_files(tmp_path), bytes_max=0, oldest_ms=0, storage=storage)
    assert numbers(tmp_path) == {1, 2, 3, 4, 5, 6}
    write_checkpoint(tmp_path, state(numbered(1, 9), end_offset=8), Storage())
    assert checkpoint_name(8, 3) in retired(tmp_path, bytes_max=0)
    assert numbers(tmp_path) == {1, 9}


def test_removals_are_durable_and_preceded_by_a_sync(tmp_path: Path) -> None:
    log_of_checkpoints(tmp_path)
    storage = RecordingStorage()
    retire(find_files(tmp_path), bytes_max=0, oldest_ms=0, storage=storage)
    assert [what for what, _ in storage.calls] == [
        "sync_directory", *["remove"] * 5, "sync_directory"
    ]  # fmt: skip


def test_nothing_is_removed_if_the_checkpoints_name_is_not_durable(tmp_path: Path) -> None:
    log_of_checkpoints(tmp_path)
    with pytest.raises(OSError, match="Input/output error"):
        write_checkpoint(
            tmp_path, state(numbered(9), end_offset=8), RecordingStorage("sync_directory")
        )
    storage = RecordingStorage("sync_directory")
    everything = names(tmp_path)
    with pytest.raises(OSError, match="Input/output error"):
        retire(find_files(tmp_path), bytes_max=0, oldest_ms=0, storage=storage)
    assert names(tmp_path) == everything


def test_only_a_checkpoint_of_a_copy_keeps_registrations(tmp_path: Path) -> None:
    """A broker that was only asked has no record. A controller that votes no longer is left out."""
    values = [node(1, 33), node(8, 30, is_controller=True), node(9, 33, is_controller=True)]
    changes = [decode_node(value, 0, len(value)) for value in values]
    image = apply_cluster_changes(CLUSTER, [each for each in changes if each is not None])
    asked = NodeRegistered(False, 2, 33), VotersChanged(frozenset((9,)))
    image = apply_cluster_changes(image, asked)
    for keeps_nodes, kept in ((False, set()), (True, {(False, 1), (True, 9)})):
        directory = tmp_path / str(keeps_nodes)
        directory_of(directory)
        saved = replace(state(numbered(1)), cluster=image, keeps_nodes=keeps_nodes)
        read = read_cluster(write_checkpoint(directory, saved, Storage()))
        assert set(read.nodes) == kept
        assert all(read.nodes[key] == image.nodes[key] for key in kept)
