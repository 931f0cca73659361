"""Ask a broker about its cluster, for the metadata shell.

Every request only reads. What a broker does not tell this client is a ``NotToldError`` with the
reason, never an empty result. Every function raises it.

Source: KIP-140 (ACLs), KIP-226 (configs), KIP-546 (quotas), KIP-554 (SCRAM users), KIP-584.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from authorizerd.acl.model import Acl
from authorizerd.acl.steps import finish
from authorizerd.cli.broker_acls import BrokerReader, configs_call, find_listing_errors
from authorizerd.cli.shell.folders import QuotaEntity
from authorizerd.cli.shell.java_text import REDACTED
from authorizerd.image.changes import ScramCredential
from authorizerd.image.cluster import ConfigResource, Login
from authorizerd.kafka_client.connection import Call, message_call
from authorizerd.kafka_client.errors import RequestFailedError
from authorizerd.kafka_client.quorum_calls import LISTING_CALL
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_client import read_listing
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.requests import (
    ApiVersionsRequest,
    DescribeClientQuotasRequest,
    DescribeUserScramCredentialsRequest,
)
from authorizerd.protocol.kafka.responses import (
    ApiVersionsAnswer,
    DescribeClientQuotasAnswer,
    DescribeUserScramCredentialsAnswer,
    MetadataAnswer,
)

T = TypeVar("T")

BROKER: Final = 4
TOPIC: Final = 2
"""Kafka's ConfigResource.Type."""

_RESOURCES_PER_REQUEST: Final = 100
_SOURCES: Final = {(TOPIC, True): 1, (BROKER, True): 2, (BROKER, False): 3}
"""Kafka's ConfigSource of a dynamic config, by the resource's type and whether it has a name."""
_NOT_TOLD: Final = frozenset(
    (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.INVALID_REQUEST,
    )
)
"""Errors of one request, after which others may succeed."""


class NotToldError(Exception):
    """A broker does not tell this client what it asks for; the text says why."""


async def fetch_features(reader: BrokerReader) -> dict[str, int]:
    """Return the finalized features."""
    software = ApiVersionsRequest(client_software_name="authorizerd", client_software_version="0")
    answer = await _ask(reader, message_call(ApiKey.API_VERSIONS, software, ApiVersionsAnswer))
    # A broker that does not know them leaves the epoch out.
    if answer.finalized_features_epoch < 0:
        raise NotToldError("the broker does not tell which features are finalized")
    return {each.name: each.max_version_level for each in answer.finalized_features}


async def fetch_acls(reader: BrokerReader) -> dict[bytes, Acl]:
    """Return all ACLs by ids that are derived from their fields."""
    try:
        version, body = await _ask(reader, LISTING_CALL, find_listing_errors)
        return dict(finish(read_listing(version, body)).items())
    except DecodeError as error:
        raise NotToldError(f"DescribeAcls: {error}") from error


async def fetch_metadata(reader: BrokerReader) -> MetadataAnswer:
    """Return the brokers and the topics."""
    return await reader.read_metadata()


async def fetch_quotas(reader: BrokerReader) -> dict[QuotaEntity, dict[str, float]]:
    """Return all quotas."""
    everything = DescribeClientQuotasRequest(components=())
    call = message_call(ApiKey.DESCRIBE_CLIENT_QUOTAS, everything, DescribeClientQuotasAnswer)
    answer = await _ask(reader, call, _find_error)
    return {
        tuple((pair.entity_type, pair.entity_name) for pair in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in answer.entries or ()
    }


async def fetch_credentials(reader: BrokerReader) -> dict[Login, ScramCredential]:
    """Return the SCRAM users, with empty keys: brokers do not tell them."""
    call = message_call(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        DescribeUserScramCredentialsRequest(users=None),
        DescribeUserScramCredentialsAnswer,
    )
    answer = await _ask(reader, call, _find_error)
    return {
        (each.user, info.mechanism): ScramCredential(b"", b"", b"", info.iterations)
        for each in answer.results
        for info in each.credential_infos
    }


class ToldConfigs(msgspec.Struct, frozen=True):
    """Dynamic configs, and why those of other resources are not told, each reason once."""

    values: dict[ConfigResource, dict[str, str]]
    refusals: tuple[str, ...]


async def fetch_configs(reader: BrokerReader, resources: Sequence[ConfigResource]) -> ToldConfigs:
    """Return the dynamic configs of these resources."""
    values: dict[ConfigResource, dict[str, str]] = {}
    refusals: dict[str, None] = {}
    for start in range(0, len(resources), _RESOURCES_PER_REQUEST):
        asked = resources[start : start + _RESOURCES_PER_REQUEST]
        answer = await _ask(reader, configs_call(asked))
        for each in answer.results:
            resource = each.resource_type, each.resource_name
            if each.error_code:
                refusals[str(ApiError(each.error_code, each.error_message))] = None
                continue
            source = _SOURCES.get((each.resource_type, bool(each.resource_name)))
            found = {
                config.name: REDACTED if config.value is None else config.value
                for config in each.configs
                if config.config_source == source
            }
            if found:
                values[resource] = found
    return ToldConfigs(values, tuple(refusals))


def _find_error(
    answer: DescribeClientQuotasAnswer | DescribeUserScramCredentialsAnswer,
) -> list[ApiError]:
    return [ApiError(answer.error_code, answer.error_message)] if answer.error_code else []


async def _ask(
    reader: BrokerReader,
    call: Call[T],
    find_errors: Callable[[T], Sequence[ApiError]] = lambda _: (),
) -> T:
    name = call.api_key.name
    try:
        return await reader.client.request(call, name=name, errors=find_errors)
    except RequestFailedError as error:
        if error.error.code in _NOT_TOLD:
            raise NotToldError(f"{name}: {error.error}") from error
        raise reader.new_error(error) from error
