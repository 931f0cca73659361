"""Kafka's requests, each with the fields of all versions. See ``wire_types``.

The ACL requests are in ``acls``.

Source: the message definitions of Kafka 4.4; KIP-1242 for version 5 of ApiVersions; KIP-801 for
version 1 of Envelope, which Kafka never shipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from authorizerd.protocol.kafka.wire_types import (
    NEVER,
    Only,
    boolean,
    data,
    int8,
    int32,
    text,
    uuid,
)


class ApiVersionsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Ask which APIs are served (KIP-511)."""

    client_software_name: Annotated[text | None, Only(since=3, nullable_since=NEVER)] = None
    client_software_version: Annotated[text, Only(since=3)] = ""
    cluster_id: Annotated[text | None, Only(since=5)] = None
    node_id: Annotated[int32, Only(since=5)] = -1


class SaslHandshakeRequest(msgspec.Struct, frozen=True, kw_only=True):
    mechanism: text


class SaslAuthenticateRequest(msgspec.Struct, frozen=True, kw_only=True):
    auth_bytes: data

    def __repr__(self) -> str:
        """Return a text without the token, which may contain a password."""
        return "SaslAuthenticateRequest()"


class RequestedTopic(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A topic by its name or, from version 12 on, by its id."""

    topic_id: Annotated[uuid, Only(since=10)] = None
    name: Annotated[text | None, Only(nullable_since=10)]


class MetadataRequest(msgspec.Struct, frozen=True, kw_only=True):
    topics: Annotated[Sequence[RequestedTopic] | None, Only(nullable_since=1)]
    allow_auto_topic_creation: Annotated[boolean, Only(since=4)] = True
    include_cluster_authorized_operations: Annotated[boolean, Only(since=8, until=10)] = False
    include_topic_authorized_operations: Annotated[boolean, Only(since=8)] = False


class DescribeClusterRequest(msgspec.Struct, frozen=True, kw_only=True):
    include_cluster_authorized_operations: boolean = False
    endpoint_type: Annotated[int8, Only(since=1)] = 1
    include_fenced_brokers: Annotated[boolean, Only(since=2)] = False


class FindCoordinatorRequest(msgspec.Struct, frozen=True, kw_only=True):
    key: Annotated[text, Only(until=3)] = ""
    key_type: Annotated[int8, Only(since=1)] = 0
    coordinator_keys: Annotated[Sequence[text], Only(since=4)] = ()


class DescribeGroupsRequest(msgspec.Struct, frozen=True, kw_only=True):
    groups: Sequence[text]
    include_authorized_operations: Annotated[boolean, Only(since=3)] = False


class ListGroupsRequest(msgspec.Struct, frozen=True, kw_only=True):
    states_filter: Annotated[Sequence[text], Only(since=4)] = ()
    types_filter: Annotated[Sequence[text], Only(since=5)] = ()


class ResourceToDescribe(msgspec.Struct, frozen=True, kw_only=True):
    """A resource whose configs are asked for. Without keys, all configs are returned."""

    resource_type: int8
    resource_name: text
    configuration_keys: Sequence[text] | None = None


class DescribeConfigsRequest(msgspec.Struct, frozen=True, kw_only=True):
    resources: Sequence[ResourceToDescribe]
    include_synonyms: boolean = False
    include_documentation: Annotated[boolean, Only(since=3)] = False


class RequestedConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A key and its value, None to remove it."""

    name: text
    value: text | None


class ResourceToReplace(msgspec.Struct, frozen=True, kw_only=True):
    resource_type: int8
    resource_name: text
    configs: Sequence[RequestedConfig]


class AlterConfigsRequest(msgspec.Struct, frozen=True, kw_only=True):
    resources: Sequence[ResourceToReplace]
    validate_only: boolean = False


class ConfigAlteration(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    name: text
    config_operation: int8
    value: text | None


class ResourceToAlter(msgspec.Struct, frozen=True, kw_only=True):
    resource_type: int8
    resource_name: text
    configs: Sequence[ConfigAlteration]


class IncrementalAlterConfigsRequest(msgspec.Struct, frozen=True, kw_only=True):
    resources: Sequence[ResourceToAlter]
    validate_only: boolean = False


class QuotaFilterComponent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    entity_type: text
    match_type: int8
    match: text | None


class DescribeClientQuotasRequest(msgspec.Struct, frozen=True, kw_only=True):
    components: Sequence[QuotaFilterComponent]
    strict: boolean = False


class RequestedUser(msgspec.Struct, frozen=True, gc=False):
    name: text


class DescribeUserScramCredentialsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for the credentials of users; without names, of all users."""

    users: Sequence[RequestedUser] | None


class ScramCredentialDeletion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    name: text
    mechanism: int8


class ScramCredentialUpsertion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    name: text
    mechanism: int8
    iterations: int32
    salt: data
    salted_password: data

    def __repr__(self) -> str:
        """Return a text without the salted password."""
        return f"ScramCredentialUpsertion(name={self.name!r})"


class AlterUserScramCredentialsRequest(msgspec.Struct, frozen=True, kw_only=True):
    deletions: Sequence[ScramCredentialDeletion]
    upsertions: Sequence[ScramCredentialUpsertion]


class EnvelopeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Forward a request (KIP-590). ``envelope.open_envelope`` reads it without copying it."""

    request_data: data
    request_principal: data | None
    client_host_address: data
