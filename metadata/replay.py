"""Turn batches into visible changes: decode records, and frame metadata transactions.

**Invariant:** records between Begin and End become visible together, when the batch with End is
complete. Records of a transaction that ends in Abort, or is still open at the end of the log, never
become visible.

Source: KIP-868; Kafka 4.3 MetadataBatchLoader.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

from crc32c import crc32c

from authorizerd.acl.model import Acl, AclAdded, AclRemoved, Change, ChangeBatch
from authorizerd.image.changes import (
    ClusterChange,
    ConfigChanged,
    CredentialAdded,
    FeatureLevel,
    NodeRegistered,
    Partition,
    PartitionAdded,
    ScramCredential,
    TopicAdded,
    VotersChanged,
)
from authorizerd.image.features import METADATA_VERSION_FEATURE, METADATA_VERSION_KNOWN
from authorizerd.metadata.checkpoint import corrupt
from authorizerd.metadata.errors import CorruptLogError
from authorizerd.metadata.log import LogBatch, MetadataLog
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import HEADER_SIZE, RecordBatch
from authorizerd.protocol.records.fast_reader import RECORDS_PER_SLICE, Texts, read_records
from authorizerd.protocol.records.foreign import ForeignType
from authorizerd.protocol.records.metadata import (
    NO_OP_TYPE,
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    MetadataRecord,
)
from authorizerd.protocol.records.voters import decode_voters

VisibleRecord = Change | ClusterChange

_Slice = tuple[tuple[Change, ...], tuple[ClusterChange, ...]]
_NOTHING: Final[_Slice] = ((), ())
_ONLY_ACLS: Final[set[type]] = {AclAdded}
_EXPENDABLE_TYPES: Final = frozenset(
    (NO_OP_TYPE, ForeignType.REGISTER_CONTROLLER, ForeignType.UNREGISTER_CONTROLLER)
)
"""Record types that may be lost at a restart: a controller registers again at each start."""
_ADDITIONS: Final = (
    AclAdded,
    FeatureLevel,
    TopicAdded,
    PartitionAdded,
    ConfigChanged,
    CredentialAdded,
    NodeRegistered,
)
"""The types of records that a checkpoint may contain."""

KEPT_RECORDS: Final = "{}-{:08x}".format(
    METADATA_VERSION_KNOWN,
    crc32c(
        repr(
            [
                (each.__name__, each.__struct_fields__)
                for each in (*_ADDITIONS, Acl, Partition, ScramCredential)
            ]
        ).encode()
    ),
)
"""The record types in this version's checkpoints, as a text that changes when types are added."""


class TransactionFrame:
    """Hold back records until they become visible."""

    def __init__(self) -> None:
        self._open: list[VisibleRecord] | None = None
        self._visible: list[VisibleRecord] = []

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def feed(self, records: list[MetadataRecord]) -> None:
        """Add records in log order.

        Raises:
            DecodeError: a transaction begins within another, or ends without a beginning.
        """
        for record in records:
            match record:
                # Almost all records are ACLs, so match them first, not by `case _`.
                case AclAdded() | AclRemoved():
                    (self._visible if self._open is None else self._open).append(record)
                case BeginTransaction():
                    if self._open is not None:
                        raise DecodeError("a transaction begins within another", HEADER_SIZE)
                    self._open = []
                case EndTransaction():
                    self._visible += self._close("ends")
                case AbortTransaction():
                    self._close("is aborted")
                case _:
                    (self._visible if self._open is None else self._open).append(record)

    def _close(self, what: str) -> list[VisibleRecord]:
        held = self._open
        if held is None:
            raise DecodeError(f"a transaction {what} that never began", HEADER_SIZE)
        self._open = None
        return held

    def take(self) -> list[VisibleRecord]:
        """Return the records that became visible since the last call."""
        visible, self._visible = self._visible, []
        return visible


class Replay:
    """Turn log batches, in order, into batches of changes.

    It also keeps the features, since the log's writer needs them before they become visible.
    """

    def __init__(self) -> None:
        self._texts: Final = Texts()
        self._frame: Final = TransactionFrame()
        self.features: Final[dict[str, int]] = {}
        self._skipped_types: Final[set[int]] = set()

    @property
    def is_transaction_open(self) -> bool:
        """True if a transaction has begun and not ended."""
        return self._frame.is_open

    @property
    def foreign_types(self) -> frozenset[int]:
        """The types of records read so far whose contents the daemon does not keep.

        A known type is included if a record had an unknown version of it.
        """
        return frozenset(self._skipped_types - _EXPENDABLE_TYPES)

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version, or -1 if the log has none."""
        return self.features.get(METADATA_VERSION_FEATURE, -1)

    def steps(self, log_batch: LogBatch) -> Iterator[ChangeBatch | None]:
        """Yield the visible changes of the batch in parts, and None after a step without one.

        Parts are needed because a checkpoint's batch has about 100,000 ACLs: building, passing on
        or freeing them at once would block the thread.

        Raises:
            CorruptLogError: a record cannot be read, or is not allowed in its place. No part of
                the batch then has ``is_end``.
        """
        # Hold one part back: only the last has `is_end`, and only the end of the loop shows which
        # part is the last.
        held = _NOTHING
        for part in self._read_visible(log_batch):
            if part is _NOTHING:
                yield None
                continue
            yield None if held is _NOTHING else _batch(log_batch, held, is_end=False)
            held = part
        yield _batch(log_batch, held, is_end=True)

    def _read_visible(self, log_batch: LogBatch) -> Iterator[_Slice]:
        """Yield the visible changes, at most one slice at a time. Keep the features."""
        batch = log_batch.placed.batch
        if batch.is_control:
            yield _read_control(batch)
            return
        try:
            for records in read_records(batch, self._texts, self._skipped_types):
                # Nearly all slices have additions of ACLs only. Examining these records one by one
                # would take a third of the time of reading them.
                if set(map(type, records)) == _ONLY_ACLS and not self._frame.is_open:
                    yield cast(tuple[AclAdded, ...], tuple(records)), ()
                    continue
                self._check_checkpoint(log_batch, records)
                self._frame.feed(records)
                visible = self._frame.take()
                # Yield once even if nothing became visible, so that other work can run.
                for start in range(0, len(visible) or 1, RECORDS_PER_SLICE):
                    yield self._sort_changes(visible[start : start + RECORDS_PER_SLICE])
        except DecodeError as error:
            raise corrupt_record(log_batch, error) from error

    def _sort_changes(self, visible: list[VisibleRecord]) -> _Slice:
        """Return the changes of ACLs and all other changes, each in order."""
        if not visible:
            return _NOTHING
        changes: list[Change] = []
        cluster_changes: list[ClusterChange] = []
        for record in visible:
            match record:
                case AclAdded() | AclRemoved():
                    changes.append(record)
                case FeatureLevel():
                    self._keep(record)
                    cluster_changes.append(record)
                case _:
                    cluster_changes.append(record)
        return tuple(changes), tuple(cluster_changes)

    def _keep(self, feature: FeatureLevel) -> None:
        if feature.level:
            self.features[feature.name] = feature.level
        else:
            self.features.pop(feature.name, None)

    @staticmethod
    def _check_checkpoint(log_batch: LogBatch, records: list[MetadataRecord]) -> None:
        if log_batch.is_checkpoint:
            for record in records:
                if not isinstance(record, _ADDITIONS) or _removes(record):
                    raise DecodeError(
                        f"{type(record).__name__} in a checkpoint, which contains only what exists",
                        HEADER_SIZE,
                    )


def _read_control(batch: RecordBatch) -> _Slice:
    """Return the voters that a control batch names."""
    try:
        voters = decode_voters(batch)
    except DecodeError:
        return (), (VotersChanged(None),)
    return _NOTHING if voters is None else ((), (VotersChanged(frozenset(voters)),))


def _removes(record: MetadataRecord) -> bool:
    return isinstance(record, ConfigChanged) and record.value is None


def _batch(log_batch: LogBatch, part: _Slice, *, is_end: bool) -> ChangeBatch:
    changes, cluster_changes = part
    return ChangeBatch(log_batch.last_offset, changes, is_end, cluster_changes)


def corrupt_record(log_batch: LogBatch, error: DecodeError) -> CorruptLogError:
    """Return the error that locates a record's fault in the log."""
    placed = log_batch.placed
    return corrupt(placed, placed.batch.base_offset, error.reason, position=error.position)


def read_changes(path: Path) -> Iterator[ChangeBatch]:
    """Yield the changes of a log directory or a checkpoint file, long batches in parts. Blocks.

    Raises:
        MetadataLogError: as ``MetadataLog.open`` and ``MetadataLog.batches``.
    """
    replay = Replay()
    for log_batch in MetadataLog.open(path).batches():
        for step in replay.steps(log_batch):
            if step is not None:
                yield step
