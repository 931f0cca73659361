"""Metadata, DescribeCluster and FindCoordinator: the cluster as clients see it.

**Invariant:** this node is the whole cluster, and serves no topic. A caller sees the topics that it
may describe, and its other rights to them.

Source: KIP-430, KIP-699, KIP-919; Kafka 4.3 KafkaApis, AuthHelper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from authorizerd.acl.model import Operation, ResourceType
from authorizerd.acl.operations import NOT_REQUESTED
from authorizerd.acl.steps import in_chunks
from authorizerd.actors.authorizer import Authorizer, RequestContext
from authorizerd.actors.published import View
from authorizerd.actors.steps import collect
from authorizerd.daemon.kafka.codec import version_of
from authorizerd.daemon.kafka.permissions import RefusedError, RequestRights, Rights
from authorizerd.daemon.kafka.topics import TOPIC_IDS_VERSION, TOPICS_AT_ONCE, TopicAnswers
from authorizerd.image.cluster import ClusterImage
from authorizerd.protocol.kafka.chunked_output import LazyItems
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.requests import (
    DescribeClusterRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    RequestedTopic,
)
from authorizerd.protocol.kafka.responses import (
    BROKER_ENDPOINTS,
    CONTROLLER_ENDPOINTS,
    Coordinator,
    DescribeClusterAnswer,
    DescribedNode,
    FindCoordinatorAnswer,
    MetadataAnswer,
    MetadataBroker,
)


class Node(msgspec.Struct, frozen=True):
    """This daemon's address for clients."""

    node_id: int
    host: str
    port: int


class Cluster(msgspec.Struct):
    """The nodes by listener.

    ``cluster_id`` is empty until it is known: a followed cluster's id is learned later.
    """

    cluster_id: str
    nodes: Mapping[str, Node]
    controller_listeners: frozenset[str]

    def node_of(self, listener_name: str) -> Node:
        return self.nodes[listener_name]


_IDS_TOO_EARLY: Final = (10, 11)
"""The versions of Metadata that have topic ids in their schema, but reject them."""
_MANY_KEYS: Final = 4
"""The first version of FindCoordinator in which one request may ask for many keys."""

_UNTYPED: Final = ErrorCode.INVALID_REQUEST
"""The error for an endpoint of the wrong type in version 0, which has no endpoint types."""
_ENDPOINT_TYPES: Final = {BROKER_ENDPOINTS: "BROKER", CONTROLLER_ENDPOINTS: "CONTROLLER"}

_GROUP_KEY: Final = 0
_TRANSACTION_KEY: Final = 1
_SHARE_KEY: Final = 2
_SHARE_KEYS: Final = 6
"""The version of FindCoordinator that adds share groups (KIP-932), which do not exist here."""
_COORDINATOR_KEYS: Final = {
    _GROUP_KEY: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    _TRANSACTION_KEY: (
        ResourceType.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}


class ClusterHandlers:
    """Each method answers an API. It raises RefusedError if the whole request has an error."""

    def __init__(self, authorizer: Authorizer, image: View[ClusterImage], cluster: Cluster) -> None:
        self._rights = Rights(authorizer)
        self._image = image
        self._cluster = cluster

    async def answer_metadata(
        self, asked: MetadataRequest, context: RequestContext
    ) -> MetadataAnswer:
        version = version_of(context)
        requested = _select_topics(version, asked.topics or ())
        if requested is None:
            raise RefusedError(ApiError(ErrorCode.INVALID_REQUEST))
        node = self._cluster.node_of(context.listener_name)
        rights, image = self._rights.pin(context), self._image.newest
        topics = TopicAnswers(
            image,
            rights,
            node.node_id,
            wants_operations=asked.include_topic_authorized_operations,
        )
        # Version 0 cannot send null; there an empty list asks for all topics.
        if asked.topics is None or (version == 0 and not asked.topics):
            some = in_chunks(image.topics.values(), TOPICS_AT_ONCE)
            await collect(map(topics.add_described, some))
        else:
            named = in_chunks(requested, TOPICS_AT_ONCE)
            await collect(map(partial(topics.add_requested, version), named))
        return MetadataAnswer(
            brokers=(MetadataBroker(node.node_id, node.host, node.port),),
            topics=topics,
            cluster_id=self._cluster.cluster_id,
            controller_id=node.node_id,
            cluster_authorized_operations=_cluster_operations(rights, asked),
        )

    async def describe_cluster(
        self, asked: DescribeClusterRequest, context: RequestContext
    ) -> DescribeClusterAnswer:
        is_controller = context.listener_name in self._cluster.controller_listeners
        served = CONTROLLER_ENDPOINTS if is_controller else BROKER_ENDPOINTS
        wanted = asked.endpoint_type
        # Controllers answer only administrators (KIP-919); any client may describe the brokers.
        if is_controller:
            self._rights.require(context, Operation.ALTER)
        if wanted not in _ENDPOINT_TYPES:
            text = f"Unsupported endpoint type {wanted}"
            raise RefusedError(ApiError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, text))
        if wanted != served:
            text = (
                f"The request was sent to an endpoint of type {_ENDPOINT_TYPES[served]}, "
                f"but we wanted an endpoint of type {_ENDPOINT_TYPES[wanted]}"
            )
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if version_of(context) else _UNTYPED
            raise RefusedError(ApiError(code, text))
        node = self._cluster.node_of(context.listener_name)
        return DescribeClusterAnswer(
            endpoint_type=served,
            cluster_id=self._cluster.cluster_id,
            controller_id=node.node_id,
            brokers=(DescribedNode(broker_id=node.node_id, host=node.host, port=node.port),),
            cluster_authorized_operations=_cluster_operations(self._rights.pin(context), asked),
        )

    async def find_coordinator(
        self, asked: FindCoordinatorRequest, context: RequestContext
    ) -> FindCoordinatorAnswer:
        """Name this node as the coordinator of each key that the caller may describe."""
        version = version_of(context)
        kind = _COORDINATOR_KEYS.get(asked.key_type)
        if kind is None:
            raise RefusedError(self._key_type_error(version, context, asked.key_type))
        resource_type, denied = kind
        node = self._cluster.node_of(context.listener_name)
        rights = self._rights.pin(context)

        def find(key: str) -> Coordinator:
            if rights.may_describe(resource_type, [key])[0]:
                return Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port)
            return Coordinator(key=key, error_code=denied)

        if version >= _MANY_KEYS:
            return FindCoordinatorAnswer(coordinators=LazyItems(find, asked.coordinator_keys))
        return _answer_one(find(asked.key))

    def _key_type_error(self, version: int, context: RequestContext, key_type: int) -> ApiError:
        """Return the error for keys of a type without coordinators.

        No share group exists here, so the key of any share group is invalid.
        """
        error = ErrorCode.INVALID_REQUEST
        if key_type == _SHARE_KEY and version >= _MANY_KEYS:
            if version < _SHARE_KEYS or self._rights.may(context, Operation.CLUSTER_ACTION):
                return ApiError(error, "")
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ApiError(error, error.text)


def _select_topics(
    version: int, topics: Sequence[RequestedTopic]
) -> Sequence[RequestedTopic] | None:
    """Return the topics to answer; None if ids are used in a version that rejects them.

    As in Kafka, if some topics are requested by id, only those are answered.
    """
    by_id: list[RequestedTopic] = []
    for item in topics:
        topic_id = item.topic_id
        if version in _IDS_TOO_EARLY and (item.name is None or topic_id is not None):
            return None
        if topic_id is not None:
            by_id.append(item)
    return by_id if by_id and version >= TOPIC_IDS_VERSION else topics


def _cluster_operations(
    rights: RequestRights, asked: MetadataRequest | DescribeClusterRequest
) -> int:
    if not asked.include_cluster_authorized_operations:
        return NOT_REQUESTED
    return rights.cluster_operations()


def _answer_one(only: Coordinator) -> FindCoordinatorAnswer:
    """Return the answer to a single key. As in Kafka, it has a text even for NONE."""
    return FindCoordinatorAnswer(
        error_code=only.error_code,
        error_message=next(
            error_code.text for error_code in ErrorCode if error_code == only.error_code
        ),
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
