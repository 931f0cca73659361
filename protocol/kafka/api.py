"""The served APIs: their versions, headers, and bodies to entities and back.

The table below is the only list of what is served. It contains exactly the versions that the
daemon can read and answer.

Source: Kafka 4.4 ApiKeys, ApiMessageType; KIP-140 for version 0 of the ACL requests, which Kafka
4.0 dropped; KIP-511 and KIP-1242 for ApiVersions; KIP-801 for version 1 of Envelope.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import Final

import msgspec
from kio.index import load_request_schema, load_response_schema
from kio.static.protocol import RequestPayload, ResponsePayload

from authorizerd.acl.steps import Steps
from authorizerd.protocol.kafka import acls_v0 as kafka_acls_v0
from authorizerd.protocol.kafka import api_versions_v5 as kafka_api_versions_v5
from authorizerd.protocol.kafka import envelope_v1 as kafka_envelope_v1
from authorizerd.protocol.kafka.message_codec import (
    decode_entity,
    encode_entity,
    encode_entity_in_chunks,
)

REQUEST_ITEMS_MAX: Final = 10_000
"""The maximum number of items, such as topics, in one request. Each of them adds to the answer."""
NO_TAGS: Final = b"\0"
"""The end of a flexible header without tagged fields."""


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

_REQUESTS_KIO_LACKS: Final[Mapping[tuple[int, int], type[RequestPayload]]] = {
    (ApiKey.DESCRIBE_ACLS, 0): kafka_acls_v0.DescribeAclsRequest,
    (ApiKey.CREATE_ACLS, 0): kafka_acls_v0.CreateAclsRequest,
    (ApiKey.DELETE_ACLS, 0): kafka_acls_v0.DeleteAclsRequest,
    (ApiKey.ENVELOPE, 1): kafka_envelope_v1.EnvelopeRequest,
    (ApiKey.API_VERSIONS, 5): kafka_api_versions_v5.ApiVersionsRequest,
}
_RESPONSES_KIO_LACKS: Final[Mapping[tuple[int, int], type[ResponsePayload]]] = {
    (ApiKey.DESCRIBE_ACLS, 0): kafka_acls_v0.DescribeAclsResponse,
    (ApiKey.CREATE_ACLS, 0): kafka_acls_v0.CreateAclsResponse,
    (ApiKey.DELETE_ACLS, 0): kafka_acls_v0.DeleteAclsResponse,
    (ApiKey.ENVELOPE, 1): kafka_envelope_v1.EnvelopeResponse,
    (ApiKey.API_VERSIONS, 5): kafka_api_versions_v5.ApiVersionsResponse,
}

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def served_apis(*, is_controller: bool) -> Mapping[ApiKey, Api]:
    """Return the APIs that a controller's or a broker's listener serves, as Kafka's does."""
    return {
        key: api
        for key, api in APIS.items()
        if (api.is_on_controllers if is_controller else api.is_on_brokers)
    }


def has_response_tags(api_key: ApiKey, version: int) -> bool:
    """Return True if the header of a response has tagged fields.

    An ApiVersions response never has any: the client does not know its version yet.
    """
    return api_key is not ApiKey.API_VERSIONS and APIS[api_key].is_flexible(version)


@cache
def request_type(api_key: ApiKey, version: int) -> type[RequestPayload]:
    """Return the entity type of a served request."""
    assert APIS[api_key].serves(version)
    declared = _REQUESTS_KIO_LACKS.get((api_key, version))
    return declared or load_request_schema(api_key, version)


@cache
def response_type(api_key: ApiKey, version: int) -> type[ResponsePayload]:
    """Return the entity type of the response to a served request."""
    assert APIS[api_key].serves(version)
    declared = _RESPONSES_KIO_LACKS.get((api_key, version))
    return declared or load_response_schema(api_key, version)


def decode_request(api_key: ApiKey, version: int, body: bytes | bytearray) -> Steps[RequestPayload]:
    """Return, in steps, the request in ``body``. Trailing bytes are ignored, as in Kafka.

    ``protocol.kafka.acl_requests`` reads large ACL requests.

    Raises:
        DecodeError: the request is invalid (Kafka closes the connection), or has too many items.
    """
    return decode_entity(request_type(api_key, version), body, items_max=REQUEST_ITEMS_MAX)


def decode_response(
    api_key: ApiKey, version: int, body: bytes | bytearray
) -> Steps[ResponsePayload]:
    """Return, in steps, the response in ``body``. Trailing bytes are ignored, as in Kafka.

    Raises:
        DecodeError: the bytes are not such a response.
    """
    return decode_entity(response_type(api_key, version), body)


def encode_request(api_key: ApiKey, version: int, request: object) -> Steps[bytes]:
    """Return, in steps, the body of ``request``: an entity, or an object with its fields.

    Raises:
        ValueError: a string exceeds Kafka's maximum.
    """
    return encode_entity(request_type(api_key, version), request)


def encode_response(
    api_key: ApiKey, version: int, response: object
) -> Steps[list[bytes | bytearray]]:
    """Return, in steps, the body of ``response``: an entity, or an object with its fields.

    The body is in chunks.

    Raises:
        ValueError: a string exceeds Kafka's maximum.
    """
    return encode_entity_in_chunks(response_type(api_key, version), response)


def names_software(name: str, version: str) -> bool:
    """Return True if an ApiVersions request may use this client name. Otherwise: INVALID_REQUEST.

    Source: KIP-511, ApiVersionsRequest.isValid.
    """
    return bool(_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version))


def load_definitions() -> None:
    """Load the entities of all APIs, which takes tens of milliseconds.

    A server calls this at its start, because no request should wait for it. A client loads only
    the versions that it uses.
    """
    for key, api in APIS.items():
        for version in api.versions:
            request_type(key, version)
            response_type(key, version)
