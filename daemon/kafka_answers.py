"""Answers to Kafka requests as plain values: each has the fields of all versions of its response.

``protocol.kafka_api.encode_response`` writes those that the request's version knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec

from acl.operations import NOT_REQUESTED
from protocol.kafka_errors import ErrorCode

NOT_THROTTLED: Final = timedelta(0)
BROKER_ENDPOINTS: Final = 1
CONTROLLER_ENDPOINTS: Final = 2


class Node(msgspec.Struct, frozen=True):
    """This daemon as a client is to reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False

    @property
    def broker_id(self) -> int:
        return self.node_id


class Cluster(msgspec.Struct, frozen=True):
    """What clients are told of where they are: one node, by each listener's advertised address."""

    cluster_id: str
    nodes: Mapping[str, Node]
    controller_listeners: frozenset[str]

    def node_of(self, listener_name: str) -> Node:
        return self.nodes[listener_name]


class ApiVersion(msgspec.Struct, frozen=True):
    api_key: int
    min_version: int
    max_version: int


class ApiVersionsAnswer(msgspec.Struct, frozen=True):
    api_keys: Sequence[ApiVersion]
    error_code: int = ErrorCode.NONE
    throttle_time: timedelta = NOT_THROTTLED


class SaslHandshakeAnswer(msgspec.Struct, frozen=True):
    error_code: int
    mechanisms: Sequence[str]


class SaslAuthenticateAnswer(msgspec.Struct, frozen=True):
    error_code: int = ErrorCode.NONE
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime: timedelta = NOT_THROTTLED


class MetadataTopic(msgspec.Struct, frozen=True):
    error_code: int
    name: str | None
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: Sequence[object] = ()
    topic_authorized_operations: int = NOT_REQUESTED


class MetadataAnswer(msgspec.Struct, frozen=True):
    brokers: Sequence[Node]
    topics: Sequence[MetadataTopic]
    cluster_id: str | None = None
    controller_id: int = -1
    cluster_authorized_operations: int = NOT_REQUESTED
    error_code: int = ErrorCode.NONE
    throttle_time: timedelta = NOT_THROTTLED


class DescribeClusterAnswer(msgspec.Struct, frozen=True):
    error_code: int = ErrorCode.NONE
    error_message: str | None = None
    endpoint_type: int = BROKER_ENDPOINTS
    cluster_id: str = ""
    controller_id: int = -1
    brokers: Sequence[Node] = ()
    cluster_authorized_operations: int = NOT_REQUESTED
    throttle_time: timedelta = NOT_THROTTLED


class Coordinator(msgspec.Struct, frozen=True):
    """A key's coordinator; before version 4 the one key's answer is the response itself."""

    key: str
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: int = ErrorCode.NONE
    error_message: str | None = None
    throttle_time: timedelta = NOT_THROTTLED


class FindCoordinatorAnswer(msgspec.Struct, frozen=True):
    coordinators: Sequence[Coordinator]
    throttle_time: timedelta = NOT_THROTTLED
