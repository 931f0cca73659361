"""Calls to the nodes of a metadata quorum: read its log, describe it.

Fetch and FetchSnapshot need CLUSTER_ACTION on the cluster; DescribeQuorum needs DESCRIBE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import msgspec

from authorizerd.acl.steps import finish
from authorizerd.kafka_client.connection import Call
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError
from authorizerd.protocol.kafka.fetch import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    FetchAnswer,
    FetchPosition,
    SnapshotId,
    decode_fetch,
    encode_fetch,
)
from authorizerd.protocol.kafka.fetch_snapshot import (
    SnapshotAnswer,
    decode_fetch_snapshot,
    encode_fetch_snapshot,
)
from authorizerd.protocol.kafka.messages import decode_response, encode_request
from authorizerd.protocol.kafka.quorum_messages import (
    DescribeQuorumAnswer,
    DescribeQuorumRequest,
    Replica,
    RequestedPartition,
    RequestedQuorumTopic,
)
from authorizerd.protocol.kafka.requested_apis import QuorumKey


class QuorumDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A quorum as its leader describes it.

    Attributes:
        high_watermark: exclusive, as Kafka's.
        voters: the ids of the nodes that vote.
        endpoints: host and port of each voter by id and listener; empty before version 2.
        log_ends: the end of the log of each voter and observer by id, exclusive, -1 if unknown.
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: frozenset[int]
    endpoints: Mapping[int, Mapping[str, tuple[str, int]]]
    log_ends: Mapping[int, int]


def fetch_call(
    *, cluster_id: str | None, position: FetchPosition, max_wait_ms: int, max_bytes: int
) -> Call[FetchAnswer]:
    """Return the call that fetches the log. See ``encode_fetch`` for the arguments."""
    encode = partial(
        encode_fetch,
        cluster_id=cluster_id,
        position=position,
        max_wait_ms=max_wait_ms,
        max_bytes=max_bytes,
    )
    return Call(api_key=QuorumKey.FETCH, encode=encode, decode=decode_fetch)


def fetch_snapshot_call(
    *,
    cluster_id: str | None,
    snapshot: SnapshotId,
    position: int,
    leader_epoch: int,
    max_bytes: int,
) -> Call[SnapshotAnswer]:
    """Return the call that fetches a piece of a snapshot. See ``encode_fetch_snapshot``."""
    encode = partial(
        encode_fetch_snapshot,
        cluster_id=cluster_id,
        snapshot=snapshot,
        position=position,
        leader_epoch=leader_epoch,
        max_bytes=max_bytes,
    )
    return Call(api_key=QuorumKey.FETCH_SNAPSHOT, encode=encode, decode=decode_fetch_snapshot)


def describe_quorum_call() -> Call[QuorumDescription | ApiError]:
    """Return the call that describes the quorum. Only its leader answers without an error."""
    topic = RequestedQuorumTopic(METADATA_TOPIC, (RequestedPartition(METADATA_PARTITION),))
    asked = DescribeQuorumRequest(topics=(topic,))
    return Call(
        api_key=ApiKey.DESCRIBE_QUORUM,
        encode=lambda version: finish(encode_request(ApiKey.DESCRIBE_QUORUM, version, asked)),
        decode=_read_quorum,
    )


def _read_quorum(version: int, body: bytes | bytearray) -> QuorumDescription | ApiError:
    response: DescribeQuorumAnswer = finish(decode_response(ApiKey.DESCRIBE_QUORUM, version, body))
    if response.error_code:
        return ApiError(response.error_code, response.error_message or None)
    partitions = [each for topic in response.topics for each in topic.partitions]
    if len(partitions) != 1:
        raise DecodeError(f"partitions: expected 1 partition, found {len(partitions)}", 0)
    [found] = partitions
    if found.error_code:
        return ApiError(found.error_code, found.error_message or None)
    return QuorumDescription(
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        voters=frozenset(voter.replica_id for voter in found.current_voters),
        endpoints={
            node.node_id: {each.name: (each.host, each.port) for each in node.listeners}
            for node in response.nodes
        },
        log_ends=_find_log_ends((*found.current_voters, *found.observers)),
    )


def _find_log_ends(replicas: Iterable[Replica]) -> dict[int, int]:
    """Return the end of each node's log. If it has several directories, the shortest one counts."""
    ends: dict[int, int] = {}
    for replica in replicas:
        end = replica.log_end_offset
        ends[replica.replica_id] = min(end, ends.get(replica.replica_id, end))
    return ends
