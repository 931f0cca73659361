"""Answers to Kafka requests as plain values, with the fields of all versions of each response.

``protocol.kafka.api.encode_response`` writes only the fields that the request's version has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec

from authorizerd.acl.operations import NOT_REQUESTED
from authorizerd.protocol.kafka.chunked_output import Items
from authorizerd.protocol.kafka.error_codes import ErrorCode

NOT_THROTTLED: Final = timedelta(0)
BROKER_ENDPOINTS: Final = 1
CONTROLLER_ENDPOINTS: Final = 2


class Node(msgspec.Struct, frozen=True):
    """This daemon's address for clients."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False

    @property
    def broker_id(self) -> int:
        return self.node_id


class Cluster(msgspec.Struct):
    """The cluster as clients see it: one node, with each listener's advertised address.

    ``cluster_id`` is empty until it is known: the daemon learns that of a followed cluster.
    """

    cluster_id: str
    nodes: Mapping[str, Node]
    controller_listeners: frozenset[str]

    def node_of(self, listener_name: str) -> Node:
        return self.nodes[listener_name]


class ApiVersion(msgspec.Struct, frozen=True):
    api_key: int
    min_version: int
    max_version: int


class SupportedFeature(msgspec.Struct, frozen=True):
    name: str
    min_version: int
    max_version: int


class FinalizedFeature(msgspec.Struct, frozen=True):
    name: str
    max_version_level: int
    min_version_level: int


class ApiVersionsAnswer(msgspec.Struct, frozen=True):
    """The features are tagged fields, from version 3 on; an epoch of -1 means unknown."""

    api_keys: Sequence[ApiVersion]
    error_code: int = ErrorCode.NONE
    throttle_time: timedelta = NOT_THROTTLED
    supported_features: Sequence[SupportedFeature] = ()
    finalized_features_epoch: int = -1
    finalized_features: Sequence[FinalizedFeature] = ()


class SaslHandshakeAnswer(msgspec.Struct, frozen=True):
    error_code: int
    mechanisms: Sequence[str]


class SaslAuthenticateAnswer(msgspec.Struct, frozen=True):
    error_code: int = ErrorCode.NONE
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime: timedelta = NOT_THROTTLED


class MetadataPartition(msgspec.Struct, frozen=True):
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: Sequence[int]
    isr_nodes: Sequence[int]
    offline_replicas: Sequence[int]


class MetadataTopic(msgspec.Struct, frozen=True):
    error_code: int
    name: str | None
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: Items[MetadataPartition] = ()
    topic_authorized_operations: int = NOT_REQUESTED


class MetadataAnswer(msgspec.Struct, frozen=True):
    brokers: Sequence[Node]
    topics: Items[MetadataTopic]
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
    """The coordinator of one key.

    Before version 4, a request has only one key, and this is the whole response.
    """

    key: str
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = ""
    throttle_time: timedelta = NOT_THROTTLED


class FindCoordinatorAnswer(msgspec.Struct, frozen=True):
    coordinators: Items[Coordinator]
    throttle_time: timedelta = NOT_THROTTLED


class DescribedGroup(msgspec.Struct, frozen=True):
    error_code: int
    group_id: str
    error_message: str | None = None
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: Sequence[object] = ()
    authorized_operations: int = NOT_REQUESTED


class DescribeGroupsAnswer(msgspec.Struct, frozen=True):
    groups: Items[DescribedGroup]
    throttle_time: timedelta = NOT_THROTTLED


class ListGroupsAnswer(msgspec.Struct, frozen=True):
    error_code: int = ErrorCode.NONE
    groups: Sequence[object] = ()
    throttle_time: timedelta = NOT_THROTTLED


class ConfigSynonym(msgspec.Struct, frozen=True):
    name: str
    value: str | None
    source: int


class ConfigEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One config of a resource. ``value`` is None if the config is sensitive."""

    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_default: bool
    is_sensitive: bool
    synonyms: Sequence[ConfigSynonym] = ()
    config_type: int = 0
    documentation: str | None = None


class DescribedResource(msgspec.Struct, frozen=True, kw_only=True):
    resource_type: int
    resource_name: str
    error_code: int = ErrorCode.NONE
    error_message: str | None = ""
    configs: Items[ConfigEntry] = ()


class DescribeConfigsAnswer(msgspec.Struct, frozen=True):
    results: Items[DescribedResource]
    throttle_time: timedelta = NOT_THROTTLED


class AlteredResource(msgspec.Struct, frozen=True, kw_only=True):
    resource_type: int
    resource_name: str
    error_code: int = ErrorCode.NONE
    error_message: str | None = None


class AlterConfigsAnswer(msgspec.Struct, frozen=True):
    responses: Items[AlteredResource]
    throttle_time: timedelta = NOT_THROTTLED


class DescribeClientQuotasAnswer(msgspec.Struct, frozen=True):
    error_code: int = ErrorCode.NONE
    error_message: str | None = ""
    entries: Sequence[object] | None = ()
    throttle_time: timedelta = NOT_THROTTLED


class CredentialInfo(msgspec.Struct, frozen=True):
    mechanism: int
    iterations: int


class DescribedUser(msgspec.Struct, frozen=True, kw_only=True):
    user: str
    error_code: int = ErrorCode.NONE
    error_message: str | None = ""
    credential_infos: Sequence[CredentialInfo] = ()


class DescribeUserScramCredentialsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    results: Items[DescribedUser]
    error_code: int = ErrorCode.NONE
    error_message: str | None = ""
    throttle_time: timedelta = NOT_THROTTLED


class AlteredUser(msgspec.Struct, frozen=True, kw_only=True):
    user: str
    error_code: int = ErrorCode.NONE
    error_message: str | None = None


class AlterUserScramCredentialsAnswer(msgspec.Struct, frozen=True):
    results: Items[AlteredUser]
    throttle_time: timedelta = NOT_THROTTLED
