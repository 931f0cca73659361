"""DescribeQuorum: this node is the only voter of its log, and its leader once the log is loaded.

**Invariant:** as in Kafka, a request must name exactly the one partition of the metadata log.
Otherwise every partition that it names is answered with UNKNOWN_TOPIC_OR_PARTITION.

The voters are static, as in Kafka without KIP-853, so no directory ids are reported.

Source: KIP-595, KIP-836, KIP-853; Kafka 4.3 ControllerApis, KafkaRaftClient, LeaderState.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from authorizerd.acl.model import Operation
from authorizerd.actors.authorizer import Authorizer, RequestContext
from authorizerd.daemon.kafka.cluster import Cluster
from authorizerd.daemon.kafka.permissions import Rights
from authorizerd.daemon.process.utc_time import now_ms
from authorizerd.protocol.kafka.chunked_output import LazyItems
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.fetch import METADATA_PARTITION, METADATA_TOPIC
from authorizerd.protocol.kafka.quorum_messages import (
    DescribeQuorumAnswer,
    DescribeQuorumRequest,
    QuorumListener,
    QuorumNode,
    QuorumPartition,
    QuorumTopic,
    Replica,
    RequestedPartition,
    RequestedQuorumTopic,
)


class Leadership(msgspec.Struct, frozen=True):
    """The epoch in which this node leads its log, and the offset of the next record.

    The only voter commits everything that is durable, so the end of the log is also the high
    watermark.
    """

    epoch: int
    end_offset: int


class QuorumHandler:
    """Answer the API.

    Args:
        leadership: returns the current leadership, None until the log is loaded.
    """

    def __init__(
        self,
        authorizer: Authorizer,
        cluster: Cluster,
        leadership: Callable[[], Leadership | None],
    ) -> None:
        self._rights = Rights(authorizer)
        self._cluster = cluster
        self._leadership = leadership

    async def describe(
        self, asked: DescribeQuorumRequest, context: RequestContext
    ) -> DescribeQuorumAnswer:
        # As in Kafka, a malformed request ends the connection even without the right, so check
        # later.
        self._rights.require(context, Operation.DESCRIBE)
        leadership = self._leadership()
        if not _is_the_metadata_log(asked.topics):
            return _refuse_partitions(asked.topics, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if leadership is None:
            return _refuse_partitions(asked.topics, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self._describe(leadership, context.listener_name)

    def _describe(self, leadership: Leadership, listener_name: str) -> DescribeQuorumAnswer:
        node_id, now = self._cluster.node_of(listener_name).node_id, now_ms()
        voter = Replica(
            replica_id=node_id,
            log_end_offset=leadership.end_offset,
            last_fetch_timestamp=now,
            last_caught_up_timestamp=now,
        )
        partition = QuorumPartition(
            partition_index=METADATA_PARTITION,
            leader_id=node_id,
            leader_epoch=leadership.epoch,
            high_watermark=leadership.end_offset,
            current_voters=(voter,),
        )
        nodes = self._cluster.nodes
        listeners = [
            QuorumListener(name, nodes[name].host, nodes[name].port)
            for name in sorted(self._cluster.controller_listeners)
        ]
        return DescribeQuorumAnswer(
            topics=(QuorumTopic(METADATA_TOPIC, (partition,)),),
            nodes=(QuorumNode(node_id, listeners),),
        )


def _is_the_metadata_log(topics: Sequence[RequestedQuorumTopic]) -> bool:
    """Return True if the request names the log's one partition, once, and nothing else."""
    if len(topics) != 1 or topics[0].topic_name != METADATA_TOPIC:
        return False
    partitions = topics[0].partitions
    return len(partitions) == 1 and partitions[0].partition_index == METADATA_PARTITION


def _refuse_partitions(
    topics: Sequence[RequestedQuorumTopic], error: ErrorCode
) -> DescribeQuorumAnswer:
    """Return this error for every requested partition; each answer is created as it is written."""

    def refuse_partition(asked: RequestedPartition) -> QuorumPartition:
        return QuorumPartition(
            partition_index=asked.partition_index, error_code=error, error_message=error.text
        )

    def refuse_topic(asked: RequestedQuorumTopic) -> QuorumTopic:
        return QuorumTopic(asked.topic_name, LazyItems(refuse_partition, asked.partitions))

    return DescribeQuorumAnswer(topics=LazyItems(refuse_topic, topics))
