"""The APIs that the daemon serves, and the replication APIs that its client requests.

``APIS`` is the only list of served APIs. It contains exactly the versions that the daemon can read
and answer.

A node's ApiVersions tells which versions it knows; the client chooses the highest that both sides
know. Controllers of Kafka know these versions:

| API             | 3.9  | 4.0  | 4.1  | 4.2  | 4.3  | 4.4  |
|-----------------|------|------|------|------|------|------|
| Fetch           | 0-17 | 4-17 | 4-18 | 4-18 | 4-18 | 4-18 |
| FetchSnapshot   | 0-1  | 0-1  | 0-1  | 0-1  | 0-1  | 0-1  |
| DescribeQuorum  | 0-2  | 0-2  | 0-2  | 0-2  | 0-2  | 0-2  |
| DescribeCluster | 0-1  | 0-2  | 0-2  | 0-2  | 0-2  | 0-2  |
| CreateAcls      | 0-3  | 1-3  | 1-3  | 1-3  | 1-3  | 1-3  |
| DeleteAcls      | 0-3  | 1-3  | 1-3  | 1-3  | 1-3  | 1-3  |
| Envelope        | 0-0  | 0-0  | 0-0  | 0-0  | 0-0  | 0-0  |
| ApiVersions     | 0-4  | 0-4  | 0-4  | 0-4  | 0-4  | 0-5  |
| SaslHandshake   | 0-1  | 0-1  | 0-1  | 0-1  | 0-1  | 0-1  |

Source: ApiKeys and ApiMessageType of Kafka 3.9.1, 4.0.0, 4.1.0, 4.2.0, 4.3.1 and 4.4.0; KIP-140
for version 0 of the ACL requests, which Kafka 4.0 dropped; KIP-511 and KIP-1242 for ApiVersions;
KIP-801 for version 1 of Envelope.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeAlias

import msgspec


class ApiKey(IntEnum):
    """The keys of the served APIs."""

    METADATA = 3
    FIND_COORDINATOR = 10
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    SASL_AUTHENTICATE = 36
    INCREMENTAL_ALTER_CONFIGS = 44
    DESCRIBE_CLIENT_QUOTAS = 48
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    ENVELOPE = 58
    DESCRIBE_CLUSTER = 60


class Api(msgspec.Struct, frozen=True):
    """An API: its name in the audit log, its versions, the first flexible one, its listeners."""

    name: str
    last_version: int
    flexible_version: int | None
    first_version: int = 0
    is_on_brokers: bool = True
    is_on_controllers: bool = True

    @property
    def versions(self) -> range:
        return range(self.first_version, self.last_version + 1)

    def serves(self, version: int) -> bool:
        return self.first_version <= version <= self.last_version

    def is_flexible(self, version: int) -> bool:
        """Return True if ``version``, known or not, has compact lengths and tagged fields."""
        return self.flexible_version is not None and version >= self.flexible_version


APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.METADATA: Api("Metadata", 13, 9, is_on_controllers=False),
    ApiKey.FIND_COORDINATOR: Api("FindCoordinator", 6, 3, is_on_controllers=False),
    ApiKey.DESCRIBE_GROUPS: Api("DescribeGroups", 6, 5, is_on_controllers=False),
    ApiKey.LIST_GROUPS: Api("ListGroups", 5, 3, is_on_controllers=False),
    ApiKey.SASL_HANDSHAKE: Api("SaslHandshake", 1, None),
    ApiKey.API_VERSIONS: Api("ApiVersions", 5, 3),
    ApiKey.DESCRIBE_ACLS: Api("DescribeAcls", 3, 2),
    ApiKey.CREATE_ACLS: Api("CreateAcls", 3, 2),
    ApiKey.DELETE_ACLS: Api("DeleteAcls", 3, 2),
    ApiKey.DESCRIBE_CONFIGS: Api("DescribeConfigs", 4, 4, first_version=1),
    ApiKey.ALTER_CONFIGS: Api("AlterConfigs", 2, 2),
    ApiKey.SASL_AUTHENTICATE: Api("SaslAuthenticate", 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Api("IncrementalAlterConfigs", 1, 1),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Api("DescribeClientQuotas", 1, 1, is_on_controllers=False),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Api("DescribeUserScramCredentials", 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Api("AlterUserScramCredentials", 0, 0),
    ApiKey.DESCRIBE_QUORUM: Api("DescribeQuorum", 2, 0),
    ApiKey.ENVELOPE: Api("Envelope", 1, 0, is_on_brokers=False),
    ApiKey.DESCRIBE_CLUSTER: Api("DescribeCluster", 2, 0),
}

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def served_apis(*, is_controller: bool) -> Mapping[ApiKey, Api]:
    """Return the APIs that a controller's or a broker's listener serves, as Kafka's does."""
    return {
        key: api
        for key, api in APIS.items()
        if (api.is_on_controllers if is_controller else api.is_on_brokers)
    }


def names_software(name: str, version: str) -> bool:
    """Return True if an ApiVersions request may use this client name. Otherwise: INVALID_REQUEST.

    Source: KIP-511, ApiVersionsRequest.isValid.
    """
    return bool(_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version))


class QuorumKey(IntEnum):
    """The keys of the APIs for replicas of the metadata log. The daemon serves none of them."""

    FETCH = 1
    FETCH_SNAPSHOT = 59


RequestedKey: TypeAlias = ApiKey | QuorumKey

REQUESTED_APIS: Final[Mapping[RequestedKey, Api]] = {
    **dict[RequestedKey, Api](APIS.items()),
    # Version 12 names the topic, which every Kafka release of the table rejects for the metadata
    # log.
    QuorumKey.FETCH: Api("Fetch", 18, 12, first_version=13),
    QuorumKey.FETCH_SNAPSHOT: Api("FetchSnapshot", 1, 0),
}

_FIRST_VERSIONS: Final[Mapping[RequestedKey, int]] = {
    ApiKey.SASL_HANDSHAKE: 1,  # version 0 is followed by bare tokens
    ApiKey.DESCRIBE_CLUSTER: 1,  # version 0 cannot list controllers
    ApiKey.DESCRIBE_ACLS: 1,  # version 0 has no pattern types
    ApiKey.CREATE_ACLS: 1,
    ApiKey.DELETE_ACLS: 1,
}
"""The first version that expresses what the client needs, of APIs with earlier versions."""


def choose_version(
    api_key: RequestedKey, lowest: int, highest: int, versions: range | None = None
) -> int | None:
    """Return the highest version that both sides support, or None.

    Args:
        lowest, highest: the versions that the node supports.
        versions: those that express what a call needs; None: those that most calls need.
    """
    api = REQUESTED_APIS[api_key]
    first = _FIRST_VERSIONS.get(api_key, api.first_version)
    wanted = versions or range(first, api.last_version + 1)
    chosen = min(highest, wanted[-1])
    return chosen if chosen >= max(lowest, wanted[0]) else None


def has_response_tags(api_key: RequestedKey, version: int) -> bool:
    """Return True if the header of a response has tagged fields.

    An ApiVersions response never has any: the client does not know its version yet.
    """
    return api_key is not ApiKey.API_VERSIONS and REQUESTED_APIS[api_key].is_flexible(version)
