"""Write a log directory with one checkpoint of a set, as Kafka writes its checkpoints.

**Invariant:** the batches have Kafka's size and order. Kafka's snapshot writer fills each batch up
to 8 MiB. The size determines the reader's memory and the event loop's longest stretch. Kafka writes
the ACLs in the order of a hash map, so neighbours in the file have nothing in common.

Source: KIP-630; Kafka 4.3 RecordsSnapshotWriter, KafkaRaftClient.MAX_BATCH_SIZE_BYTES, AclsImage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Final

from authorizerd.acl.model import AclAdded
from authorizerd.image.changes import FeatureLevel
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, checkpoint_name
from authorizerd.protocol.records.batch import HEADER_SIZE, ControlType, control_key, encode_batch
from authorizerd.protocol.records.metadata import (
    METADATA_VERSION_FEATURE,
    METADATA_VERSION_KNOWN,
    encode_value,
)

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024

_EPOCH: Final = 1
_TIMESTAMP_MS: Final = 1_767_225_600_000
_HEADER_VALUE: Final = bytes(2) + _TIMESTAMP_MS.to_bytes(8, "big") + bytes(1)
_FOOTER_VALUE: Final = bytes(3)
_FRAMING_BYTES_MAX: Final = 11
"""Bytes that a record adds to its value: sizes, deltas, a null key, no headers."""


def write_checkpoint(log_dir: Path, added: Iterable[AclAdded]) -> Path:
    """Write a checkpoint of ``added`` below ``log_dir`` and return its path."""
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    # An earlier checkpoint may have a higher offset, and would be loaded instead.
    for stale in directory.iterdir():
        stale.unlink()
    part = directory / "checkpoint.part"
    offset = 0
    with part.open("wb") as file:
        for records, is_control in _batches(added):
            file.write(encode_batch(offset, _EPOCH, _TIMESTAMP_MS, records, is_control=is_control))
            offset += len(records)
    # The name contains the end offset, which is known only now.
    return part.replace(directory / checkpoint_name(offset, _EPOCH))


def _batches(
    added: Iterable[AclAdded],
) -> Iterator[tuple[list[tuple[bytes | None, bytes]], bool]]:
    yield [(control_key(ControlType.SNAPSHOT_HEADER), _HEADER_VALUE)], True
    version = encode_value(FeatureLevel(METADATA_VERSION_FEATURE, METADATA_VERSION_KNOWN))
    records: list[tuple[bytes | None, bytes]] = [(None, version)]
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
    yield [(control_key(ControlType.SNAPSHOT_FOOTER), _FOOTER_VALUE)], True
