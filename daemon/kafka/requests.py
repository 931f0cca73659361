"""The fields that handlers read from Kafka's requests.

kio has one class for each version of a request. These protocols have the fields of all versions. If
only some versions have a field, handlers read it with ``getattr`` and a default, or check the
version first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ApiVersionsRequest(Protocol):
    client_software_version: str
    """From version 3."""
    node_id: int
    """From version 5, as is the cluster's id."""


class SaslHandshakeRequest(Protocol):
    mechanism: str


class SaslAuthenticateRequest(Protocol):
    auth_bytes: bytes


class RequestedTopic(Protocol):
    name: str | None


class MetadataRequest(Protocol):
    topics: Sequence[RequestedTopic] | None


class DescribeClusterRequest(Protocol):
    """All fields depend on the version."""


class FindCoordinatorRequest(Protocol):
    key: str
    """Before version 4."""
    coordinator_keys: Sequence[str]
    """From version 4."""


class DescribeGroupsRequest(Protocol):
    groups: Sequence[str]


class ResourceToDescribe(Protocol):
    resource_type: int
    resource_name: str
    configuration_keys: Sequence[str] | None


class DescribeConfigsRequest(Protocol):
    resources: Sequence[ResourceToDescribe]
    include_synonyms: bool


class RequestedConfig(Protocol):
    name: str
    value: str | None


class ResourceToAlter(Protocol):
    resource_type: int
    resource_name: str
    configs: Sequence[RequestedConfig]


class AlterConfigsRequest(Protocol):
    """AlterConfigs or IncrementalAlterConfigs."""

    resources: Sequence[ResourceToAlter]
    validate_only: bool


class QuotaFilterComponent(Protocol):
    entity_type: str
    match_type: int
    match: str | None


class DescribeClientQuotasRequest(Protocol):
    components: Sequence[QuotaFilterComponent]


class RequestedUser(Protocol):
    name: str


class DescribeUserScramCredentialsRequest(Protocol):
    users: Sequence[RequestedUser] | None


class ScramCredentialDeletion(Protocol):
    name: str
    mechanism: int


class ScramCredentialUpsertion(Protocol):
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class AlterUserScramCredentialsRequest(Protocol):
    deletions: Sequence[ScramCredentialDeletion]
    upsertions: Sequence[ScramCredentialUpsertion]


class RequestedPartition(Protocol):
    partition_index: int


class RequestedQuorumTopic(Protocol):
    topic_name: str
    partitions: Sequence[RequestedPartition]


class DescribeQuorumRequest(Protocol):
    topics: Sequence[RequestedQuorumTopic]
