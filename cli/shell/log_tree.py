"""The tree of a metadata log, with all records, even those that the daemon does not keep.

**Invariant:** records become visible as in the daemon: the records of a transaction together, at
its end. The types of records that this version cannot read are in ``unread``.

Source: Kafka 4.3 MetadataBatchLoader, ClusterDelta, ClientQuotasDelta, DelegationTokenDelta.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, assert_never

import msgspec
from msgspec.structs import replace

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.model import Acl, AclAdded, AclRemoved
from authorizerd.cli.shell import folders, java_text
from authorizerd.cli.shell.tree import Folder, file_of, folder_of, table_of
from authorizerd.image.changes import ClusterChange, PartitionChanged
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.image.errors import ChangeError, ClusterChangeError
from authorizerd.metadata.checkpoint import corrupt
from authorizerd.metadata.log import LogBatch, MetadataLog
from authorizerd.metadata.past.past_log import read_past
from authorizerd.metadata.replay import TransactionFrame, corrupt_record
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records import metadata
from authorizerd.protocol.records.batch import HEADER_SIZE, RecordBatch, read_record
from authorizerd.protocol.records.fast_reader import Texts, read_records
from authorizerd.protocol.records.foreign import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    ControllerRegistered,
    ControllerUnregistered,
    ElrCleared,
    ForeignRecord,
    ForeignType,
    ProducerIdsAllocated,
    QuotaChanged,
    TokenAdded,
    TokenRemoved,
    decode_foreign,
)

ZK_MIGRATION_TYPE: Final = 21
_WITHOUT_CONTENTS: Final = frozenset((metadata.NO_OP_TYPE, ZK_MIGRATION_TYPE))
"""Types of records that Kafka's shell does not show either."""
_MARKERS: Final = frozenset(
    (
        metadata.RecordType.BEGIN_TRANSACTION,
        metadata.RecordType.END_TRANSACTION,
        metadata.RecordType.ABORT_TRANSACTION,
    )
)


class Provenance(msgspec.Struct, frozen=True):
    """The last batch with records that was read; ``time_ms`` counts from 1970."""

    offset: int
    epoch: int
    time_ms: int


class LogContents:
    """The contents of the batches fed so far.

    Attributes:
        unread: the types of records that were skipped, because this version cannot read them.
    """

    def __init__(self) -> None:
        self.acls: Final[dict[bytes, Acl]] = {}
        self.image: ClusterImage = EMPTY_IMAGE
        self.brokers: Final[dict[int, BrokerRegistered]] = {}
        self.controllers: Final[dict[int, ControllerRegistered]] = {}
        self.quotas: Final[dict[folders.QuotaEntity, dict[str, float]]] = {}
        self.tokens: Final[dict[str, TokenAdded]] = {}
        self.next_producer_id = -1
        self.provenance = Provenance(-1, -1, -1)
        self.unread: Final[set[int]] = set()
        self._texts: Final = Texts()
        self._frame: Final = TransactionFrame()
        self._held: list[ForeignRecord] | None = None
        self._held_by: Final[Mapping[type, dict[Any, Any]]] = {
            BrokerUnregistered: self.brokers,
            ControllerUnregistered: self.controllers,
            TokenRemoved: self.tokens,
        }

    def feed(self, log_batch: LogBatch, last_offset: int) -> None:
        """Apply the records of the next batch.

        Args:
            last_offset: the offset up to which the contents are complete afterwards.
        """
        batch = log_batch.placed.batch
        if batch.is_control:
            return
        skipped: set[int] = set()
        was_open = self._frame.is_open
        try:
            for records in read_records(batch, self._texts, skipped):
                self._frame.feed(records)
                self._apply_known(self._frame.take())
            foreign = skipped - _WITHOUT_CONTENTS
            # Most batches have no foreign records. Reading all records again would double the time.
            if foreign or was_open or self._frame.is_open:
                for record in self._read_foreign(batch, skipped):
                    self._apply_foreign(record)
        except DecodeError as error:
            raise corrupt_record(log_batch, error) from error
        except ChangeError as error:
            raise corrupt(log_batch.placed, batch.base_offset, str(error)) from error
        self.provenance = Provenance(last_offset, batch.leader_epoch, batch.max_timestamp_ms)

    def _apply_known(self, records: list[AclAdded | AclRemoved | ClusterChange]) -> None:
        changes: list[ClusterChange] = []
        for record in records:
            if type(record) is AclAdded:
                self.acls[record.id] = record.acl
            elif type(record) is AclRemoved:
                if self.acls.pop(record.id, None) is None:
                    raise ClusterChangeError(f"no ACL has the removed id {record.id.hex()}")
            else:
                changes.append(record)  # type: ignore[arg-type]  # mypy does not narrow by `type`
        self.image = apply_cluster_changes(self.image, changes)

    def _read_foreign(self, batch: RecordBatch, skipped: set[int]) -> Iterator[ForeignRecord]:
        """Yield the records that became visible, of the types that the daemon does not keep."""
        data, position = batch.data, HEADER_SIZE
        for _ in range(batch.count):
            found = read_record(data, position)
            start, end, position = found.value_start, found.value_end, found.next
            kind = metadata.record_type(data, start, end)
            if kind in _MARKERS:
                yield from self._end_transaction(metadata.decode_value(data, start, end))
                continue
            if kind not in skipped or kind in _WITHOUT_CONTENTS:
                continue
            record = decode_foreign(data, start, end)
            if record is None:
                # A known type also counts as unread if this record has a later version.
                if metadata.decode_value(data, start, end) is None:
                    self.unread.add(kind)
            elif self._held is None:
                yield record
            else:
                self._held.append(record)

    def _end_transaction(self, marker: metadata.MetadataRecord | None) -> list[ForeignRecord]:
        """Begin or end a transaction. Return what becomes visible."""
        held, self._held = self._held, None
        match marker:
            case metadata.BeginTransaction():
                self._held = []
                return []
            case metadata.EndTransaction():
                return held or []
            case metadata.AbortTransaction():
                return []
        raise AssertionError("the caller gives a marker")

    def _apply_foreign(self, record: ForeignRecord) -> None:
        match record:
            case BrokerRegistered():
                self.brokers[record.id] = record
            case BrokerChanged():
                self._change_broker(record)
            case ControllerRegistered():
                self.controllers[record.id] = record
            case QuotaChanged():
                self._change_quota(record)
            case ProducerIdsAllocated():
                self.next_producer_id = record.next_producer_id
            case TokenAdded():
                self.tokens[record.id] = record
            case BrokerUnregistered() | ControllerUnregistered() | TokenRemoved():
                self._held_by[type(record)].pop(record.id, None)
            case ElrCleared():
                self.image = apply_cluster_changes(self.image, self._clear_elr(record.topic))
            case _:
                assert_never(record)

    def _change_broker(self, change: BrokerChanged) -> None:
        broker = self.brokers.get(change.id)
        if broker is None or broker.epoch != change.epoch:
            raise ClusterChangeError(
                f"broker {change.id} is not registered in epoch {change.epoch}, which changes it"
            )
        fields = {
            name: value
            for name in ("is_fenced", "is_shutting_down", "directories", "cordoned")
            if (value := getattr(change, name)) is not None
        }
        self.brokers[change.id] = replace(broker, **fields)

    def _change_quota(self, change: QuotaChanged) -> None:
        pairs = [(each.kind, each.name) for each in change.entity]
        entity = tuple(sorted(pairs, key=lambda pair: pair[0]))
        quotas = self.quotas.setdefault(entity, {})
        if change.is_removed:
            quotas.pop(change.key, None)
        else:
            quotas[change.key] = change.value
        if not quotas:
            del self.quotas[entity]

    def _clear_elr(self, topic: str) -> Iterator[PartitionChanged]:
        for each in list(self.image.topics.values()):
            if topic in ("", each.name):
                for number, partition in each.partitions.items():
                    if partition.eligible_leader_replicas or partition.last_known_eligible:
                        yield PartitionChanged(
                            topic_id=each.id,
                            number=number,
                            eligible_leader_replicas=(),
                            last_known_eligible=(),
                        )


def describe_unread(types: set[int]) -> str:
    """Describe which parts of the tree are missing, because these types are unreadable."""
    names = sorted(
        ForeignType(each).name if each in ForeignType.__members__.values() else f"type {each}"
        for each in types
    )
    return f"records that this version cannot read are not shown: {', '.join(names)}"


def read_contents(path: Path, as_of: AsOf | None = None, *, storage: Storage = DISK) -> LogContents:
    """Return the contents of a log directory, or of a checkpoint file. Blocks.

    Offsets in a checkpoint file are those of the file, which begin at 0, as in Kafka's shell.
    """
    if as_of is not None:
        return read_past(path, lambda log: _read(log.batches_until(as_of)), storage=storage)
    batches = MetadataLog.open(path, storage).batches()
    return _read(batches, counts_as_file=storage.is_file(path))


def _read(batches: Iterator[LogBatch], *, counts_as_file: bool = False) -> LogContents:
    contents = LogContents()
    for batch in batches:
        last_offset = batch.placed.batch.last_offset if counts_as_file else batch.last_offset
        contents.feed(batch, last_offset)
    return contents


def log_tree(contents: LogContents) -> Folder:
    """Return the tree of a log's contents, which must not change afterwards."""
    image = contents.image
    provenance = contents.provenance
    nodes: folders.Children = {
        "brokers": lambda: folders.nodes_folder(contents.brokers, java_text.describe_broker),
        "controllers": lambda: folders.nodes_folder(
            contents.controllers, java_text.describe_controller
        ),
    }
    children: folders.Children = {
        "clientQuotas": lambda: folders.quotas_folder(contents.quotas),
        "cluster": lambda: folder_of(nodes),
        "configs": lambda: folders.configs_folder(image.configs),
        "delegationToken": lambda: table_of(
            {name: java_text.describe_token(token) for name, token in contents.tokens.items()}
        ),
        "features": lambda: folders.features_folder(image.features),
        "producerIds": lambda: table_of({"nextProducerId": str(contents.next_producer_id)}),
        "provenance": lambda: file_of(
            java_text.describe_provenance(provenance.offset, provenance.epoch, provenance.time_ms)
        ),
        "scram": lambda: folders.scram_folder(image.credentials),
        "topics": lambda: _topics(image),
    }
    return folders.root_of(children, lambda: contents.acls)


def _topics(image: ClusterImage) -> Folder:
    def find(name: str) -> Folder | None:
        topic = image.topics.get(name)
        if topic is None:
            return None
        return folders.topic_folder(topic.id, name, topic.partitions, java_text.describe_partition)

    return folders.topics_folder(image.topic_names, find, image.topics)
