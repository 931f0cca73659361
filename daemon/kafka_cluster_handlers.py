"""Metadata, DescribeCluster and FindCoordinator: where a client is, and whom to ask.

Law: this node is all there is of the cluster. It serves no topic; those that the log names are
told of to whoever may describe them, with what else that one may do.

Source: KIP-430, KIP-699, KIP-919; Kafka 4.3 KafkaApis, AuthHelper.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import trio

from acl.cluster import ClusterImage
from acl.model import ResourceType
from acl.operations import NOT_REQUESTED
from actors.authorizer import Authorizer, RequestContext
from actors.published import View
from actors.steps import finish_in_turns
from daemon.kafka_answers import (
    BROKER_ENDPOINTS,
    CONTROLLER_ENDPOINTS,
    Cluster,
    Coordinator,
    DescribeClusterAnswer,
    FindCoordinatorAnswer,
    MetadataAnswer,
)
from daemon.kafka_bodies import Answer, read_body, write_body
from daemon.kafka_rights import RequestRights, Rights
from daemon.kafka_topic_answers import TopicAnswers, no_topic
from protocol.kafka_acl_responses import Piece
from protocol.kafka_connection import KafkaRequest
from protocol.kafka_errors import ErrorCode
from protocol.kafka_output import Items, Made

_KEYS_PER_TURN: Final = 64
_MANY_KEYS: Final = 4
"""The version of FindCoordinator from which one request may ask for many keys."""

_GROUP_KEY: Final = 0
_TRANSACTION_KEY: Final = 1
_COORDINATOR_KEYS: Final = {
    _GROUP_KEY: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    _TRANSACTION_KEY: (
        ResourceType.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}


class ClusterHandlers:
    """For each API what answers it, and what refuses it before the ACLs are loaded.

    Raises (all methods): DecodeError, for what Kafka answers by closing the connection.
    """

    def __init__(self, authorizer: Authorizer, image: View[ClusterImage], cluster: Cluster) -> None:
        self._rights = Rights(authorizer)
        self._image = image
        self._cluster = cluster

    async def tell_metadata(self, request: KafkaRequest, context: RequestContext) -> Answer:
        asked = await read_body(request)
        node = self._cluster.node_of(context.listener_name)
        rights = self._rights.of_now(context)
        topics = TopicAnswers(
            self._image.newest,
            rights,
            node.node_id,
            wants_operations=getattr(asked, "include_topic_authorized_operations", False),
        )
        are_all_asked = asked.topics is None or (request.api_version == 0 and not asked.topics)
        answer = MetadataAnswer(
            brokers=(node,),
            topics=await finish_in_turns(
                topics.of_all()
                if are_all_asked
                else topics.of_asked(request.api_version, asked.topics)
            ),
            cluster_id=self._cluster.cluster_id,
            controller_id=node.node_id,
            cluster_authorized_operations=_cluster_operations(rights, asked),
        )
        return await write_body(request, answer), 0.0

    async def refuse_metadata(self, request: KafkaRequest) -> list[Piece]:
        error = ErrorCode.AUTHORIZER_NOT_READY
        asked = await read_body(request)
        topics = Made(partial(no_topic, request.api_version, error), asked.topics or ())
        return await write_body(
            request, MetadataAnswer(brokers=(), topics=topics, error_code=error)
        )

    async def describe_cluster(self, request: KafkaRequest, context: RequestContext) -> Answer:
        asked = await read_body(request)
        is_controller = context.listener_name in self._cluster.controller_listeners
        served = CONTROLLER_ENDPOINTS if is_controller else BROKER_ENDPOINTS
        wanted = getattr(asked, "endpoint_type", BROKER_ENDPOINTS)
        if wanted not in (BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS):
            answer = _cluster_error(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, wanted)
        elif wanted != served:
            answer = _cluster_error(ErrorCode.MISMATCHED_ENDPOINT_TYPE, wanted)
        else:
            node = self._cluster.node_of(context.listener_name)
            answer = DescribeClusterAnswer(
                endpoint_type=served,
                cluster_id=self._cluster.cluster_id,
                controller_id=node.node_id,
                brokers=(node,),
                cluster_authorized_operations=_cluster_operations(
                    self._rights.of_now(context), asked
                ),
            )
        return await write_body(request, answer), 0.0

    async def refuse_describe_cluster(self, request: KafkaRequest) -> list[Piece]:
        refused = _cluster_error(ErrorCode.AUTHORIZER_NOT_READY, BROKER_ENDPOINTS)
        return await write_body(request, refused)

    async def find_coordinator(self, request: KafkaRequest, context: RequestContext) -> Answer:
        """Name this node as the coordinator of whatever may be described."""
        asked = await read_body(request)
        keys = _coordinator_keys(request, asked)
        kind = _COORDINATOR_KEYS.get(getattr(asked, "key_type", _GROUP_KEY))
        if kind is None:
            refused = Made(partial(_no_coordinator, ErrorCode.INVALID_REQUEST), keys)
            return await _write_coordinators(request, refused), 0.0
        resource_type, denied = kind
        node = self._cluster.node_of(context.listener_name)
        rights = self._rights.of_now(context)
        found = []
        for start in range(0, len(keys), _KEYS_PER_TURN):
            some = keys[start : start + _KEYS_PER_TURN]
            described = rights.may_describe(resource_type, some)
            found += [
                Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port)
                if is_described
                else _no_coordinator(denied, key)
                for key, is_described in zip(some, described, strict=True)
            ]
            await trio.lowlevel.checkpoint()
        return await _write_coordinators(request, found), 0.0

    async def refuse_find_coordinator(self, request: KafkaRequest) -> list[Piece]:
        keys = _coordinator_keys(request, await read_body(request))
        refused = Made(partial(_no_coordinator, ErrorCode.AUTHORIZER_NOT_READY), keys)
        return await _write_coordinators(request, refused)


def _cluster_operations(rights: RequestRights, asked: Any) -> int:  # noqa: ANN401 - kio's
    if not getattr(asked, "include_cluster_authorized_operations", False):
        return NOT_REQUESTED
    return rights.cluster_operations()


def _coordinator_keys(request: KafkaRequest, asked: Any) -> Sequence[str]:  # noqa: ANN401 - kio's
    keys: Sequence[str] = (
        asked.coordinator_keys if request.api_version >= _MANY_KEYS else (asked.key,)
    )
    return keys


async def _write_coordinators(request: KafkaRequest, found: Items[Coordinator]) -> list[Piece]:
    if request.api_version >= _MANY_KEYS:
        return await write_body(request, FindCoordinatorAnswer(found))
    (only,) = found
    return await write_body(request, only)


def _no_coordinator(error: ErrorCode, key: str) -> Coordinator:
    return Coordinator(key=key, error_code=error, error_message=error.text)


def _cluster_error(error: ErrorCode, endpoint_type: int) -> DescribeClusterAnswer:
    return DescribeClusterAnswer(
        error_code=error, error_message=error.text, endpoint_type=endpoint_type
    )
