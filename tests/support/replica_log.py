"""The metadata log of one controller, as a model: append, truncate, and what a follower lacks.

Source: Kafka 4.3 KafkaRaftLog.validateOffsetAndEpoch, endOffsetForEpoch; LeaderEpochFileCache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from authorizerd.acl.model import Acl, AclAdded, AclRemoved
from authorizerd.image.changes import CredentialAdded, CredentialRemoved
from authorizerd.protocol.kafka.fetch import FetchPosition
from authorizerd.protocol.kafka.quorum_messages import EpochEnd, SnapshotId
from authorizerd.protocol.records.batch import RecordBatch, decode_batch, encode_batch
from authorizerd.protocol.records.control import Record, leader_change
from authorizerd.protocol.records.metadata import MetadataRecord, encode_value
from tests.support.log_files import METADATA_VERSION, TIME_MS, checkpoint_batches

AnyRecord = MetadataRecord | bytes
"""A record, or the bytes of one that nobody knows."""


class Entry(NamedTuple):
    """A batch, and the records in it; none if it is a control batch."""

    batch: RecordBatch
    records: tuple[AnyRecord, ...] = ()


class ReplicaLog:
    """All batches ever appended. The first ones may be served as a snapshot only.

    Attributes:
        snapshots: the bytes of each snapshot that can be fetched.
        controls: control records in the header's batch of snapshots that are taken.
        start_offset: where the log begins that can be fetched.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.snapshots: dict[SnapshotId, bytes] = {}
        self.controls: list[Record] = []
        self.start_offset = 0

    @property
    def end_offset(self) -> int:
        return self.entries[-1].batch.last_offset + 1 if self.entries else 0

    @property
    def last_epoch(self) -> int:
        return self.entries[-1].batch.leader_epoch if self.entries else 0

    def begin_epoch(self, epoch: int, leader_id: int) -> None:
        self._append(epoch, [leader_change(leader_id)], is_control=True)

    def append(self, epoch: int, records: Sequence[AnyRecord]) -> int:
        """Append one batch; return its last offset."""
        values = [each if isinstance(each, bytes) else encode_value(each) for each in records]
        self._append(epoch, [(None, value) for value in values], records)
        return self.end_offset - 1

    def _append(
        self,
        epoch: int,
        encoded: Sequence[Record],
        records: Sequence[AnyRecord] = (),
        *,
        is_control: bool = False,
    ) -> None:
        data = encode_batch(self.end_offset, epoch, TIME_MS, encoded, is_control=is_control)
        self.entries.append(Entry(decode_batch(data), tuple(records)))

    def truncate(self, end_offset: int) -> None:
        """Remove the batches that end at ``end_offset`` or later, and the snapshots after it."""
        assert self.start_offset <= end_offset, "the log has no such end"
        self.entries = [each for each in self.entries if each.batch.last_offset < end_offset]
        self.snapshots = {
            key: data for key, data in self.snapshots.items() if key.end_offset <= end_offset
        }

    def follow(self, leader: ReplicaLog) -> None:
        """Become equal to the leader's log."""
        self.entries, self.snapshots = list(leader.entries), dict(leader.snapshots)
        self.start_offset = leader.start_offset

    def take_snapshot(self, end_offset: int, *, keeps_log: bool) -> SnapshotId:
        """Make a snapshot up to the end of a batch; unless ``keeps_log``, serve it alone."""
        [epoch] = [
            each.batch.leader_epoch
            for each in self.entries
            if each.batch.last_offset == end_offset - 1
        ]
        added = [AclAdded(key, acl) for key, acl in self.acls(end_offset).items()]
        users = self._credentials(end_offset)
        taken = SnapshotId(end_offset, epoch)
        batches = checkpoint_batches(
            [METADATA_VERSION, *users, *added], epoch=epoch, controls=self.controls
        )
        if not keeps_log:
            self.snapshots.clear()
            self.start_offset = end_offset
        self.snapshots[taken] = b"".join(batches)
        return taken

    def acls(self, end_offset: int | None = None) -> dict[bytes, Acl]:
        """Return the ACLs by id, those of all records below ``end_offset``."""
        end = self.end_offset if end_offset is None else end_offset
        acls: dict[bytes, Acl] = {}
        for record in self._records(end):
            if isinstance(record, AclAdded):
                acls[record.id] = record.acl
            elif isinstance(record, AclRemoved):
                acls.pop(record.id, None)
        return acls

    def _credentials(self, end_offset: int) -> list[CredentialAdded]:
        """Return the SCRAM credentials of all records below ``end_offset``."""
        credentials: dict[tuple[str, int], CredentialAdded] = {}
        for record in self._records(end_offset):
            if isinstance(record, CredentialAdded):
                credentials[record.user, record.mechanism] = record
            elif isinstance(record, CredentialRemoved):
                credentials.pop((record.user, record.mechanism), None)
        return list(credentials.values())

    def _records(self, end_offset: int) -> Iterator[AnyRecord]:
        for entry in self.entries:
            if entry.batch.last_offset < end_offset:
                yield from entry.records

    def read(self, offset: int, bytes_max: int) -> bytes:
        """Return the batches from ``offset`` on: at least one, the last one possibly cut off."""
        found = [each.batch.data for each in self.entries if each.batch.last_offset >= offset]
        if not found:
            return b""
        return b"".join(found)[: max(bytes_max, len(found[0]))]

    def compare(self, position: FetchPosition) -> EpochEnd | SnapshotId | None:
        """Return where a follower's log diverges, or which snapshot it needs; None if neither."""
        newest = max(self.snapshots, key=lambda each: each.end_offset, default=None)
        # At offset 0, Kafka 4.3 prefers a snapshot to its log.
        if newest is not None and (position.offset == 0 or self._lacks(position)):
            return newest
        if position.offset == 0:
            return None
        end = self._end_of_epoch(position.last_epoch)
        is_valid = end.epoch == position.last_epoch and end.end_offset >= position.offset
        return None if is_valid else end

    def _lacks(self, position: FetchPosition) -> bool:
        """Return True if the log begins later, or every snapshot is of a later epoch."""
        earliest = min(self.snapshots, key=lambda each: each.end_offset)
        return (
            position.offset < self.start_offset
            or (position.offset == self.start_offset and position.last_epoch != earliest.epoch)
            or position.last_epoch < earliest.epoch
        )

    def _end_of_epoch(self, epoch: int) -> EpochEnd:
        if epoch > self.last_epoch:
            return EpochEnd(self.last_epoch, self.end_offset)
        upto = [each.batch for each in self.entries if each.batch.leader_epoch <= epoch]
        if not upto:
            return EpochEnd(epoch, 0)
        return EpochEnd(upto[-1].leader_epoch, upto[-1].last_offset + 1)
