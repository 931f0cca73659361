"""Ask the nodes of the cluster to follow: can they be reached, and what may the daemon do there?

**Invariant:** the questions change nothing in the cluster, and no answer contains the daemon's
password.

Source: Kafka 4.3 ControllerApis, KafkaApis: both check the right before anything else of a Fetch
or DescribeAcls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import trio

from authorizerd.acl.model import AclFilter, Operation, PatternType, ResourceType
from authorizerd.config.follow import FollowSettings, Server, SourceKind
from authorizerd.daemon.sources.nodes import NodeOpener
from authorizerd.daemon.sources.remedies import WRONG_NODES
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Call, Node, message_call
from authorizerd.kafka_client.errors import ConnectionFailedError, RequestFailedError
from authorizerd.kafka_client.quorum_calls import fetch_call
from authorizerd.kafka_client.transport import OpenStream, open_tcp
from authorizerd.protocol.kafka.acl_client import (
    decode_describe_acls_response,
    encode_describe_acls_request,
)
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.fetch import FetchPosition
from authorizerd.protocol.kafka.requests import DescribeClusterRequest
from authorizerd.protocol.kafka.responses import DescribeClusterAnswer

SECONDS_MAX: Final = 15.0

_TIMEOUT_MS: Final = int(SECONDS_MAX * 1000)
_MISPLACED: Final = (
    ErrorCode.MISMATCHED_ENDPOINT_TYPE,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
)
_ENDPOINT_TYPES: Final = {SourceKind.BROKERS: 1, SourceKind.QUORUM: 2}
_BEGINNING: Final = FetchPosition(offset=0, last_epoch=0, leader_epoch=0)
_NO_ACL: Final = AclFilter(
    resource_type=ResourceType.CLUSTER,
    resource_name="authorizerd-doctor",
    pattern_type=PatternType.LITERAL,
)
"""Matches nothing: ACLs name the cluster kafka-cluster. The right is checked anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswer:
    """The answers of a node.

    ``failure`` is the reason if it could not be reached or did not answer, and ``advice`` what to
    do about it, if that is known here. ``error_code`` is that
    of the request that needs the daemon's right. ``cluster_id`` is empty if it is not known.
    ``operations`` are those that the daemon's principal may do on the cluster, as far as known;
    ALTER is always known.
    """

    address: Address
    failure: ConnectionFailedError | None = None
    advice: str = ""
    error_code: int = 0
    cluster_id: str = ""
    operations: frozenset[Operation] = frozenset()


def ask_nodes(settings: FollowSettings, cluster_id: str | None) -> list[NodeAnswer]:
    """Ask all servers that the configuration names, at the same time; return their answers.

    Args:
        cluster_id: the id that the cluster must have, None if any will do.
    """
    return trio.run(ask_all, settings, cluster_id)


async def ask_all(
    settings: FollowSettings, cluster_id: str | None, open_tcp: OpenStream = open_tcp
) -> list[NodeAnswer]:
    """Like ``ask_nodes``; ``open_tcp`` opens the TCP connections."""
    opener = NodeOpener(settings, open_tcp)
    answers: dict[Server, NodeAnswer] = {}

    async def ask(server: Server) -> None:
        answers[server] = await _ask_in_time(opener, settings, server, cluster_id)

    async with trio.open_nursery() as nursery:
        for server in settings.servers:
            nursery.start_soon(ask, server)
    return [answers[server] for server in settings.servers]


async def _ask_in_time(
    opener: NodeOpener, settings: FollowSettings, server: Server, cluster_id: str | None
) -> NodeAnswer:
    address = Address(server.host, server.port)
    failure = ConnectionFailedError(f"{address}: no answer within {SECONDS_MAX:g} s")
    with trio.move_on_after(SECONDS_MAX):
        try:
            node = await opener.open(server.host, server.port)
            try:
                return await _ask(node, settings, cluster_id)
            finally:
                await node.aclose()
        except ConnectionFailedError as error:
            failure = error
        except RequestFailedError as error:
            failure = ConnectionFailedError(f"{address}: {error}")
    return NodeAnswer(address=address, failure=failure)


async def _ask(node: Node, settings: FollowSettings, cluster_id: str | None) -> NodeAnswer:
    asked = DescribeClusterRequest(
        include_cluster_authorized_operations=True, endpoint_type=_ENDPOINT_TYPES[settings.kind]
    )
    describe = message_call(ApiKey.DESCRIBE_CLUSTER, asked, DescribeClusterAnswer)
    cluster = await node.request(describe, _TIMEOUT_MS)
    code = int(cluster.error_code)
    # Controllers describe their cluster only to those who may ALTER it; brokers do it to everyone.
    is_hidden = code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if code and not (is_hidden and settings.kind is SourceKind.QUORUM):
        wrong = WRONG_NODES[settings.kind] if code in _MISPLACED else (ApiError(code), "")
        failure = ConnectionFailedError(f"{node.address}: {wrong[0]}")
        return NodeAnswer(address=node.address, failure=failure, advice=wrong[1])
    return NodeAnswer(
        address=node.address,
        error_code=await _try_right(node, settings.kind, cluster_id),
        cluster_id="" if is_hidden else cluster.cluster_id,
        operations=_read_operations(0 if is_hidden else cluster.cluster_authorized_operations),
    )


async def _try_right(node: Node, kind: SourceKind, cluster_id: str | None) -> int:
    """Return the error code of the request that following needs."""
    if kind is SourceKind.QUORUM:
        call = fetch_call(cluster_id=cluster_id, position=_BEGINNING, max_wait_ms=0, max_bytes=1)
        answer = await node.request(call, _TIMEOUT_MS)
        return answer.error_code
    listing = Call(
        api_key=ApiKey.DESCRIBE_ACLS,
        encode=lambda version: encode_describe_acls_request(version, _NO_ACL),
        decode=decode_describe_acls_response,
    )
    found = await node.request(listing, _TIMEOUT_MS)
    return int(found.code) if isinstance(found, ApiError) else ErrorCode.NONE


def _read_operations(bits: int) -> frozenset[Operation]:
    """Return the operations of the bits; a negative number means that they were not computed."""
    return frozenset(each for each in Operation if bits > 0 and bits >> each & 1)


def list_cluster_ids(answers: Sequence[NodeAnswer]) -> list[str]:
    """Return the ids of the clusters to which the nodes belong, each once, as far as known."""
    return [*dict.fromkeys(each.cluster_id for each in answers if each.cluster_id)]
