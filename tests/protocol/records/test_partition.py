"""Encode and decode PartitionRecord and PartitionChangeRecord."""

import pytest

from authorizerd.image.changes import Partition, PartitionAdded, PartitionChanged
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.metadata import encode_value
from tests.protocol.records.samples import ID, decode

FROM_A_REAL_CHECKPOINT = bytes.fromhex(
    "0103020000000028046a335ced4a72b151d2be4577238402000000010200000001010100000001000000000000"
    "00000244c1ee76bf1af6bac6c5011fea4f907400"
)


def test_partition_from_a_real_checkpoint_is_decoded() -> None:
    topic_id = bytes.fromhex("28046a335ced4a72b151d2be45772384")
    partition = Partition(
        replicas=(1,),
        isr=(1,),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=bytes.fromhex("44c1ee76bf1af6bac6c5011fea4f9074"),
        version=2,
    )
    assert decode(FROM_A_REAL_CHECKPOINT) == PartitionAdded(topic_id, 0, partition)


def test_change_of_version_0_with_directories_is_skipped() -> None:
    record = PartitionChanged(topic_id=ID, number=0, directories=ID, version=1)
    value = encode_value(record)
    assert decode(value) == record
    assert decode(value[:2] + b"\0" + value[3:]) is None


def test_equal_lists_are_shared() -> None:
    value = encode_value(PartitionAdded(ID, 3, some_partition(2)))
    first, second = decode(value), decode(value)
    assert isinstance(first, PartitionAdded)
    assert isinstance(second, PartitionAdded)
    assert first.partition.replicas is second.partition.replicas
    long = some_partition(2).replicas * 100
    assert decode(encode_value(PartitionChanged(topic_id=ID, number=0, replicas=long))) == (
        PartitionChanged(topic_id=ID, number=0, replicas=long)
    )


def some_partition(version: int) -> Partition:
    return Partition(
        replicas=(1, 2, 300),
        isr=(1,),
        leader=1,
        leader_epoch=7,
        partition_epoch=9,
        directories=ID * 3 if version else b"",
        version=version,
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_partition_keeps_the_version_of_its_record(version: int) -> None:
    record = PartitionAdded(ID, 3, some_partition(version))
    value = encode_value(record)
    assert value[2] == version
    assert decode(value) == record
    assert (ID * 3 in value) == bool(version)


@pytest.mark.parametrize("field", ["replicas", "isr", "removing replicas", "adding replicas"])
def test_null_list_is_rejected(field: str) -> None:
    lists = {"replicas": b"\1", "isr": b"\1", "removing replicas": b"\1", "adding replicas": b"\1"}
    lists[field] = b"\0"
    value = b"\1\3\0" + bytes(4) + ID + b"".join(lists.values()) + bytes(12) + b"\0"
    with pytest.raises(DecodeError) as refused:
        decode(value)
    assert refused.value.reason == f"{field}: expected an array, found null"
    assert refused.value.position == 23 + list(lists).index(field)


@pytest.mark.parametrize("tag", range(9))
def test_tagged_field_of_the_wrong_size_is_rejected(tag: int) -> None:
    value = b"\1\5\2" + bytes(4) + ID + b"\1" + bytes((tag,)) + b"\2\2\0"
    with pytest.raises(DecodeError) as refused:
        decode(value)
    assert refused.value.position == 23
