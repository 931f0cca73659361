"""Write a log directory with a set: as one checkpoint, as Kafka writes them, or as a log.

**Invariant:** a checkpoint's batches have Kafka's size and order. Kafka's snapshot writer fills
each batch up to 8 MiB. The size determines the reader's memory and the event loop's longest
stretch. Kafka writes the ACLs in the order of a hash map, so neighbours in the file have nothing in
common.

Source: KIP-630; Kafka 4.3 RecordsSnapshotWriter, KafkaRaftClient.MAX_BATCH_SIZE_BYTES, AclsImage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeAlias

from authorizerd.acl.model import AclAdded
from authorizerd.image.changes import FeatureLevel
from authorizerd.image.features import METADATA_VERSION_FEATURE
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, checkpoint_name, segment_name
from authorizerd.protocol.records import control
from authorizerd.protocol.records.batch import HEADER_SIZE, encode_batch
from authorizerd.protocol.records.metadata import encode_value

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
METADATA_VERSION: Final = 31
"""The newest one that Kafka 4.3 reads, which starts from the same checkpoints."""
ACLS_PER_REQUEST: Final = 100
"""How many ACLs each batch of a log has: each request to create ACLs writes one."""

_EPOCH: Final = 1
_TIMESTAMP_MS: Final = 1_767_225_600_000
_FRAMING_BYTES_MAX: Final = 11
"""Bytes that a record adds to its value: sizes, deltas, a null key, no headers."""

_Batch: TypeAlias = tuple[list[control.Record], bool]
"""A batch's records, and whether they are control records."""


def write_checkpoint(log_dir: Path, added: Iterable[AclAdded]) -> Path:
    """Write a checkpoint of ``added`` below ``log_dir`` and return its path."""
    part = _empty(log_dir) / "checkpoint.part"
    end_offset = _write(part, _checkpoint_batches(added))
    # The name contains the end offset, which is known only now.
    return part.replace(part.with_name(checkpoint_name(end_offset, _EPOCH)))


def write_log(log_dir: Path, added: Iterable[AclAdded]) -> Path:
    """Write a log of ``added``, in their order, below ``log_dir``; return its segment's path."""
    path = _empty(log_dir) / segment_name(0)
    _write(path, _log_batches(added))
    return path


def _empty(log_dir: Path) -> Path:
    """Return the directory of the log's files, without those of an earlier log."""
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    # An earlier checkpoint may have a higher offset, and would be loaded instead.
    for stale in directory.iterdir():
        stale.unlink()
    return directory


def _write(path: Path, batches: Iterable[_Batch]) -> int:
    """Write the batches; return the offset after them."""
    offset = 0
    with path.open("wb") as file:
        for records, is_control in batches:
            file.write(encode_batch(offset, _EPOCH, _TIMESTAMP_MS, records, is_control=is_control))
            offset += len(records)
    return offset


def _version() -> bytes:
    return encode_value(FeatureLevel(METADATA_VERSION_FEATURE, METADATA_VERSION))


def _log_batches(added: Iterable[AclAdded]) -> Iterator[_Batch]:
    yield [control.leader_change(1)], True
    yield [(None, _version())], False
    rest = iter(added)
    for first in rest:
        request = chain((first,), islice(rest, ACLS_PER_REQUEST - 1))
        yield [(None, encode_value(acl)) for acl in request], False


def _checkpoint_batches(added: Iterable[AclAdded]) -> Iterator[_Batch]:
    yield [control.snapshot_header(_TIMESTAMP_MS)], True
    version = _version()
    records: list[control.Record] = [(None, version)]
    size = HEADER_SIZE + len(version) + _FRAMING_BYTES_MAX
    # The ids look random, so their order is as scattered as a hash map's.
    for acl in sorted(added, key=attrgetter("id")):
        value = encode_value(acl)
        size += len(value) + _FRAMING_BYTES_MAX
        if size > BATCH_BYTES_MAX:
            yield records, False
            records = []
            size = HEADER_SIZE + len(value) + _FRAMING_BYTES_MAX
        records.append((None, value))
    yield records, False
    yield [control.snapshot_footer()], True
