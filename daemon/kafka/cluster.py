"""Metadata, DescribeCluster and FindCoordinator: the cluster as clients see it.

**Invariant:** this node is the whole cluster, and serves no topic. A caller sees those topics of
the log that it may describe, with its other rights to them.

Source: KIP-430, KIP-699, KIP-919; Kafka 4.3 KafkaApis, AuthHelper.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from authorizerd.acl.model import Operation, ResourceType
from authorizerd.acl.operations import NOT_REQUESTED
from authorizerd.acl.steps import Steps
from authorizerd.actors.authorizer import Authorizer, RequestContext
from authorizerd.actors.published import View
from authorizerd.actors.steps import finish_in_turns, pause_if_due
from authorizerd.daemon.kafka.codec import Answer, read_body, write_body
from authorizerd.daemon.kafka.permissions import RequestRights, Rights
from authorizerd.daemon.kafka.requests import (
    DescribeClusterRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    RequestedTopic,
)
from authorizerd.daemon.kafka.responses import (
    BROKER_ENDPOINTS,
    CONTROLLER_ENDPOINTS,
    Cluster,
    Coordinator,
    DescribeClusterAnswer,
    FindCoordinatorAnswer,
    MetadataAnswer,
)
from authorizerd.daemon.kafka.topics import TOPIC_IDS_VERSION, TopicAnswers, refuse_topic
from authorizerd.image.cluster import ClusterImage
from authorizerd.protocol.kafka.chunked_output import Chunk, Items, LazyItems
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.server_connection import KafkaRequest
from authorizerd.protocol.kafka.step_sizes import ITEMS_PER_STEP

_KEYS_PER_STEP: Final = 16
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
    """For each API, one method answers it and another refuses it until the ACLs are loaded.

    Raises (all methods):
        DecodeError: the request is invalid. As in Kafka, the connection is then closed.
    """

    def __init__(self, authorizer: Authorizer, image: View[ClusterImage], cluster: Cluster) -> None:
        self._rights = Rights(authorizer)
        self._image = image
        self._cluster = cluster

    async def answer_metadata(self, request: KafkaRequest, context: RequestContext) -> Answer:
        asked: MetadataRequest = await read_body(request)
        requested = await finish_in_turns(_select_topics(request.api_version, asked.topics or ()))
        if requested is None:
            return await _write_no_metadata(request, asked, ErrorCode.INVALID_REQUEST), 0.0
        node = self._cluster.node_of(context.listener_name)
        rights = self._rights.pin(context)
        topics = TopicAnswers(
            self._image.newest,
            rights,
            node.node_id,
            wants_operations=getattr(asked, "include_topic_authorized_operations", False),
        )
        # Version 0 cannot send null; there an empty list asks for all topics.
        are_all_asked = asked.topics is None or (request.api_version == 0 and not asked.topics)
        answer = MetadataAnswer(
            brokers=(node,),
            topics=await finish_in_turns(
                topics.of_all()
                if are_all_asked
                else topics.of_requested(request.api_version, requested)
            ),
            cluster_id=self._cluster.cluster_id,
            controller_id=node.node_id,
            cluster_authorized_operations=_cluster_operations(rights, asked),
        )
        return await write_body(request, answer), 0.0

    async def refuse_metadata(self, request: KafkaRequest) -> list[Chunk]:
        asked: MetadataRequest = await read_body(request)
        return await _write_no_metadata(request, asked, ErrorCode.AUTHORIZER_NOT_READY)

    async def describe_cluster(self, request: KafkaRequest, context: RequestContext) -> Answer:
        asked: DescribeClusterRequest = await read_body(request)
        is_controller = context.listener_name in self._cluster.controller_listeners
        served = CONTROLLER_ENDPOINTS if is_controller else BROKER_ENDPOINTS
        wanted = getattr(asked, "endpoint_type", BROKER_ENDPOINTS)
        # Controllers answer administrators only (KIP-919); any client may describe the brokers.
        if is_controller and not self._rights.may(context, Operation.ALTER):
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            answer = _cluster_error(error, error.text)
        elif wanted not in _ENDPOINT_TYPES:
            error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            answer = _cluster_error(error, f"Unsupported endpoint type {wanted}")
        elif wanted != served:
            text = (
                f"The request was sent to an endpoint of type {_ENDPOINT_TYPES[served]}, "
                f"but we wanted an endpoint of type {_ENDPOINT_TYPES[wanted]}"
            )
            error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
            answer = _cluster_error(error if request.api_version else _UNTYPED, text)
        else:
            node = self._cluster.node_of(context.listener_name)
            answer = DescribeClusterAnswer(
                endpoint_type=served,
                cluster_id=self._cluster.cluster_id,
                controller_id=node.node_id,
                brokers=(node,),
                cluster_authorized_operations=_cluster_operations(self._rights.pin(context), asked),
            )
        return await write_body(request, answer), 0.0

    async def refuse_describe_cluster(self, request: KafkaRequest) -> list[Chunk]:
        refused = _cluster_error(ErrorCode.AUTHORIZER_NOT_READY, self._rights.not_ready_text)
        return await write_body(request, refused)

    async def find_coordinator(self, request: KafkaRequest, context: RequestContext) -> Answer:
        """Name this node as the coordinator of each key that the caller may describe."""
        asked: FindCoordinatorRequest = await read_body(request)
        keys = _coordinator_keys(request, asked)
        key_type = getattr(asked, "key_type", _GROUP_KEY)
        kind = _COORDINATOR_KEYS.get(key_type)
        if kind is None:
            error, text = self._key_type_error(request, context, key_type)
            refused = LazyItems(partial(_no_coordinator, error, text=text), keys)
            return await _write_coordinators(request, refused), 0.0
        resource_type, denied = kind
        node = self._cluster.node_of(context.listener_name)
        rights = self._rights.pin(context)
        found = []
        for start in range(0, len(keys), _KEYS_PER_STEP):
            some = keys[start : start + _KEYS_PER_STEP]
            described = rights.may_describe(resource_type, some)
            found += [
                Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port)
                if is_described
                else _no_coordinator(denied, key)
                for key, is_described in zip(some, described, strict=True)
            ]
            await pause_if_due()
        return await _write_coordinators(request, found), 0.0

    def _key_type_error(
        self, request: KafkaRequest, context: RequestContext, key_type: int
    ) -> tuple[ErrorCode, str]:
        """Return the error for keys of a type without coordinators.

        No share group exists here, so the key of any share group is invalid.
        """
        error = ErrorCode.INVALID_REQUEST
        if key_type != _SHARE_KEY:
            return error, error.text
        if request.api_version < _SHARE_KEYS or self._rights.may(context, Operation.CLUSTER_ACTION):
            return error, ""
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return error, error.text

    async def refuse_find_coordinator(self, request: KafkaRequest) -> list[Chunk]:
        keys = _coordinator_keys(request, await read_body(request))
        refused = LazyItems(partial(_no_coordinator, ErrorCode.AUTHORIZER_NOT_READY), keys)
        return await _write_coordinators(request, refused)


def _select_topics(
    version: int, topics: Sequence[RequestedTopic]
) -> Steps[Sequence[RequestedTopic] | None]:
    """Return, in steps, the topics to answer; None if ids are used in a version that rejects them.

    As in Kafka, if some topics are requested by id, only those are answered.
    """
    by_id: list[RequestedTopic] = []
    for number, item in enumerate(topics, 1):
        topic_id = getattr(item, "topic_id", None)
        if version in _IDS_TOO_EARLY and (item.name is None or topic_id is not None):
            return None
        if topic_id is not None:
            by_id.append(item)
        if number % ITEMS_PER_STEP == 0:
            yield
    return by_id if by_id and version >= TOPIC_IDS_VERSION else topics


async def _write_no_metadata(
    request: KafkaRequest, asked: MetadataRequest, error: ErrorCode
) -> list[Chunk]:
    """Refuse the whole request, with one error for each topic."""
    topics = LazyItems(partial(refuse_topic, request.api_version, error), asked.topics or ())
    return await write_body(request, MetadataAnswer(brokers=(), topics=topics, error_code=error))


def _cluster_operations(
    rights: RequestRights, asked: MetadataRequest | DescribeClusterRequest
) -> int:
    if not getattr(asked, "include_cluster_authorized_operations", False):
        return NOT_REQUESTED
    return rights.cluster_operations()


def _coordinator_keys(request: KafkaRequest, asked: FindCoordinatorRequest) -> Sequence[str]:
    return asked.coordinator_keys if request.api_version >= _MANY_KEYS else (asked.key,)


async def _write_coordinators(request: KafkaRequest, found: Items[Coordinator]) -> list[Chunk]:
    """Write the coordinators. As in Kafka, the answer to a single key has a text even for NONE."""
    if request.api_version >= _MANY_KEYS:
        return await write_body(request, FindCoordinatorAnswer(found))
    (only,) = found
    text = only.error_code.text
    return await write_body(request, msgspec.structs.replace(only, error_message=text))


def _no_coordinator(error: ErrorCode, key: str, text: str = "") -> Coordinator:
    return Coordinator(key=key, error_code=error, error_message=text)


def _cluster_error(error: ErrorCode, text: str) -> DescribeClusterAnswer:
    return DescribeClusterAnswer(error_code=error, error_message=text)
