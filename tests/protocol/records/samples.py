"""Metadata records of each kind, and how tests decode one."""

from collections.abc import Iterator

import pytest

from authorizerd.image.changes import (
    ClusterChange,
    ConfigChanged,
    CredentialAdded,
    CredentialRemoved,
    FeatureLevel,
    Partition,
    PartitionAdded,
    PartitionChanged,
    ScramCredential,
    TopicAdded,
    TopicRemoved,
)
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import HEADER_SIZE, RecordBatch, read_record
from authorizerd.protocol.records.metadata import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    MetadataRecord,
    decode_value,
)
from tests.support.log_files import added, removed

ID = bytes(range(16))
PARTITION = Partition(
    replicas=(1, 2, 300),
    isr=(1,),
    leader=1,
    leader_epoch=7,
    partition_epoch=9,
    removing_replicas=(2,),
    adding_replicas=(300,),
    leader_recovery_state=1,
    directories=ID * 3,
    eligible_leader_replicas=(2,),
    last_known_eligible=(300,),
    version=2,
)
CHANGE = PartitionChanged(
    topic_id=ID,
    number=70_000,
    isr=(1,),
    leader=-1,
    replicas=(1, 2),
    removing_replicas=(),
    adding_replicas=(3,),
    leader_recovery_state=0,
    eligible_leader_replicas=(2,),
    last_known_eligible=(),
    directories=ID * 2,
    version=2,
)
CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 8192)
CREDENTIALS: list[ClusterChange] = [
    CredentialAdded("carol", 1, CREDENTIAL),
    CredentialRemoved("carol", 2),
]
OTHERS: list[ClusterChange] = [
    TopicAdded("t", ID), PartitionAdded(ID, 3, PARTITION), CHANGE, TopicRemoved(ID),
    ConfigChanged(2, "t", "retention.ms", "1"), ConfigChanged(2, "t", "retention.ms", None),
]  # fmt: skip
OF_VERSION_0: list[MetadataRecord] = [
    added(1), removed(1), FeatureLevel("metadata.version", 30), BeginTransaction("bootstrap"),
    BeginTransaction(), EndTransaction(), AbortTransaction("no reason"), AbortTransaction(),
]  # fmt: skip
ONE_OF_EACH = [*OF_VERSION_0, *OTHERS, *CREDENTIALS]


def decode(value: bytes) -> MetadataRecord | None:
    return decode_value(value, 0, len(value))


def refusal(value: bytes) -> str:
    with pytest.raises(DecodeError) as refused:
        decode(value)
    return refused.value.reason


def name_of(record: object) -> str:
    return type(record).__name__


def values_of(batch: RecordBatch) -> Iterator[bytes]:
    """Iterate over the values of a batch's metadata records."""
    position = HEADER_SIZE
    for _ in range(0 if batch.is_control else batch.count):
        place = read_record(batch.data, position)
        position = place.next
        yield batch.data[place.value_start : place.value_end]
