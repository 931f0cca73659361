"""Ask a broker about its cluster, for the metadata shell.

Every request only reads. What a broker does not tell this client is a ``NotToldError`` with the
reason, never an empty result.

Source: KIP-140 (ACLs), KIP-226 (configs), KIP-546 (quotas), KIP-554 (SCRAM users), KIP-584.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Final, TypeVar

import msgspec
from kio.schema.api_versions.v4.response import ApiVersionsResponse
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.describe_user_scram_credentials.v0.response import (
    DescribeUserScramCredentialsResponse,
)
from kio.schema.metadata.v13.response import MetadataResponse

from authorizerd.acl.model import Acl
from authorizerd.acl.steps import finish
from authorizerd.cli.broker_acls import BrokerReader
from authorizerd.cli.shell.errors import NotToldError
from authorizerd.cli.shell.folders import QuotaEntity
from authorizerd.cli.shell.java_text import REDACTED
from authorizerd.image.changes import ScramCredential
from authorizerd.image.cluster import ConfigResource, Login
from authorizerd.kafka_client.connection import Call, entity_call
from authorizerd.kafka_client.errors import RequestFailedError
from authorizerd.kafka_client.listing_call import LISTING_CALL
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_listing import read_listing, read_listing_head
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

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


class ToldNode(msgspec.Struct, frozen=True):
    """A broker, as brokers tell it to clients."""

    id: int
    host: str
    port: int
    rack: str | None


class ToldPartition(msgspec.Struct, frozen=True):
    """A partition, as brokers tell it to clients."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int


class ToldTopic(msgspec.Struct, frozen=True):
    """A topic; ``id`` has 16 bytes, zeros if the broker does not tell it."""

    id: bytes
    partitions: dict[int, ToldPartition]


class ToldMetadata(msgspec.Struct, frozen=True):
    """The brokers by id, and the topics by name that this client may describe."""

    brokers: dict[int, ToldNode]
    topics: dict[str, ToldTopic]


async def fetch_features(reader: BrokerReader) -> dict[str, int]:
    """Return the finalized features.

    Raises:
        NotToldError: the broker does not tell them.
        StartError: the request fails.
    """
    software = SimpleNamespace(client_software_name="authorizerd", client_software_version="0")
    answer = await _ask(reader, entity_call(ApiKey.API_VERSIONS, software, ApiVersionsResponse))
    # A broker that does not know them leaves the epoch out, and old versions have no such fields.
    if getattr(answer, "finalized_features_epoch", -1) < 0:
        raise NotToldError("the broker does not tell which features are finalized")
    return {each.name: each.max_version_level for each in answer.finalized_features}


async def fetch_acls(reader: BrokerReader) -> dict[bytes, Acl]:
    """Return all ACLs by ids that are derived from their fields. Raises as ``fetch_features``."""

    def find_errors(answer: tuple[int, bytes | bytearray]) -> list[ApiError]:
        head = read_listing_head(*answer)
        return [] if head.error is None else [head.error]

    try:
        version, body = await _ask(reader, LISTING_CALL, find_errors)
        return dict(finish(read_listing(version, body)).items())
    except DecodeError as error:
        raise NotToldError(f"DescribeAcls: {error}") from error


async def fetch_metadata(reader: BrokerReader) -> ToldMetadata:
    """Return the brokers and the topics. Raises as ``fetch_features``."""
    answer: MetadataResponse = await reader.read_metadata()
    brokers: dict[int, ToldNode] = {
        each.node_id: ToldNode(each.node_id, each.host, each.port, getattr(each, "rack", None))
        for each in answer.brokers
    }
    topics: dict[str, ToldTopic] = {
        topic.name: ToldTopic(
            _id_of(topic),
            {
                each.partition_index: ToldPartition(
                    each.replica_nodes,
                    each.isr_nodes,
                    each.leader_id,
                    getattr(each, "leader_epoch", -1),
                )
                for each in topic.partitions
            },
        )
        for topic in answer.topics
        if topic.name and not topic.error_code
    }
    return ToldMetadata(brokers, topics)


def _id_of(topic: object) -> bytes:
    found = getattr(topic, "topic_id", None)  # old versions have none
    return bytes(16) if found is None else bytes(found.bytes)


async def fetch_quotas(reader: BrokerReader) -> dict[QuotaEntity, dict[str, float]]:
    """Return all quotas. Raises as ``fetch_features``."""
    everything = SimpleNamespace(components=(), strict=False)
    call = entity_call(ApiKey.DESCRIBE_CLIENT_QUOTAS, everything, DescribeClientQuotasResponse)
    answer = await _ask(reader, call, _find_error)
    return {
        tuple((pair.entity_type, pair.entity_name) for pair in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in answer.entries or ()
    }


async def fetch_credentials(reader: BrokerReader) -> dict[Login, ScramCredential]:
    """Return the SCRAM users, with empty keys: brokers do not tell them. Raises as the others."""
    call = entity_call(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        SimpleNamespace(users=None),
        DescribeUserScramCredentialsResponse,
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
    """Return the dynamic configs of these resources. Raises as ``fetch_features``."""
    values: dict[ConfigResource, dict[str, str]] = {}
    refusals: dict[str, None] = {}
    for start in range(0, len(resources), _RESOURCES_PER_REQUEST):
        asked = resources[start : start + _RESOURCES_PER_REQUEST]
        answer = await _ask(reader, _configs_call(asked))
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


def _configs_call(resources: Sequence[ConfigResource]) -> Call[DescribeConfigsResponse]:
    fields = SimpleNamespace(
        resources=tuple(
            SimpleNamespace(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in resources
        ),
        include_synonyms=False,
        include_documentation=False,
    )
    return entity_call(ApiKey.DESCRIBE_CONFIGS, fields, DescribeConfigsResponse)


def _find_error(
    answer: DescribeClientQuotasResponse | DescribeUserScramCredentialsResponse,
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
