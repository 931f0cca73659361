"""Write checkpoints, and remove the files that they make superfluous.

**Invariant:** a checkpoint gets its name only after it is complete and durable. A segment is
removed only when a checkpoint at or above the log's new start is durable, so no state is ever lost.

Source: KIP-630; Kafka 4.3 RecordsSnapshotWriter, KafkaRaftLog.maybeClean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.model import Acl, AclAdded
from authorizerd.image.changes import (
    ConfigChanged,
    CredentialAdded,
    FeatureLevel,
    NodeRegistered,
    PartitionAdded,
    TopicAdded,
)
from authorizerd.image.cluster import ClusterImage
from authorizerd.image.features import METADATA_VERSION_FEATURE
from authorizerd.metadata.directory import (
    METADATA_TOPIC_DIRECTORY,
    LogFiles,
    checkpoint_name,
    sort_files,
)
from authorizerd.metadata.storage import Storage
from authorizerd.protocol.records.batch import BatchMark, encode_batch
from authorizerd.protocol.records.control import Record, snapshot_footer, snapshot_header
from authorizerd.protocol.records.metadata import MetadataRecord, encode_value

PART_SUFFIX: Final = ".part"
RECORDS_PER_BATCH: Final = 1024


class CheckpointState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a checkpoint contains: the state below ``end_offset``, which is exclusive.

    ``epoch`` is the epoch of the last record, ``timestamp_ms`` its time or a later one.
    ``keeps_nodes`` is True for the copy of a followed log, which must know the cluster's releases.
    In another log, registrations without the changes that follow them would mislead a Kafka node.
    ``last_batch`` identifies the batch that ends there, for the copy of a followed log. If it ends
    elsewhere, readers ignore it.
    """

    end_offset: int
    epoch: int
    timestamp_ms: int
    cluster: ClusterImage
    acls: Mapping[bytes, Acl]
    keeps_nodes: bool = False
    last_batch: BatchMark | None = None


def write_checkpoint(
    log_dir: Path,
    state: CheckpointState,
    storage: Storage,
    rest: Callable[[], None] = lambda: None,
    like: Path | None = None,
) -> Path:
    """Write a checkpoint and return its path. Blocks, for a long time if there are many ACLs.

    Args:
        rest: called after each batch.
        like: a file whose owner, group and permissions the checkpoint gets, if it exists.

    Raises:
        OSError: the checkpoint could not be written. A partial file is ignored.
    """
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    path = directory / checkpoint_name(state.end_offset, state.epoch)
    part = part_of(path)
    # A crash may have left unfinished checkpoints. Only one is written at a time.
    for name in storage.names(directory):
        if name.endswith(f".checkpoint{PART_SUFFIX}"):
            storage.remove(directory / name)
    with removed_on_error(part, storage):
        write_part(part, state, storage, rest, like)
        storage.rename(part, path)
    storage.sync_directory(directory)
    return path


def part_of(path: Path) -> Path:
    """Return the temporary name of a file that is not yet complete and durable."""
    return path.with_name(path.name + PART_SUFFIX)


def write_part(
    part: Path,
    state: CheckpointState,
    storage: Storage,
    rest: Callable[[], None] = lambda: None,
    like: Path | None = None,
) -> None:
    """Write a checkpoint durably under the name ``part``. The caller renames it. Blocks.

    Args:
        rest: called after each batch.
        like: a file whose owner, group and permissions it gets, if it exists.

    Raises:
        OSError: the checkpoint could not be written. A partial file is left.
    """
    with closing(storage.append_to(part, like)) as file:
        for batch in encode_checkpoint(state):
            file.append([batch])
            rest()
        file.sync()


@contextmanager
def removed_on_error(part: Path, storage: Storage) -> Iterator[None]:
    """Remove ``part`` if the block fails or is interrupted: on a full disk, the log needs the
    space."""
    try:
        yield
    except (OSError, KeyboardInterrupt):
        with suppress(OSError):
            storage.remove(part)
        raise


def encode_checkpoint(
    state: CheckpointState, new_facts: Callable[[], bytes | None] = lambda: None
) -> Iterator[bytes]:
    """Yield the batches. Offsets count from 0, and every batch carries the state's epoch.

    Args:
        new_facts: returns the facts for the footer. It is called once all other batches are used.
    """
    offset = 0

    def batch(records: list[Record], *, is_control: bool = False) -> bytes:
        nonlocal offset
        encoded = encode_batch(
            offset, state.epoch, state.timestamp_ms, records, is_control=is_control
        )
        offset += len(records)
        return encoded

    header = snapshot_header(
        state.timestamp_ms, end_offset=state.end_offset, last_batch=state.last_batch
    )
    yield batch([header], is_control=True)
    records = _records(state)
    while some := list(islice(records, RECORDS_PER_BATCH)):
        yield batch([(None, encode_value(record)) for record in some])
    yield batch([snapshot_footer(new_facts())], is_control=True)


def _records(state: CheckpointState) -> Iterator[MetadataRecord]:
    """Yield the records that build the state from nothing, metadata.version first.

    Kafka's reader must know metadata.version before it can read the rest.
    """
    cluster = state.cluster
    for name in sorted(cluster.features, key=lambda name: (name != METADATA_VERSION_FEATURE, name)):
        yield FeatureLevel(name, cluster.features[name])
    for topic in cluster.topics.values():
        yield TopicAdded(topic.name, topic.id)
        for number in topic.numbers():
            yield PartitionAdded(topic.id, number, topic.partitions[number])
    for (resource_type, resource_name), values in cluster.configs.items():
        for key, value in values.items():
            yield ConfigChanged(resource_type, resource_name, key, value)
    for (user, mechanism), credential in cluster.credentials.items():
        yield CredentialAdded(user, mechanism, credential)
    for node in cluster.nodes.values() if state.keeps_nodes else ():
        if node.value and not _was_removed(node, cluster):
            yield node
    for acl_id, acl in state.acls.items():
        yield AclAdded(acl_id, acl)


def _was_removed(node: NodeRegistered, cluster: ClusterImage) -> bool:
    """Return True for a controller that no longer votes: a checkpoint does not name the voters."""
    return node.is_controller and cluster.voters is not None and node.id not in cluster.voters


def retire(files: LogFiles, *, bytes_max: int, oldest_ms: int, storage: Storage) -> list[Path]:
    """Remove what exceeds the retention limits. Return the removed paths.

    Args:
        files: the files of the directory. The newest checkpoint must be complete.
        bytes_max: the size above which the oldest checkpoints are removed.
        oldest_ms: checkpoints last written before this time (milliseconds since 1970) are removed.

    The newest checkpoint stays, and so does every segment with records that it does not cover. The
    checkpoint's name is made durable before anything is removed, in case its writer did not do so.

    Raises:
        OSError: a file could not be removed.
    """
    checkpoints, segments = list(files.checkpoints), list(files.segments)
    paths = [
        *(segment.path for segment in segments),
        *(checkpoint.path for checkpoint in checkpoints),
    ]
    sizes = {path: storage.size(path) for path in paths}
    removed: list[Path] = []
    while len(checkpoints) > 1 and (
        sum(sizes[path] for path in sizes.keys() - removed) > bytes_max
        or storage.modified_ms(checkpoints[0].path) < oldest_ms
    ):
        removed.append(checkpoints.pop(0).path)
        while len(segments) > 1 and segments[1].base_offset <= checkpoints[0].end_offset:
            removed.append(segments.pop(0).path)
    _remove(removed, storage)
    return removed


def remove_superseded(directory: Path, end_offset: int, storage: Storage, *, has_log: bool) -> None:
    """Remove the files that a copy's checkpoint, which ends at ``end_offset``, has replaced.

    The cluster has everything, so no file is kept for the past or in case of a damaged checkpoint.

    Args:
        has_log: False if even the last segment ends before the checkpoint.

    Raises:
        OSError: a file could not be removed.
    """
    files = sort_files(directory / name for name in storage.names(directory))
    below = [segment.path for segment in files.segments if segment.base_offset <= end_offset]
    older = [
        checkpoint.path for checkpoint in files.checkpoints if checkpoint.end_offset < end_offset
    ]
    _remove([*older, *(below[:-1] if has_log else below)], storage)


def _remove(paths: Sequence[Path], storage: Storage) -> None:
    if paths:
        directory = paths[0].parent
        storage.sync_directory(directory)
        for path in paths:
            storage.remove(path)
        storage.sync_directory(directory)
