"""The topics in the answer to one Metadata request.

**Invariant:** one request is answered from one image of the topics and one state of the ACLs. For a
topic that the caller may not describe, a query by name gets the same answer whether the topic
exists or not. (A query by id reveals whether it exists: Kafka does not treat ids as secret.)

A leader or replica counts as available only if it is this node, the only one that exists; Kafka
also treats nodes that are not registered as unavailable. All topics come in the order of the
image's map, as in Kafka; requested topics come in the order of the request.

Each topic's answer is created as it is written, because creating, keeping and freeing all of them
at once would block the loop for a long time.

Source: KIP-430, KIP-516 (topic ids); Kafka 4.3 KafkaApis.handleTopicMetadataRequest,
KRaftMetadataCache.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from msgspec.structs import replace

from authorizerd.acl.model import ResourceType
from authorizerd.acl.operations import NOT_REQUESTED
from authorizerd.daemon.kafka.permissions import RequestRights
from authorizerd.image.changes import Partition
from authorizerd.image.cluster import ClusterImage, Topic
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.requests import RequestedTopic
from authorizerd.protocol.kafka.responses import MetadataPartition, MetadataTopic

TOPIC_IDS_VERSION: Final = 12
"""The first version of Metadata in which topics may be requested by id, and a name may be null."""
TOPICS_AT_ONCE: Final = 4
"""The number of topics to add in one step. With very many ACLs for networks, the decision about one
takes a millisecond."""
INTERNAL_TOPICS: Final = frozenset(
    ("__consumer_offsets", "__transaction_state", "__share_group_state")
)

_NO_LEADER: Final = -1
_LEGAL_NAME: Final = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")


class _Wanted(NamedTuple):
    """A requested topic and what the image knows about it.

    ``id`` is None if the topic was requested by name. ``name`` is None if no topic has the ``id``.
    """

    name: str | None
    id: UUID | None
    topic: Topic | None


class TopicAnswers:
    """The answers to one request, in order, added a few at a time; ``node_id`` is this node's.

    The operations of a topic, which take many decisions, are found as its answer is written.
    """

    def __init__(
        self, image: ClusterImage, rights: RequestRights, node_id: int, *, wants_operations: bool
    ) -> None:
        self._image = image
        self._rights = rights
        self._node_id = node_id
        self._wants_operations = wants_operations
        self._seen: set[tuple[str | None, UUID | None]] = set()
        self._topics: list[Topic | MetadataTopic] = []
        self._are_described = bytearray()

    def add_described(self, topics: Sequence[Topic]) -> None:
        """Add the image's topics that the caller may describe.

        The caller did not ask for the other topics by name, so they are not audited as denied.
        """
        names = [topic.name for topic in topics]
        described = self._rights.may_describe(ResourceType.TOPIC, names, log_if_denied=False)
        for topic, is_described in zip(topics, described, strict=True):
            if is_described:
                self._add(topic)

    def add_requested(self, version: int, requested: Sequence[RequestedTopic]) -> None:
        """Add one answer for each requested topic; a repeated one is answered once."""
        named = {(item.name, item.topic_id): item for item in requested}
        new = [item for name, item in named.items() if name not in self._seen]
        self._seen.update(named)  # otherwise a few repeated bytes could cause a very long answer
        wanted = [self._resolve(item) for item in new]
        names = [each.name for each in wanted if each.name is not None]
        # Only the rights to items with a name are checked, so ``described`` skips the others.
        described = iter(self._rights.may_describe(ResourceType.TOPIC, names))
        for item, each in zip(new, wanted, strict=True):
            if each.name is None:
                refused = refuse_topic(version, ErrorCode.UNKNOWN_TOPIC_ID, item)
                self._add(refused, is_described=False)
            elif not next(described):
                self._add(_hide(each), is_described=False)
            else:
                self._add(each.topic or _describe_missing(each.name))

    def _resolve(self, item: RequestedTopic) -> _Wanted:
        topic_id = item.topic_id
        if topic_id is None:
            topic = None if item.name is None else self._image.topics.get(item.name)
            return _Wanted(item.name, None, topic)
        topic = self._image.find_topic(topic_id.bytes)
        return _Wanted(None if topic is None else topic.name, topic_id, topic)

    def _add(self, topic: Topic | MetadataTopic, *, is_described: bool = True) -> None:
        self._topics.append(topic)
        self._are_described.append(is_described)

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[MetadataTopic]:
        for topic, is_described in zip(self._topics, self._are_described, strict=True):
            operations = NOT_REQUESTED
            if is_described and self._wants_operations:
                operations = self._rights.operations(ResourceType.TOPIC, topic.name or "")
            if isinstance(topic, Topic):
                yield MetadataTopic(
                    ErrorCode.NONE,
                    topic.name,
                    UUID(bytes=topic.id),
                    topic.name in INTERNAL_TOPICS,
                    _Partitions(topic, self._node_id),
                    operations,
                )
            else:
                yield replace(topic, topic_authorized_operations=operations)


class _Partitions:
    """A topic's partitions, in order."""

    def __init__(self, topic: Topic, node_id: int) -> None:
        self._topic = topic
        self._node_id = node_id

    def __len__(self) -> int:
        return len(self._topic.partitions)

    def __iter__(self) -> Iterator[MetadataPartition]:
        for number in self._topic.numbers():
            yield self._partition(number, self._topic.partitions[number])

    def _partition(self, number: int, partition: Partition) -> MetadataPartition:
        is_led_here = partition.leader == self._node_id
        return MetadataPartition(
            error_code=ErrorCode.NONE if is_led_here else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=number,
            leader_id=partition.leader if is_led_here else _NO_LEADER,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            offline_replicas=[node for node in partition.replicas if node != self._node_id],
        )


def _describe_missing(name: str) -> MetadataTopic:
    """Return the answer for a nonexistent topic; Metadata never creates one."""
    is_legal = _LEGAL_NAME.fullmatch(name) is not None
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataTopic(error, name, is_internal=name in INTERNAL_TOPICS)


def refuse_topic(version: int, error: ErrorCode, item: RequestedTopic) -> MetadataTopic:
    """Return an error for a requested topic, with its name and id as the version allows."""
    name = item.name if item.name is not None or version >= TOPIC_IDS_VERSION else ""
    return MetadataTopic(error, name, item.topic_id)


def _hide(wanted: _Wanted) -> MetadataTopic:
    name = wanted.name if wanted.id is None else None
    return MetadataTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, wanted.id)
