"""Kafka's responses, each with the fields of all versions. See ``wire_types``.

The ACL responses are in ``acls``. ``error_message`` is None or empty, as a broker sends it.

Source: the message definitions of Kafka 4.4.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

import msgspec

from authorizerd.acl.operations import NOT_REQUESTED
from authorizerd.protocol.kafka.chunked_output import Items
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.wire_types import (
    Only,
    boolean,
    data,
    duration,
    float64,
    int8,
    int16,
    int32,
    int64,
    long_duration,
    text,
    uuid,
)

NOT_THROTTLED: Final = timedelta(0)
BROKER_ENDPOINTS: Final = 1
CONTROLLER_ENDPOINTS: Final = 2


class ApiVersion(msgspec.Struct, frozen=True, gc=False):
    """The versions of an API."""

    api_key: int16
    min_version: int16
    max_version: int16


class SupportedFeature(msgspec.Struct, frozen=True, gc=False):
    name: text
    min_version: int16
    max_version: int16


class FinalizedFeature(msgspec.Struct, frozen=True, gc=False):
    name: text
    max_version_level: int16
    min_version_level: int16


class ApiVersionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The features are tagged fields, from version 3 on; an epoch of -1 means unknown."""

    error_code: int16 = ErrorCode.NONE
    api_keys: Items[ApiVersion] = ()
    throttle_time: Annotated[duration, Only(since=1)] = NOT_THROTTLED
    supported_features: Annotated[Items[SupportedFeature], Only(since=3, tag=0)] = ()
    finalized_features_epoch: Annotated[int64, Only(since=3, tag=1)] = -1
    finalized_features: Annotated[Items[FinalizedFeature], Only(since=3, tag=2)] = ()
    zk_migration_ready: Annotated[boolean, Only(since=3, tag=3)] = False


class SaslHandshakeAnswer(msgspec.Struct, frozen=True):
    error_code: int16
    mechanisms: Items[text]


class SaslAuthenticateAnswer(msgspec.Struct, frozen=True):
    error_code: int16 = ErrorCode.NONE
    error_message: text | None = ""
    auth_bytes: data = b""
    session_lifetime: Annotated[long_duration, Only(since=1)] = NOT_THROTTLED


class MetadataBroker(msgspec.Struct, frozen=True, gc=False):
    node_id: int32
    host: text
    port: int32
    rack: Annotated[text | None, Only(since=1)] = None


class MetadataPartition(msgspec.Struct, frozen=True, kw_only=True):
    error_code: int16
    partition_index: int32
    leader_id: int32
    leader_epoch: Annotated[int32, Only(since=7)] = -1
    replica_nodes: Items[int32] = ()
    isr_nodes: Items[int32] = ()
    offline_replicas: Annotated[Items[int32], Only(since=5)] = ()


class MetadataTopic(msgspec.Struct, frozen=True):
    """A topic, or why it is not described."""

    error_code: int16
    name: Annotated[text | None, Only(nullable_since=12)]
    topic_id: Annotated[uuid, Only(since=10)] = None
    is_internal: Annotated[boolean, Only(since=1)] = False
    partitions: Items[MetadataPartition] = ()
    topic_authorized_operations: Annotated[int32, Only(since=8)] = NOT_REQUESTED


class MetadataAnswer(msgspec.Struct, frozen=True, kw_only=True):
    throttle_time: Annotated[duration, Only(since=3)] = NOT_THROTTLED
    brokers: Items[MetadataBroker] = ()
    cluster_id: Annotated[text | None, Only(since=2)] = None
    controller_id: Annotated[int32, Only(since=1)] = -1
    topics: Items[MetadataTopic]
    cluster_authorized_operations: Annotated[int32, Only(since=8, until=10)] = NOT_REQUESTED
    error_code: Annotated[int16, Only(since=13)] = ErrorCode.NONE


class DescribedNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    broker_id: int32
    host: text
    port: int32
    rack: text | None = None
    is_fenced: Annotated[boolean, Only(since=2)] = False


class DescribeClusterAnswer(msgspec.Struct, frozen=True, kw_only=True):
    throttle_time: duration = NOT_THROTTLED
    error_code: int16 = ErrorCode.NONE
    error_message: text | None = None
    endpoint_type: Annotated[int8, Only(since=1)] = BROKER_ENDPOINTS
    cluster_id: text = ""
    controller_id: int32 = -1
    brokers: Items[DescribedNode] = ()
    cluster_authorized_operations: int32 = NOT_REQUESTED


class Coordinator(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    key: text
    node_id: int32 = -1
    host: text = ""
    port: int32 = -1
    error_code: int16 = ErrorCode.NONE
    error_message: text | None = ""


class FindCoordinatorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinators. Before version 4, there is a single key and coordinator."""

    throttle_time: Annotated[duration, Only(since=1)] = NOT_THROTTLED
    error_code: Annotated[int16, Only(until=3)] = ErrorCode.NONE
    error_message: Annotated[text | None, Only(since=1, until=3)] = ""
    node_id: Annotated[int32, Only(until=3)] = -1
    host: Annotated[text, Only(until=3)] = ""
    port: Annotated[int32, Only(until=3)] = -1
    coordinators: Annotated[Items[Coordinator], Only(since=4)] = ()


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group. No group exists here."""

    member_id: text
    group_instance_id: Annotated[text | None, Only(since=4)] = None
    client_id: text
    client_host: text
    member_metadata: data
    member_assignment: data


class DescribedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group, or why it is not described."""

    error_code: int16 = ErrorCode.NONE
    error_message: Annotated[text | None, Only(since=6)] = None
    group_id: text
    group_state: text = ""
    protocol_type: text = ""
    protocol_data: text = ""
    members: Items[GroupMember] = ()
    authorized_operations: Annotated[int32, Only(since=3)] = NOT_REQUESTED


class DescribeGroupsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    throttle_time: Annotated[duration, Only(since=1)] = NOT_THROTTLED
    groups: Items[DescribedGroup]


class ListedGroup(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A group. No group exists here."""

    group_id: text
    protocol_type: text
    group_state: Annotated[text, Only(since=4)] = ""
    group_type: Annotated[text, Only(since=5)] = ""


class ListGroupsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    throttle_time: Annotated[duration, Only(since=1)] = NOT_THROTTLED
    error_code: int16 = ErrorCode.NONE
    groups: Items[ListedGroup] = ()


class ConfigSynonym(msgspec.Struct, frozen=True, gc=False):
    name: text
    value: text | None
    source: int8


class ConfigEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One config of a resource. ``value`` is None if the config is sensitive."""

    name: text
    value: text | None
    read_only: boolean
    config_source: int8 = -1
    is_sensitive: boolean
    synonyms: Items[ConfigSynonym] = ()
    config_type: Annotated[int8, Only(since=3)] = 0
    documentation: Annotated[text | None, Only(since=3)] = None


class DescribedResource(msgspec.Struct, frozen=True, kw_only=True):
    """The configs of a resource, or why they are not described."""

    error_code: int16 = ErrorCode.NONE
    error_message: text | None = ""
    resource_type: int8
    resource_name: text
    configs: Items[ConfigEntry] = ()


class DescribeConfigsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    throttle_time: duration = NOT_THROTTLED
    results: Items[DescribedResource]


class AlteredResource(msgspec.Struct, frozen=True, kw_only=True):
    error_code: int16 = ErrorCode.NONE
    error_message: text | None = None
    resource_type: int8
    resource_name: text


class AlterConfigsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result for each resource of AlterConfigs and IncrementalAlterConfigs."""

    throttle_time: duration = NOT_THROTTLED
    responses: Items[AlteredResource]


IncrementalAlterConfigsAnswer = AlterConfigsAnswer


class QuotaEntity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    entity_type: text
    entity_name: text | None


class QuotaValue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    key: text
    value: float64


class QuotaEntry(msgspec.Struct, frozen=True, kw_only=True):
    entity: Items[QuotaEntity]
    values: Items[QuotaValue]


class DescribeClientQuotasAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Quotas; None if they are not disclosed."""

    throttle_time: duration = NOT_THROTTLED
    error_code: int16 = ErrorCode.NONE
    error_message: text | None = ""
    entries: Items[QuotaEntry] | None = ()


class CredentialInfo(msgspec.Struct, frozen=True, gc=False):
    mechanism: int8
    iterations: int32


class DescribedUser(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials of a user, or why they are not disclosed."""

    user: text
    error_code: int16 = ErrorCode.NONE
    error_message: text | None = ""
    credential_infos: Items[CredentialInfo] = ()


class DescribeUserScramCredentialsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    throttle_time: duration = NOT_THROTTLED
    error_code: int16 = ErrorCode.NONE
    error_message: text | None = ""
    results: Items[DescribedUser]


class AlteredUser(msgspec.Struct, frozen=True, kw_only=True):
    user: text
    error_code: int16 = ErrorCode.NONE
    error_message: text | None = None


class AlterUserScramCredentialsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    throttle_time: duration = NOT_THROTTLED
    results: Items[AlteredUser]


class EnvelopeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a forwarded request, or why it is not answered."""

    response_data: data | None = None
    error_code: int16 = ErrorCode.NONE
