"""Records of topics, configs and credentials."""

from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from authorizerd.metadata.log import MetadataLog
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import HEADER_SIZE, read_record
from authorizerd.protocol.records.cluster import ClusterRecordType
from authorizerd.protocol.records.metadata import (
    MetadataRecord,
    RecordType,
    decode_value,
    encode_value,
)
from tests.support.strategies import cluster_changes

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
ONE_OF_EACH = [*OTHERS, *CREDENTIALS]


def decode(value: bytes) -> MetadataRecord | None:
    return decode_value(value, 0, len(value))


def refusal(value: bytes) -> str:
    with pytest.raises(DecodeError) as refused:
        decode(value)
    return refused.value.reason


def name_of(record: object) -> str:
    return type(record).__name__


@given(cluster_changes())
def test_change_reads_back(change: ClusterChange) -> None:
    """The changes have all fields of each version."""
    assert decode(encode_value(change)) == change


def test_records_of_a_broker_read_back_byte_for_byte(real_log_dir: Path) -> None:
    """They come from its newest checkpoint, and from the log with changes of partitions."""
    directory = real_log_dir / "__cluster_metadata-0"
    served = {*ClusterRecordType, RecordType.FEATURE_LEVEL}
    for name, changes in ("00000000000000002807-0000000001.checkpoint", 0), ("", 238):
        counts: Counter[type] = Counter()
        for log_batch in MetadataLog.open(directory / name if name else real_log_dir).batches():
            batch = log_batch.placed.batch
            position = HEADER_SIZE
            for _ in range(0 if batch.is_control else batch.count):
                place = read_record(batch.data, position)
                position = place.next
                value = batch.data[place.value_start : place.value_end]
                if value[1] in served:
                    record = decode(value)
                    assert record is not None
                    assert encode_value(record) == value
                    counts[type(record)] += 1
        assert counts[TopicAdded] == counts[PartitionAdded] == 238
        assert counts[ConfigChanged] == 4
        assert counts[CredentialAdded] == 2
        assert counts[FeatureLevel] == 6
        assert counts[PartitionChanged] == changes


@pytest.mark.parametrize("record", ONE_OF_EACH, ids=name_of)
def test_cut_or_longer_record_is_rejected(record: ClusterChange) -> None:
    value = encode_value(record)
    for end in range(len(value)):
        refusal(value[:end])
    assert refusal(value + b"\0") == "metadata record: 1 bytes too many"


@pytest.mark.parametrize("record", ONE_OF_EACH, ids=name_of)
def test_damaged_record_is_a_record_or_a_decode_error(record: ClusterChange) -> None:
    value = encode_value(record)
    for position in range(len(value)):
        for byte in range(256):
            with suppress(DecodeError):
                decode(value[:position] + bytes((byte,)) + value[position + 1 :])


@given(st.sampled_from(ClusterRecordType), st.integers(0, 3), st.binary(max_size=60))
def test_any_fields_are_a_record_or_a_decode_error(
    record_type: ClusterRecordType, version: int, rest: bytes
) -> None:
    """An announced size reserves no memory."""
    with suppress(DecodeError):
        decode(bytes((1, record_type, version)) + rest)


def with_tag(value: bytes, tag: int = 99) -> bytes:
    """Return a record with one tagged field added."""
    assert value.endswith(b"\0")
    return value[:-1] + b"\1" + bytes((tag,)) + b"\2xy"


@pytest.mark.parametrize("record", OTHERS, ids=name_of)
def test_record_of_a_later_version_is_skipped(record: ClusterChange) -> None:
    """Otherwise a checkpoint would lose its unknown fields."""
    value = encode_value(record)
    assert decode(value[:2] + b"\3" + value[3:]) is None
    assert decode(value[:2] + b"\x7fanything") is None


@pytest.mark.parametrize(
    "record",
    [
        TopicAdded("t", ID),
        TopicRemoved(ID),
        ConfigChanged(2, "t", "k", "v"),
        PartitionAdded(
            ID, 0, Partition(replicas=(), isr=(), leader=0, leader_epoch=0, partition_epoch=0)
        ),
        PartitionChanged(topic_id=ID, number=0),
    ],
    ids=name_of,
)
def test_record_with_unknown_tagged_fields_is_skipped(record: ClusterChange) -> None:
    assert decode(with_tag(encode_value(record))) is None


@pytest.mark.parametrize("record", CREDENTIALS, ids=name_of)
def test_unknown_form_of_a_credential_is_rejected(record: ClusterChange) -> None:
    """If it were skipped, a removed credential might still be accepted."""
    value = encode_value(record)
    name = ClusterRecordType(value[1]).name
    expected = f"unknown fields in a {name} record of version %d"
    assert refusal(value[:2] + b"\1" + value[3:]) == expected % 1
    assert refusal(with_tag(value)) == expected % 0
