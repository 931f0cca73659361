"""The served APIs: their names, versions and listeners.

The table below is the only list of what is served. It contains exactly the versions that the
daemon can read and answer.

Source: Kafka 4.4 ApiKeys, ApiMessageType; KIP-140 for version 0 of the ACL requests, which Kafka
4.0 dropped; KIP-511 and KIP-1242 for ApiVersions; KIP-801 for version 1 of Envelope.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

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
