"""A run of several parts: its directory, its extent, and the logs of sets.

A set is written as one checkpoint, as Kafka writes them, or as a log. **Invariant:** a checkpoint's
batches have Kafka's size and order. Kafka's snapshot writer fills each batch up to 8 MiB. The size
determines the reader's memory and the event loop's longest stretch. Kafka writes the ACLs in the
order of a hash map, so neighbours in the file are unrelated.

Source: KIP-630; Kafka 4.3 RecordsSnapshotWriter, KafkaRaftClient.MAX_BATCH_SIZE_BYTES, AclsImage.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeVar

from authorizerd.acl.model import AclAdded
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, checkpoint_name, segment_name
from authorizerd.protocol.records.batch import HEADER_SIZE, ControlType
from authorizerd.protocol.records.metadata import MetadataRecord, encode_value
from tests.support.log_files import EPOCH, METADATA_VERSION, control_batch, data_batch
from tools.bench.sets import AclSet

T = TypeVar("T")

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
ACLS_PER_REQUEST: Final = 100
"""The number of ACLs in each batch of a log: each createAcls request writes one batch."""
_FRAMING_BYTES_MAX: Final = 11
"""Bytes that a record adds to its value: sizes, deltas, a null key, no headers."""


@dataclass
class Run:
    """One run; files are below ``directory``."""

    directory: Path
    is_quick: bool = False
    _written: set[str] = field(default_factory=set, init=False)

    def pick(self, full: T, quick: T) -> T:
        """Return the extent of this run."""
        return quick if self.is_quick else full

    def new_place(self, name: str) -> Path:
        """Return an empty directory for the files of a part."""
        place = self.directory / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place

    def log_of(self, acl_set: AclSet) -> Path:
        """Return a log directory with a checkpoint of the set. Only one daemon may use it."""
        log_dir = self.directory / "sets" / acl_set.name
        if acl_set.name not in self._written:
            write_checkpoint(log_dir, acl_set.added())
            self._written.add(acl_set.name)
        return log_dir

    def copy_log(self, acl_set: AclSet, directory: Path) -> Path:
        """Return a copy of that log, for another daemon."""
        shutil.rmtree(directory / "log", ignore_errors=True)
        return Path(shutil.copytree(self.log_of(acl_set), directory / "log"))


def write_checkpoint(log_dir: Path, added: Iterable[AclAdded]) -> Path:
    """Write a checkpoint of ``added`` below ``log_dir`` and return its path."""
    part, offset = _empty(log_dir) / "checkpoint.part", 1
    with part.open("wb") as file:
        file.write(control_batch(0, ControlType.SNAPSHOT_HEADER))
        for values in _full_batches(added):
            file.write(data_batch(offset, values))
            offset += len(values)
        file.write(control_batch(offset, ControlType.SNAPSHOT_FOOTER))
    # The name contains the end offset, which is known only now.
    return part.replace(part.with_name(checkpoint_name(offset + 1, EPOCH)))


def write_log(log_dir: Path, added: Iterable[AclAdded]) -> Path:
    """Write a log of ``added``, in their order, below ``log_dir``; return its segment's path."""
    path, rest, offset = _empty(log_dir) / segment_name(0), iter(added), 2
    with path.open("wb") as file:
        file.write(control_batch(0, ControlType.LEADER_CHANGE) + data_batch(1, [METADATA_VERSION]))
        while request := [*islice(rest, ACLS_PER_REQUEST)]:
            file.write(data_batch(offset, request))
            offset += len(request)
    return path


def _empty(log_dir: Path) -> Path:
    """Return the directory of the log's files, without those of an earlier log."""
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    # An earlier checkpoint may have a higher offset, and would be loaded instead.
    for stale in directory.iterdir():
        stale.unlink()
    return directory


def _full_batches(added: Iterable[AclAdded]) -> Iterator[list[bytes]]:
    values, size = list[bytes](), HEADER_SIZE
    # The ids look random, so their order is as scattered as a hash map's.
    by_id: list[MetadataRecord] = sorted(added, key=attrgetter("id"))
    for value in map(encode_value, [METADATA_VERSION, *by_id]):
        size += len(value) + _FRAMING_BYTES_MAX
        if size > BATCH_BYTES_MAX:
            yield values
            values, size = [], HEADER_SIZE + len(value) + _FRAMING_BYTES_MAX
        values.append(value)
    yield values
