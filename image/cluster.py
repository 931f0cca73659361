"""The metadata log's contents other than ACLs, at one offset, as one immutable value.

**Invariant:** ``apply_cluster_changes`` never changes an image. The result shares every unchanged
part with it, and the work does not grow with the size of the image.

Source: Kafka 4.3 TopicsDelta, PartitionRegistration, ConfigurationsDelta, ScramDelta.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, assert_never

import msgspec
from immutables import Map
from msgspec.structs import replace

from authorizerd.image.changes import (
    LEADER_UNCHANGED,
    RECOVERY_STATE_UNCHANGED,
    UNKNOWN_LEVEL,
    ClusterChange,
    ConfigChanged,
    CredentialAdded,
    CredentialRemoved,
    FeatureLevel,
    NodeRegistered,
    NodeUnregistered,
    Partition,
    PartitionAdded,
    PartitionChanged,
    Replicas,
    ScramCredential,
    TopicAdded,
    TopicRemoved,
    VotersChanged,
)
from authorizerd.image.errors import ClusterChangeError
from authorizerd.image.features import METADATA_VERSION_FEATURE

TOPIC_CONFIGS: Final = 2
"""The resource type of topics' dynamic configs: Kafka's ConfigResource.Type.TOPIC."""

ConfigResource = tuple[int, str]
"""A type, as a raw int8, and a name. An empty name is the default for all resources of the type."""
Login = tuple[str, int]
"""A user and a SCRAM mechanism, as a raw int8."""
NodeKey = tuple[bool, int]
"""True for a controller or False for a broker, and the node's id. A combined node has both keys."""


class Topic(msgspec.Struct, frozen=True, gc=False):
    """A topic. ``id`` is its 16-byte uuid."""

    name: str
    id: bytes
    partitions: Map[int, Partition] = Map()

    def numbers(self) -> Iterator[int]:
        """Yield the partitions' numbers, which Kafka counts from 0, in order.

        If there are gaps, some numbers come last, in no particular order. A controller leaves no
        gaps. Nothing is sorted, so callers can take a few numbers at a time.
        """
        count = len(self.partitions)
        counted = (number for number in range(count) if number in self.partitions)
        beyond = (number for number in self.partitions if not 0 <= number < count)
        return chain(counted, beyond)


class ClusterImage(msgspec.Struct, frozen=True, gc=False):
    """Topics, configs, credentials, features and nodes.

    ``topic_names`` maps each topic id to its name. ``voters`` are the voting controllers, None if
    no record names them.
    """

    topics: Map[str, Topic] = Map()
    topic_names: Map[bytes, str] = Map()
    configs: Map[ConfigResource, Map[str, str]] = Map()
    credentials: Map[Login, ScramCredential] = Map()
    features: Map[str, int] = Map()
    nodes: Map[NodeKey, NodeRegistered] = Map()
    voters: frozenset[int] | None = None

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version, or ``UNKNOWN_LEVEL``."""
        return self.features.get(METADATA_VERSION_FEATURE, UNKNOWN_LEVEL)

    def find_topic(self, id: bytes) -> Topic | None:
        """Return the topic with this id, or None."""
        name = self.topic_names.get(id)
        return None if name is None else self.topics[name]


EMPTY_IMAGE: Final = ClusterImage()


def apply_cluster_changes(image: ClusterImage, changes: Iterable[ClusterChange]) -> ClusterImage:
    """Return ``image`` with ``changes`` applied in order.

    Raises:
        ClusterChangeError: a change contradicts the image: it adds an existing topic, or changes a
            topic, partition or credential that does not exist.
    """
    for change in changes:
        image = _apply(image, change)
    return image


def _apply(image: ClusterImage, change: ClusterChange) -> ClusterImage:
    match change:
        case PartitionAdded():
            return _with_partition(image, change.topic_id, change.number, change.partition)
        case PartitionChanged():
            before = _topic(image, change.topic_id).partitions.get(change.number)
            if before is None:
                raise ClusterChangeError(
                    f"topic {change.topic_id.hex()} has no partition {change.number}"
                )
            after = _changed(before, change)
            return _with_partition(image, change.topic_id, change.number, after)
        case TopicAdded():
            return _with_topic(image, change)
        case TopicRemoved():
            return _without_topic(image, change.id)
        case ConfigChanged():
            return _with_config(image, change)
        case CredentialAdded():
            login = change.user, change.mechanism
            return replace(image, credentials=image.credentials.set(login, change.credential))
        case CredentialRemoved():
            return _without_credential(image, (change.user, change.mechanism))
        case FeatureLevel():
            return _with_feature(image, change)
        case _:
            return _with_node_change(image, change)


def _with_node_change(
    image: ClusterImage, change: NodeRegistered | NodeUnregistered | VotersChanged
) -> ClusterImage:
    match change:
        case NodeRegistered():
            key = change.is_controller, change.id
            return replace(image, nodes=image.nodes.set(key, change))
        case NodeUnregistered():
            return _without_node(image, (change.is_controller, change.id))
        case VotersChanged():
            return replace(image, voters=change.ids)
        case _:
            assert_never(change)


def _topic(image: ClusterImage, id: bytes) -> Topic:
    topic = image.find_topic(id)
    if topic is None:
        raise ClusterChangeError(f"there is no topic with id {id.hex()}")
    return topic


def _with_topic(image: ClusterImage, added: TopicAdded) -> ClusterImage:
    if added.name in image.topics:
        raise ClusterChangeError(f"the topic {added.name} already exists")
    if added.id in image.topic_names:
        raise ClusterChangeError(f"a topic with id {added.id.hex()} already exists")
    return replace(
        image,
        topics=image.topics.set(added.name, Topic(added.name, added.id)),
        topic_names=image.topic_names.set(added.id, added.name),
    )


def _without_topic(image: ClusterImage, id: bytes) -> ClusterImage:
    name = _topic(image, id).name
    configs = image.configs
    if (TOPIC_CONFIGS, name) in configs:  # Map.delete raises KeyError for a missing key
        configs = configs.delete((TOPIC_CONFIGS, name))
    return replace(
        image,
        topics=image.topics.delete(name),
        topic_names=image.topic_names.delete(id),
        configs=configs,
    )


def _with_partition(
    image: ClusterImage, topic_id: bytes, number: int, partition: Partition
) -> ClusterImage:
    topic = _topic(image, topic_id)
    changed = Topic(topic.name, topic.id, topic.partitions.set(number, partition))
    return replace(image, topics=image.topics.set(topic.name, changed))


def _changed(partition: Partition, change: PartitionChanged) -> Partition:
    has_other_leader = change.leader != LEADER_UNCHANGED
    has_other_state = change.leader_recovery_state != RECOVERY_STATE_UNCHANGED
    return Partition(
        replicas=_newer(change.replicas, partition.replicas),
        isr=_newer(change.isr, partition.isr),
        leader=change.leader if has_other_leader else partition.leader,
        # The record does not contain the epochs. As in Kafka, every reader counts the changes.
        leader_epoch=partition.leader_epoch + has_other_leader,
        partition_epoch=partition.partition_epoch + 1,
        removing_replicas=_newer(change.removing_replicas, partition.removing_replicas),
        adding_replicas=_newer(change.adding_replicas, partition.adding_replicas),
        leader_recovery_state=(
            change.leader_recovery_state if has_other_state else partition.leader_recovery_state
        ),
        directories=partition.directories if change.directories is None else change.directories,
        eligible_leader_replicas=_newer(
            change.eligible_leader_replicas, partition.eligible_leader_replicas
        ),
        last_known_eligible=_newer(change.last_known_eligible, partition.last_known_eligible),
        # A checkpoint has a single record for the partition, so its version must support all
        # fields.
        version=max(change.version, partition.version),
    )


def _newer(replicas: Replicas | None, before: Replicas) -> Replicas:
    return before if replicas is None else replicas


def _with_config(image: ClusterImage, change: ConfigChanged) -> ClusterImage:
    resource = change.resource_type, change.resource_name
    values: Map[str, str] = image.configs.get(resource, Map())
    if change.value is not None:
        values = values.set(change.key, change.value)
    elif change.key in values:
        values = values.delete(change.key)
    configs = image.configs
    if values:
        configs = configs.set(resource, values)
    elif resource in configs:
        configs = configs.delete(resource)
    return replace(image, configs=configs)


def _without_credential(image: ClusterImage, login: Login) -> ClusterImage:
    if login not in image.credentials:
        user, mechanism = login
        raise ClusterChangeError(f"user {user} has no credential of SCRAM mechanism {mechanism}")
    return replace(image, credentials=image.credentials.delete(login))


def _with_feature(image: ClusterImage, feature: FeatureLevel) -> ClusterImage:
    features = image.features
    if feature.level:
        features = features.set(feature.name, feature.level)
    elif feature.name in features:
        features = features.delete(feature.name)
    return replace(image, features=features)


def _without_node(image: ClusterImage, key: NodeKey) -> ClusterImage:
    # A node that registered with a record of another kind may be unknown here.
    return replace(image, nodes=image.nodes.delete(key)) if key in image.nodes else image
