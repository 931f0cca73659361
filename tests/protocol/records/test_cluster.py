"""Records of topics, configs and credentials."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given

from authorizerd.image.changes import (
    ClusterChange,
    ConfigChanged,
    CredentialAdded,
    FeatureLevel,
    Partition,
    PartitionAdded,
    PartitionChanged,
    TopicAdded,
    TopicRemoved,
)
from authorizerd.metadata.log import MetadataLog
from authorizerd.protocol.records.cluster import ClusterRecordType
from authorizerd.protocol.records.metadata import (
    RecordType,
    encode_value,
)
from tests.protocol.records.samples import (
    CREDENTIALS,
    ID,
    OTHERS,
    decode,
    name_of,
    refusal,
    values_of,
)
from tests.support.strategies import cluster_changes


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
            for value in values_of(log_batch.placed.batch):
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
