"""Describe what a repair removes from a log: offsets, records, and ACLs by their text.

The lost region is read as far as possible, batch by batch, past the damage. Only the report depends
on the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from authorizerd.acl.model import Acl, AclAdded, AclRemoved
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.metadata.salvage import scan_batches
from authorizerd.metadata.storage import Storage
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import RecordBatch
from authorizerd.protocol.records.fast_reader import Texts, read_records

ACLS_TOLD_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class LostRegion:
    """The bytes of a segment that a repair removes: all from ``position`` on.

    Offsets below ``from_offset`` are in a checkpoint, and so are not lost.
    """

    path: Path
    position: int
    from_offset: int = 0


@dataclass(slots=True)
class Losses:
    """The state that is lost.

    ``gone`` and ``back`` are ACLs whose creation, or removal, is lost, by id.
    """

    first_offset: int
    last_offset: int = -1
    records: int = 0
    unreadable_bytes: int = 0
    gone: dict[bytes, Acl] = field(default_factory=dict)
    back: dict[bytes, Acl] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        if not (self.records or self.unreadable_bytes):
            yield "nothing is lost: what is left holds every record that could be read"
            return
        if self.records:
            yield (
                f"lost: offsets {self.first_offset} to {self.last_offset}, of which "
                f"{self.records} records can still be read"
            )
        if self.unreadable_bytes:
            yield (
                f"lost: {self.unreadable_bytes} bytes from offset {self.first_offset} on that "
                "cannot be read; which ACLs they made or removed is not known"
            )
        yield from _told("would be gone", self.gone.values())
        yield from _told("would come back", self.back.values())


def _told(what: str, acls: Iterable[Acl]) -> Iterator[str]:
    every = list(acls)
    yield from (f"{what}: {acl}" for acl in islice(every, ACLS_TOLD_MAX))
    if len(every) > ACLS_TOLD_MAX:
        yield f"{what}: {len(every) - ACLS_TOLD_MAX} more ACLs"


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
                        losses.gone[acl_id] = acl
                    case AclAdded(acl_id):
                        losses.back.pop(acl_id, None)
                    case AclRemoved(acl_id):
                        losses.gone.pop(acl_id, None)
                        if acl_id in kept.acls:
                            losses.back[acl_id] = kept.acls[acl_id]
    except DecodeError:
        losses.unreadable_bytes += len(batch.data)
