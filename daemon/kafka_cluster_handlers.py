"""Metadata, DescribeCluster and FindCoordinator: where a client is, and whom to ask.

Law: this node is all there is of the cluster. It hosts no topic, and only who may describe one
learns that.

Source: KIP-430, KIP-699, KIP-919; Kafka 4.3 KafkaApis, AuthHelper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from acl.model import ResourceType
from actors.authorizer import Authorizer, RequestContext
from daemon.kafka_answers import (
    BROKER_ENDPOINTS,
    CONTROLLER_ENDPOINTS,
    Cluster,
    Coordinator,
    DescribeClusterAnswer,
    FindCoordinatorAnswer,
    MetadataAnswer,
    MetadataTopic,
)
from daemon.kafka_bodies import Answer, read_body, write_body
from daemon.kafka_rights import Rights
from protocol.kafka_acl_responses import Piece
from protocol.kafka_connection import KafkaRequest
from protocol.kafka_errors import ErrorCode

_MANY_KEYS: Final = 4
"""The version of FindCoordinator from which one request may ask for many keys."""
_TOPIC_IDS: Final = 12
"""The version of Metadata from which topics may be asked for by id, and a name may be null."""

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

    def __init__(self, authorizer: Authorizer, cluster: Cluster) -> None:
        self._rights = Rights(authorizer)
        self._cluster = cluster

    async def tell_metadata(self, request: KafkaRequest, context: RequestContext) -> Answer:
        asked = await read_body(request)
        node = self._cluster.node_of(context.listener_name)
        answer = MetadataAnswer(
            brokers=(node,),
            topics=self._topics(request.api_version, context, asked.topics or ()),
            cluster_id=self._cluster.cluster_id,
            controller_id=node.node_id,
            cluster_authorized_operations=self._rights.cluster_operations(
                context, getattr(asked, "include_cluster_authorized_operations", False)
            ),
        )
        return await write_body(request, answer), 0.0

    async def refuse_metadata(self, request: KafkaRequest) -> list[Piece]:
        error = ErrorCode.AUTHORIZER_NOT_READY
        asked = await read_body(request)
        topics = [_topic(request.api_version, error, topic) for topic in asked.topics or ()]
        return await write_body(
            request, MetadataAnswer(brokers=(), topics=topics, error_code=error)
        )

    def _topics(
        self, version: int, context: RequestContext, asked: Sequence[Any]
    ) -> list[MetadataTopic]:
        names = [topic.name for topic in asked if topic.name is not None]
        described = iter(self._rights.may_describe(context, ResourceType.TOPIC, names))
        answers: list[MetadataTopic] = []
        for topic in asked:
            if topic.name is None:
                is_id = version >= _TOPIC_IDS
                error = ErrorCode.UNKNOWN_TOPIC_ID if is_id else ErrorCode.INVALID_REQUEST
                answers.append(_topic(version, error, topic))
            elif next(described):
                answers.append(MetadataTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic.name))
            else:
                answers.append(MetadataTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic.name))
        return answers

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
                cluster_authorized_operations=self._rights.cluster_operations(
                    context, asked.include_cluster_authorized_operations
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
            found = [_no_coordinator(key, ErrorCode.INVALID_REQUEST) for key in keys]
            return await _write_coordinators(request, found), 0.0
        resource_type, denied = kind
        node = self._cluster.node_of(context.listener_name)
        described = self._rights.may_describe(context, resource_type, keys)
        found = [
            Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port)
            if is_described
            else _no_coordinator(key, denied)
            for key, is_described in zip(keys, described, strict=True)
        ]
        return await _write_coordinators(request, found), 0.0

    async def refuse_find_coordinator(self, request: KafkaRequest) -> list[Piece]:
        keys = _coordinator_keys(request, await read_body(request))
        refused = [_no_coordinator(key, ErrorCode.AUTHORIZER_NOT_READY) for key in keys]
        return await _write_coordinators(request, refused)


def _topic(version: int, error: ErrorCode, asked: Any) -> MetadataTopic:  # noqa: ANN401 - kio's
    """Return what is said of a topic that may have been asked for by its id."""
    name = asked.name if asked.name is not None or version >= _TOPIC_IDS else ""
    return MetadataTopic(error, name, getattr(asked, "topic_id", None))


def _coordinator_keys(request: KafkaRequest, asked: Any) -> Sequence[str]:  # noqa: ANN401 - kio's
    keys: Sequence[str] = (
        asked.coordinator_keys if request.api_version >= _MANY_KEYS else (asked.key,)
    )
    return keys


async def _write_coordinators(request: KafkaRequest, found: Sequence[Coordinator]) -> list[Piece]:
    if request.api_version >= _MANY_KEYS:
        return await write_body(request, FindCoordinatorAnswer(found))
    return await write_body(request, found[0])


def _no_coordinator(key: str, error: ErrorCode) -> Coordinator:
    return Coordinator(key=key, error_code=error, error_message=error.text)


def _cluster_error(error: ErrorCode, endpoint_type: int) -> DescribeClusterAnswer:
    return DescribeClusterAnswer(
        error_code=error, error_message=error.text, endpoint_type=endpoint_type
    )
