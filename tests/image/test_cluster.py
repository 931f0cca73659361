"""The cluster image, compared with an oracle of plain dicts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.image.changes import (
    ClusterChange,
    ConfigChanged,
    CredentialAdded,
    CredentialRemoved,
    Partition,
    PartitionAdded,
    PartitionChanged,
    ScramCredential,
    TopicAdded,
    TopicRemoved,
)
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, Topic, apply_cluster_changes
from authorizerd.image.errors import ClusterChangeError
from tests.oracles.cluster import FIELDS, Cluster
from tests.support.strategies import colliding_cluster_changes

ID, OTHER_ID = b"1" * 16, b"2" * 16
PARTITION = Partition(replicas=(1, 2), isr=(1,), leader=1, leader_epoch=3, partition_epoch=5)


def apply_all(*changes: ClusterChange) -> ClusterImage:
    return apply_cluster_changes(EMPTY_IMAGE, changes)


def to_plain_dicts(image: ClusterImage) -> dict[str, Any]:
    assert dict(image.topic_names) == {each.id: each.name for each in image.topics.values()}
    return {
        "topics": {
            topic.id: (
                topic.name,
                {
                    number: {name: getattr(partition, name) for name in FIELDS}
                    for number, partition in topic.partitions.items()
                },
            )
            for topic in image.topics.values()
        },
        "configs": {
            (*resource, key): value
            for resource, values in image.configs.items()
            for key, value in values.items()
        },
        "credentials": dict(image.credentials),
        "features": dict(image.features),
    }


@given(st.lists(colliding_cluster_changes(), max_size=60))
def test_any_changes_give_the_same_image_as_the_oracle(changes: list[ClusterChange]) -> None:
    """Earlier images stay unchanged."""
    image, oracle = EMPTY_IMAGE, Cluster()
    for change in changes:
        before, seen = image, to_plain_dicts(image)
        try:
            oracle.apply(change)
        except KeyError:
            with pytest.raises(ClusterChangeError):
                apply_cluster_changes(image, [change])
        else:
            image = apply_cluster_changes(image, [change])
        assert to_plain_dicts(image) == vars(oracle)
        assert to_plain_dicts(before) == seen
    assert all(image.configs.values()), "a resource without configs is not kept"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([TopicAdded("t", OTHER_ID)], "the topic t already exists"),
        ([TopicAdded("u", ID)], f"a topic with id {ID.hex()} already exists"),
        ([TopicRemoved(OTHER_ID)], f"there is no topic with id {OTHER_ID.hex()}"),
        ([PartitionAdded(OTHER_ID, 0, PARTITION)], f"there is no topic with id {OTHER_ID.hex()}"),
        ([PartitionChanged(topic_id=ID, number=1)], f"topic {ID.hex()} has no partition 1"),
        ([CredentialRemoved("carol", 1)], "user carol has no credential of SCRAM mechanism 1"),
    ],
)
def test_contradictory_change_is_rejected(changes: list[ClusterChange], reason: str) -> None:
    with pytest.raises(ClusterChangeError) as refused:
        apply_all(TopicAdded("t", ID), *changes)
    assert str(refused.value) == reason


def test_removing_a_topic_removes_its_configs() -> None:
    """A broker's configs of the same name stay."""
    image = apply_all(
        TopicAdded("t", ID),
        ConfigChanged(2, "t", "retention.ms", "1"),
        ConfigChanged(4, "t", "log.dirs", "x"),
        TopicRemoved(ID),
    )
    assert list(image.configs) == [(4, "t")]


def test_new_leader_begins_an_epoch() -> None:
    """Every change increases the partition epoch."""
    kept = PartitionChanged(topic_id=ID, number=0, isr=(1, 2))
    led = PartitionChanged(topic_id=ID, number=0, leader=2)
    image = apply_all(TopicAdded("t", ID), PartitionAdded(ID, 0, PARTITION), kept, led)
    partition = image.topics["t"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (2, 4, 7)
    assert (partition.isr, partition.replicas) == ((1, 2), (1, 2))


@given(st.sets(st.integers(-3, 100)))
def test_partitions_are_listed_in_order(numbers: set[int]) -> None:
    """Numbers after a gap come last."""
    added = [PartitionAdded(ID, number, PARTITION) for number in numbers]
    listed = list(apply_all(TopicAdded("t", ID), *added).topics["t"].numbers())
    assert sorted(listed) == sorted(numbers)
    counted = [number for number in listed if 0 <= number < len(numbers)]
    assert listed[: len(counted)] == sorted(counted)


def test_topic_is_found_by_its_id() -> None:
    image = apply_all(TopicAdded("t", ID))
    assert image.find_topic(ID) == Topic("t", ID)
    assert image.find_topic(OTHER_ID) is None


def test_repr_of_a_credential_shows_no_key() -> None:
    credential = ScramCredential(b"salt", b"stored", b"server", 4096)
    assert repr(CredentialAdded("carol", 1, credential)).count("4096") == 1
    assert "stored" not in repr(CredentialAdded("carol", 1, credential))
    assert "server" not in str(credential)
