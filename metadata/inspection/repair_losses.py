"""Describe what a repair removes from a log: offsets, records, and ACLs by their text.

The lost region is read as far as possible, batch by batch, past the damage.

**Invariant:** every batch found in a damaged file is complete by its length and its CRC. The
inspection decides whether it is in the right place. The losses affect only the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from authorizerd.acl.model import Acl, AclAdded, AclRemoved
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.metadata.storage import Storage
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import LENGTH_SIZE, RecordBatch, batch_size, decode_batch
from authorizerd.protocol.records.fast_reader import Texts, read_records

ACLS_REPORTED_MAX: Final = 100
WINDOW_SIZE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LostRegion:
    """The bytes that a repair removes from a segment: everything from ``position`` on.

    Offsets below ``from_offset`` are in a checkpoint, and so are not lost.
    """

    path: Path
    position: int
    from_offset: int = 0


@dataclass(slots=True)
class Losses:
    """The state that is lost.

    ``removed`` and ``returned`` are the ACLs, by id, that the repaired log lacks or has again.
    """

    first_offset: int
    last_offset: int = -1
    records: int = 0
    unreadable_bytes: int = 0
    removed: dict[bytes, Acl] = field(default_factory=dict)
    returned: dict[bytes, Acl] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        if not (self.records or self.unreadable_bytes):
            yield "nothing is lost: the remaining files contain every readable record"
            return
        if self.records:
            yield (
                f"lost: offsets {self.first_offset} to {self.last_offset} "
                f"(readable records: {self.records})"
            )
        if self.unreadable_bytes:
            yield (
                f"lost: {self.unreadable_bytes} unreadable bytes from offset {self.first_offset} "
                "on; which ACLs they created or removed is unknown"
            )
        yield from _report("would be gone", self.removed.values())
        yield from _report("would come back", self.returned.values())


def _report(what: str, acls: Iterable[Acl]) -> Iterator[str]:
    every = list(acls)
    yield from (f"{what}: {acl}" for acl in islice(every, ACLS_REPORTED_MAX))
    if len(every) > ACLS_REPORTED_MAX:
        yield f"{what}: {len(every) - ACLS_REPORTED_MAX} more ACLs"


def find_losses(
    regions: Iterable[LostRegion], kept: AclSnapshot, end_offset: int, storage: Storage
) -> Losses:
    """Return what is lost with ``regions``. ``kept`` is the state left below ``end_offset``.

    Raises:
        OSError: a file cannot be read.
    """
    losses = Losses(end_offset)
    texts = Texts()
    for region in regions:
        for batch in scan_batches(region.path, region.position, storage):
            if isinstance(batch, int):
                losses.unreadable_bytes += batch
            elif batch.last_offset >= region.from_offset:
                losses.records += batch.count
                losses.last_offset = max(losses.last_offset, batch.last_offset)
                _add_changes(batch, losses, kept, texts)
    return losses


def _add_changes(batch: RecordBatch, losses: Losses, kept: AclSnapshot, texts: Texts) -> None:
    if batch.is_control:
        return
    try:
        for records in read_records(batch, texts):
            for record in records:
                match record:
                    case AclAdded(acl_id, acl) if kept.acls.get(acl_id) != acl:
                        losses.removed[acl_id] = acl
                    case AclAdded(acl_id):
                        losses.returned.pop(acl_id, None)
                    case AclRemoved(acl_id):
                        losses.removed.pop(acl_id, None)
                        if acl_id in kept.acls:
                            losses.returned[acl_id] = kept.acls[acl_id]
    except DecodeError:
        losses.unreadable_bytes += len(batch.data)


def scan_batches(path: Path, start: int, storage: Storage) -> Iterator[RecordBatch | int]:
    """Yield the batches from ``start`` on, and the number of bytes of each unreadable range.

    Raises:
        OSError: the file cannot be read.
    """
    size, position = storage.size(path), start
    with closing(storage.open(path)) as file:
        while position < size:
            length = _announced(file, position)
            if not 0 < length <= size - position:
                yield size - position
                return
            file.seek(position)
            data = file.read(length)
            try:
                yield decode_batch(data)
            except DecodeError:
                yield length
            position += length


def _announced(file: BinaryIO, position: int) -> int:
    """Return the size that the batch at ``position`` announces, or 0 if the size is impossible."""
    file.seek(position)
    start = file.read(LENGTH_SIZE)
    if len(start) < LENGTH_SIZE:
        return 0
    try:
        return batch_size(start)
    except DecodeError:
        return 0


def find_batch(storage: Storage, path: Path, start: int, base_offset: int) -> int | None:
    """Return the first position from ``start`` where a whole batch of ``base_offset`` begins, or
    None.

    Raises:
        OSError: the file cannot be read.
    """
    needle = base_offset.to_bytes(8, "big")
    size = storage.size(path)
    position = start
    with closing(storage.open(path)) as file:
        while size - position >= LENGTH_SIZE:
            file.seek(position)
            window = file.read(WINDOW_SIZE)
            at = window.find(needle)
            if at < 0:
                # Windows overlap, since the offset may lie across the end of one.
                position += max(len(window) - len(needle) + 1, 1)
            elif _is_batch(file, position + at, size):
                return position + at
            else:
                position += at + 1
    return None


def _is_batch(file: BinaryIO, position: int, size: int) -> bool:
    length = _announced(file, position)
    if not 0 < length <= size - position:
        return False
    file.seek(position)
    try:
        decode_batch(file.read(length))
    except DecodeError:
        return False
    return True
