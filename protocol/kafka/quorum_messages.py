"""The messages that describe a quorum or fetch its log. See ``wire_types``.

Source: KIP-595, KIP-630, KIP-853; FetchRequest.json, FetchResponse.json and others of Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import msgspec

from authorizerd.protocol.kafka.chunked_output import Items
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.responses import NOT_THROTTLED
from authorizerd.protocol.kafka.wire_types import (
    Only,
    byte_range,
    duration,
    int8,
    int16,
    int32,
    int64,
    text,
    uint16,
    uuid,
)


class RequestedPartition(msgspec.Struct, frozen=True, gc=False):
    partition_index: int32


class RequestedQuorumTopic(msgspec.Struct, frozen=True):
    topic_name: text
    partitions: Sequence[RequestedPartition]


class DescribeQuorumRequest(msgspec.Struct, frozen=True, kw_only=True):
    topics: Sequence[RequestedQuorumTopic]


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    replica_id: int32
    replica_directory_id: Annotated[uuid, Only(since=2)] = None
    log_end_offset: int64
    last_fetch_timestamp: Annotated[int64, Only(since=1)] = -1
    last_caught_up_timestamp: Annotated[int64, Only(since=1)] = -1


class QuorumPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The quorum of a partition. Kafka's text for no error is empty, not null."""

    partition_index: int32
    error_code: int16 = ErrorCode.NONE
    error_message: Annotated[text | None, Only(since=2)] = ""
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    high_watermark: int64 = 0
    current_voters: Items[Replica] = ()
    observers: Items[Replica] = ()


class QuorumTopic(msgspec.Struct, frozen=True):
    topic_name: text
    partitions: Items[QuorumPartition]


class QuorumListener(msgspec.Struct, frozen=True):
    name: text
    host: text
    port: uint16


class QuorumNode(msgspec.Struct, frozen=True):
    node_id: int32
    listeners: Items[QuorumListener]


class DescribeQuorumAnswer(msgspec.Struct, frozen=True, kw_only=True):
    error_code: int16 = ErrorCode.NONE
    error_message: Annotated[text | None, Only(since=2)] = ""
    topics: Items[QuorumTopic] = ()
    nodes: Annotated[Items[QuorumNode], Only(since=2)] = ()


class ReplicaState(msgspec.Struct, frozen=True):
    replica_id: int32 = -1
    replica_epoch: int64 = -1


class FetchPartition(msgspec.Struct, frozen=True, kw_only=True):
    partition: int32
    current_leader_epoch: int32 = -1
    fetch_offset: int64
    last_fetched_epoch: int32 = -1
    log_start_offset: int64 = -1
    partition_max_bytes: int32
    replica_directory_id: Annotated[uuid, Only(since=17, tag=0)] = None
    high_watermark: Annotated[int64, Only(since=18, tag=1)] = 2**63 - 1


class FetchTopic(msgspec.Struct, frozen=True, kw_only=True):
    topic_id: uuid
    partitions: Sequence[FetchPartition]


class ForgottenTopic(msgspec.Struct, frozen=True, kw_only=True):
    topic_id: uuid
    partitions: Sequence[int32] = ()


class FetchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for records, from version 13 on."""

    cluster_id: Annotated[text | None, Only(tag=0)] = None
    replica_id: Annotated[int32, Only(until=14)] = -1
    replica_state: Annotated[ReplicaState, Only(since=15, tag=1)] = ReplicaState()
    max_wait: duration = timedelta(0)
    min_bytes: int32 = 0
    max_bytes: int32 = 2**31 - 1
    isolation_level: int8 = 0
    session_id: int32 = 0
    session_epoch: int32 = -1
    topics: Sequence[FetchTopic]
    forgotten_topics_data: Sequence[ForgottenTopic] = ()
    rack_id: text = ""


class SnapshotId(msgspec.Struct, frozen=True, gc=False):
    """A snapshot: the offset after its last record, and that record's epoch."""

    end_offset: int64 = -1
    epoch: int32 = -1


class SnapshotPartition(msgspec.Struct, frozen=True, kw_only=True):
    partition: int32
    current_leader_epoch: int32
    snapshot_id: SnapshotId
    position: int64
    replica_directory_id: Annotated[uuid, Only(since=1, tag=0)] = None


class SnapshotTopic(msgspec.Struct, frozen=True, kw_only=True):
    name: text
    partitions: Sequence[SnapshotPartition]


class FetchSnapshotRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for a piece of a snapshot (KIP-630)."""

    cluster_id: Annotated[text | None, Only(tag=0)] = None
    replica_id: int32 = -1
    max_bytes: int32 = 2**31 - 1
    topics: Sequence[SnapshotTopic]


class EpochEnd(msgspec.Struct, frozen=True, gc=False):
    """The last epoch that both logs have, and its end offset in the leader's log (exclusive)."""

    epoch: int32 = -1
    end_offset: int64 = -1


class LeaderAndEpoch(msgspec.Struct, frozen=True):
    """The leader of a partition, and its epoch; both are -1 if it is not known."""

    leader_id: int32 = -1
    leader_epoch: int32 = -1


class AbortedTransaction(msgspec.Struct, frozen=True):
    producer_id: int64
    first_offset: int64


class FetchedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The records of a partition, which are not copied."""

    partition_index: int32
    error_code: int16
    high_watermark: int64
    last_stable_offset: int64 = -1
    log_start_offset: int64 = -1
    aborted_transactions: Items[AbortedTransaction] | None = None
    preferred_read_replica: int32 = -1
    records: byte_range | None = None
    diverging_epoch: Annotated[EpochEnd, Only(tag=0)] = EpochEnd()
    current_leader: Annotated[LeaderAndEpoch, Only(tag=1)] = LeaderAndEpoch()
    snapshot_id: Annotated[SnapshotId, Only(tag=2)] = SnapshotId()


class FetchedTopic(msgspec.Struct, frozen=True, kw_only=True):
    topic_id: uuid
    partitions: Items[FetchedPartition]


class NodeEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    node_id: int32
    host: text
    port: int32
    rack: text | None = None


class FetchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Records, from version 13 on."""

    throttle_time: duration = NOT_THROTTLED
    error_code: int16 = ErrorCode.NONE
    session_id: int32 = 0
    responses: Items[FetchedTopic] = ()
    node_endpoints: Annotated[Items[NodeEndpoint], Only(since=16, tag=0)] = ()


class FetchedPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a snapshot, which is not copied."""

    index: int32
    error_code: int16
    snapshot_id: SnapshotId
    size: int64
    position: int64
    unaligned_records: byte_range
    current_leader: Annotated[LeaderAndEpoch, Only(tag=0)] = LeaderAndEpoch()


class FetchedSnapshotTopic(msgspec.Struct, frozen=True, kw_only=True):
    name: text
    partitions: Items[FetchedPiece]


class SnapshotNodeEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    node_id: int32
    host: text
    port: uint16


class FetchSnapshotAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a snapshot (KIP-630)."""

    throttle_time: duration = NOT_THROTTLED
    error_code: int16 = ErrorCode.NONE
    topics: Items[FetchedSnapshotTopic] = ()
    node_endpoints: Annotated[Items[SnapshotNodeEndpoint], Only(since=1, tag=0)] = ()
