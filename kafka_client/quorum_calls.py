"""Calls to nodes: read the log of a metadata quorum, describe it, and list all ACLs.

Fetch and FetchSnapshot need CLUSTER_ACTION on the cluster; DescribeQuorum and the listings need
DESCRIBE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Concatenate, Final, ParamSpec, TypeVar

import msgspec

from authorizerd.acl.model import Acl, AclFilter, ResourceType
from authorizerd.kafka_client.connection import Call
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_client import (
    decode_describe_acls_response,
    encode_describe_acls_request,
)
from authorizerd.protocol.kafka.api import ApiKey, QuorumKey
from authorizerd.protocol.kafka.error_codes import ApiError
from authorizerd.protocol.kafka.fetch import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    decode_fetch,
    decode_fetch_snapshot,
    encode_fetch,
    encode_fetch_snapshot,
)
from authorizerd.protocol.kafka.messages import read_response, write_request
from authorizerd.protocol.kafka.quorum_messages import (
    DescribeQuorumAnswer,
    DescribeQuorumRequest,
    Replica,
    RequestedPartition,
    RequestedQuorumTopic,
)

P = ParamSpec("P")
T = TypeVar("T")


class QuorumDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A quorum as its leader describes it.

    Attributes:
        high_watermark: exclusive, as Kafka's.
        voters: the ids of the voters.
        endpoints: host and port of each voter by id and listener; empty before version 2.
        log_ends: the end of the log of each voter and observer by id, exclusive, -1 if unknown.
        leader_time_ms: the leader's clock when it answered, in milliseconds since 1970; None before
            version 1 (KIP-836).
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: frozenset[int]
    endpoints: Mapping[int, Mapping[str, tuple[str, int]]]
    log_ends: Mapping[int, int]
    leader_time_ms: int | None = None


def _call_by(
    api_key: QuorumKey,
    encode: Callable[Concatenate[int, P], bytes],
    decode: Callable[[int, bytes | bytearray], T],
) -> Callable[P, Call[T]]:
    """Return a function that makes a call from ``encode``'s arguments after the version."""

    def make_call(*args: P.args, **kwargs: P.kwargs) -> Call[T]:
        return Call(
            api_key=api_key,
            encode=lambda version: encode(version, *args, **kwargs),
            decode=decode,
        )

    return make_call


fetch_call: Final = _call_by(QuorumKey.FETCH, encode_fetch, decode_fetch)
fetch_snapshot_call: Final = _call_by(
    QuorumKey.FETCH_SNAPSHOT, encode_fetch_snapshot, decode_fetch_snapshot
)


def describe_quorum_call() -> Call[QuorumDescription | ApiError]:
    """Return the call that describes the quorum. Only the leader answers it without an error."""
    topic = RequestedQuorumTopic(METADATA_TOPIC, (RequestedPartition(METADATA_PARTITION),))
    asked = DescribeQuorumRequest(topics=(topic,))
    return Call(
        api_key=ApiKey.DESCRIBE_QUORUM,
        encode=lambda version: write_request(ApiKey.DESCRIBE_QUORUM, version, asked),
        decode=_read_quorum,
    )


def _read_quorum(version: int, body: bytes | bytearray) -> QuorumDescription | ApiError:
    response: DescribeQuorumAnswer = read_response(ApiKey.DESCRIBE_QUORUM, version, body)
    if response.error_code:
        return ApiError(response.error_code, response.error_message or None)
    partitions = [partition for topic in response.topics for partition in topic.partitions]
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
            node.node_id: {
                listener.name: (listener.host, listener.port) for listener in node.listeners
            }
            for node in response.nodes
        },
        log_ends=_find_log_ends((*found.current_voters, *found.observers)),
        leader_time_ms=_find_time(found.leader_id, found.current_voters),
    )


def _find_time(leader_id: int, voters: Iterable[Replica]) -> int | None:
    """Return the leader's clock: a leader always reports itself as caught up now.

    Another directory of the same node is a replica of the past, so the latest time counts.

    Source: Kafka 4.3 LeaderState.describeReplicaState.
    """
    times = [each.last_caught_up_timestamp for each in voters if each.replica_id == leader_id]
    return max((each for each in times if each > 0), default=None)


def _find_log_ends(replicas: Iterable[Replica]) -> dict[int, int]:
    """Return the end of each node's log. With several directories, the shortest log counts."""
    ends: dict[int, int] = {}
    for replica in replicas:
        end = replica.log_end_offset
        ends[replica.replica_id] = min(end, ends.get(replica.replica_id, end))
    return ends


def describe_acls_call(filter: AclFilter) -> Call[list[Acl] | ApiError]:
    """Return the call that lists the ACLs that a filter matches. They should be few."""
    return Call(
        api_key=ApiKey.DESCRIBE_ACLS,
        encode=lambda version: encode_describe_acls_request(version, filter),
        decode=decode_describe_acls_response,
    )


def _encode_listing(version: int) -> bytes:
    return encode_describe_acls_request(version, AclFilter())


def _encode_placed(version: int) -> bytes:
    return encode_describe_acls_request(version, AclFilter(), asks_offset=True)


def _encode_no_listing(version: int) -> bytes:
    nothing = AclFilter(ResourceType.DELEGATION_TOKEN, "", principal="", host="")
    return encode_describe_acls_request(version, nothing, asks_offset=True)


def _keep_body(version: int, body: bytes | bytearray) -> tuple[int, bytes | bytearray]:
    return version, body


LISTING_CALL: Final = Call(api_key=ApiKey.DESCRIBE_ACLS, encode=_encode_listing, decode=_keep_body)
"""The caller decodes the body with ``acl_client.read_listing``, in steps."""

PLACED_LISTING_CALL: Final = Call(
    api_key=ApiKey.DESCRIBE_ACLS, encode=_encode_placed, decode=_keep_body
)
"""The same, with our tagged field: authorizerd also returns the log offset of the listing."""

NO_LISTING_CALL: Final = Call(
    api_key=ApiKey.DESCRIBE_ACLS, encode=_encode_no_listing, decode=_keep_body
)
"""The same without ACLs: no ACL can match, so only the offset is asked for."""
