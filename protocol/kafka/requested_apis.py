"""The APIs that our client requests: those that the daemon serves, and two that it does not.

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

Source: the jars of Kafka 3.9.1, 4.0.0, 4.1.0, 4.2.0, 4.3.1 and 4.4.0 (ApiMessageType).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeAlias

from authorizerd.protocol.kafka.api import APIS, Api, ApiKey


class QuorumKey(IntEnum):
    """The keys of the APIs with which replicas read the metadata log. The daemon serves none."""

    FETCH = 1
    FETCH_SNAPSHOT = 59


RequestedKey: TypeAlias = ApiKey | QuorumKey

REQUESTED_APIS: Final[Mapping[RequestedKey, Api]] = {
    **dict[RequestedKey, Api](APIS.items()),
    # Version 12 names the topic, and every Kafka of the table refuses that for the metadata log.
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
"""The first versions that express what the client needs, if the API has earlier ones."""


def choose_version(api_key: RequestedKey, lowest: int, highest: int) -> int | None:
    """Return the highest version that both sides know, or None.

    Args:
        lowest, highest: the versions that the node knows.
    """
    api = REQUESTED_APIS[api_key]
    chosen = min(highest, api.last_version)
    first = _FIRST_VERSIONS.get(api_key, api.first_version)
    return chosen if chosen >= max(lowest, first) else None


def has_response_tags(api_key: RequestedKey, version: int) -> bool:
    """Return True if the header of a response has tagged fields.

    An ApiVersions response never has any: the client does not know its version yet.
    """
    return api_key is not ApiKey.API_VERSIONS and REQUESTED_APIS[api_key].is_flexible(version)
