"""The tree of a cluster as described by brokers: a folder requests its content when opened.

Every request only reads. If a broker does not report something to this client, the requesting
function raises ``NotToldError`` with the reason, and never returns an empty result instead.

**Invariant:** what a broker does not report is left out, and a message says so, once.

Source: KIP-140 (ACLs), KIP-226 (configs), KIP-546 (quotas), KIP-554 (SCRAM users), KIP-584.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from typing import Final, Protocol, TypeVar

import msgspec

from authorizerd.acl.model import Acl
from authorizerd.cli.broker_acls import (
    BrokerReader,
    configs_call,
    find_listing_errors,
    run_on_brokers,
)
from authorizerd.cli.output import warn
from authorizerd.cli.shell import folders
from authorizerd.cli.shell.java_text import REDACTED
from authorizerd.cli.shell.tree import Folder, folder_of
from authorizerd.image.changes import ScramCredential
from authorizerd.image.cluster import ConfigResource, Login
from authorizerd.kafka_client.connection import Call, message_call
from authorizerd.kafka_client.errors import RequestFailedError
from authorizerd.kafka_client.quorum_calls import LISTING_CALL
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka import responses
from authorizerd.protocol.kafka.acl_client import read_placed_listing
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.requests import (
    ApiVersionsRequest,
    DescribeClientQuotasRequest,
    DescribeUserScramCredentialsRequest,
)

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
"""Errors of one request after which other requests may succeed."""


class NotToldError(Exception):
    """A broker does not report what this client requested; the text says why."""


async def fetch_features(reader: BrokerReader) -> dict[str, int]:
    software = ApiVersionsRequest(client_software_name="authorizerd", client_software_version="0")
    answer = await _ask(
        reader, message_call(ApiKey.API_VERSIONS, software, responses.ApiVersionsAnswer)
    )
    # A broker that does not know the features omits the epoch.
    if answer.finalized_features_epoch < 0:
        raise NotToldError("the broker does not report which features are finalized")
    return {
        finalized_feature.name: finalized_feature.max_version_level
        for finalized_feature in answer.finalized_features
    }


async def fetch_acls(reader: BrokerReader) -> dict[bytes, Acl]:
    """Return all ACLs by ids that are derived from their fields."""
    try:
        version, body = await _ask(reader, LISTING_CALL, find_listing_errors)
        return dict(read_placed_listing(version, body)[0].items())
    except DecodeError as error:
        raise NotToldError(f"DescribeAcls: {error}") from error


async def fetch_quotas(reader: BrokerReader) -> dict[folders.QuotaEntity, dict[str, float]]:
    everything = DescribeClientQuotasRequest(components=())
    call = message_call(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, everything, responses.DescribeClientQuotasAnswer
    )
    answer = await _ask(reader, call, _find_error)
    return {
        tuple((pair.entity_type, pair.entity_name) for pair in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries or ()
    }


async def fetch_credentials(reader: BrokerReader) -> dict[Login, ScramCredential]:
    """Return the SCRAM users, with empty keys: brokers do not report them."""
    call = message_call(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        DescribeUserScramCredentialsRequest(users=None),
        responses.DescribeUserScramCredentialsAnswer,
    )
    answer = await _ask(reader, call, _find_error)
    return {
        (result.user, info.mechanism): ScramCredential(b"", b"", b"", info.iterations)
        for result in answer.results
        for info in result.credential_infos
    }


class ToldConfigs(msgspec.Struct, frozen=True):
    """Dynamic configs, and the reasons why other resources' configs are missing, each once."""

    values: dict[ConfigResource, dict[str, str]]
    refusals: tuple[str, ...]


async def fetch_configs(reader: BrokerReader, resources: Sequence[ConfigResource]) -> ToldConfigs:
    values: dict[ConfigResource, dict[str, str]] = {}
    refusals: dict[str, None] = {}
    for start in range(0, len(resources), _RESOURCES_PER_REQUEST):
        asked = resources[start : start + _RESOURCES_PER_REQUEST]
        answer = await _ask(reader, configs_call(asked))
        for result in answer.results:
            resource = result.resource_type, result.resource_name
            if result.error_code:
                refusals[str(ApiError(result.error_code, result.error_message))] = None
                continue
            source = _SOURCES.get((result.resource_type, bool(result.resource_name)))
            found = {
                config.name: REDACTED if config.value is None else config.value
                for config in result.configs
                if config.config_source == source
            }
            if found:
                values[resource] = found
    return ToldConfigs(values, tuple(refusals))


def _find_error(
    answer: responses.DescribeClientQuotasAnswer | responses.DescribeUserScramCredentialsAnswer,
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


T = TypeVar("T")

NOTE: Final = (
    "brokers do not report everything, and ACL ids are derived here. A log has the rest (--log-dir)"
)


class Ask(Protocol):
    """Ask the brokers, through a new connection. Blocks."""

    def __call__(self, fetch: Callable[[BrokerReader], Awaitable[T]], /) -> T: ...


def open_broker_tree(servers: str, command_config: str | None) -> Folder:
    """Return the tree of a cluster. ``NOTE`` describes what it lacks."""

    def ask(fetch: Callable[[BrokerReader], Awaitable[T]]) -> T:
        return run_on_brokers(servers, command_config, fetch)

    return broker_tree(ask, warn)


def broker_tree(ask: Ask, warn: Callable[[str], None]) -> Folder:
    """Return the tree of what brokers report. Nothing is requested until a folder is opened.

    Folders raise CommandError if no broker answers, or authentication is refused.

    Args:
        warn: called with a line for each folder that is left out.
    """

    def load(path: str, fetch: Callable[[BrokerReader], Awaitable[T]]) -> Callable[[], T | None]:
        def ask_once() -> T | None:
            try:
                return ask(fetch)
            except NotToldError as error:
                warn(f"{path} is left out: {error}")
                return None

        return cache(ask_once)

    metadata = load("/image/cluster and /image/topics", BrokerReader.read_metadata)
    configs = _Configs(ask, warn, metadata)
    children: folders.Children = {
        "clientQuotas": _folder(load("/image/clientQuotas", fetch_quotas), folders.quotas_folder),
        "cluster": _folder(metadata, _cluster),
        "configs": configs.open,
        "features": _folder(load("/image/features", fetch_features), folders.features_folder),
        "scram": _folder(load("/image/scram", fetch_credentials), folders.scram_folder),
        "topics": _folder(metadata, _topics),
    }
    return folders.root_of(children, load("/acl and /image/acls", fetch_acls))


def _folder(
    load: Callable[[], T | None], create: Callable[[T], Folder]
) -> Callable[[], Folder | None]:
    def open_folder() -> Folder | None:
        loaded = load()
        return None if loaded is None else create(loaded)

    return open_folder


def _cluster(metadata: responses.MetadataAnswer) -> Folder:
    brokers = {int(broker.node_id): broker for broker in metadata.brokers}
    return folder_of({"brokers": lambda: folders.nodes_folder(brokers, _describe_node)})


def _describe_node(node: responses.MetadataBroker) -> str:
    name = node.rack
    rack = "Optional.empty" if name is None else f"Optional[{name}]"
    listener = f"Endpoint(host='{node.host}', port={node.port})"
    return f"BrokerRegistration(id={node.node_id}, listeners=[{listener}], rack={rack})"


def _list_topics(metadata: responses.MetadataAnswer) -> dict[str, responses.MetadataTopic]:
    return {topic.name: topic for topic in metadata.topics if topic.name and not topic.error_code}


def _topics(metadata: responses.MetadataAnswer) -> Folder:
    topics = _list_topics(metadata)

    def find(name: str) -> Folder | None:
        topic = topics.get(name)
        if topic is None:
            return None
        partitions = {int(partition.partition_index): partition for partition in topic.partitions}
        return folders.topic_folder(_id_of(topic), name, partitions, _describe_partition)

    return folders.topics_folder(
        {_id_of(topic): name for name, topic in topics.items()}, find, topics
    )


def _id_of(topic: responses.MetadataTopic) -> bytes:
    """Return the 16 bytes of a topic's id, zeros if the broker does not report it."""
    found = topic.topic_id
    return bytes(16) if found is None else bytes(found.bytes)


def _describe_partition(partition: responses.MetadataPartition) -> str:
    return (
        f"PartitionRegistration(replicas={list(partition.replica_nodes)}, "
        f"isr={list(partition.isr_nodes)}, leader={partition.leader_id}, "
        f"leaderEpoch={partition.leader_epoch})"
    )


class _Configs:
    """The folder of configs. A topic's configs are requested when its folder is opened."""

    def __init__(
        self,
        ask: Ask,
        warn: Callable[[str], None],
        load_metadata: Callable[[], responses.MetadataAnswer | None],
    ) -> None:
        self._ask: Final = ask
        self._warn: Final = warn
        self._load_metadata: Final = load_metadata
        self._known: Final[dict[ConfigResource, Mapping[str, str]]] = {}
        self._topics: list[ConfigResource] = []
        self._refused: Final[set[str]] = set()

    def open(self) -> Folder | None:
        """Return the folder, or None if the broker does not report its own configs."""
        metadata = self._load_metadata()
        if metadata is None:
            return None
        numbers = (str(broker.node_id) for broker in metadata.brokers)
        if not self._learn([(BROKER, ""), *((BROKER, number) for number in numbers)]):
            return None
        self._topics = [(TOPIC, name) for name in _list_topics(metadata)]
        return Folder(self._names, self._find)

    def _names(self) -> list[str]:
        self._learn([topic for topic in self._topics if topic not in self._known])
        return [
            folders.name_resource(resource) for resource, values in self._known.items() if values
        ]

    def _find(self, name: str) -> Folder | None:
        resource = folders.read_resource_name(name)
        if resource is None:
            return None
        if resource[0] == TOPIC and resource not in self._known:
            self._learn([resource])
        values = self._known.get(resource)
        return folders.config_table(resource, values) if values else None

    def _learn(self, resources: Sequence[ConfigResource]) -> bool:
        """Ask for the configs of these resources; return False if none are reported."""
        try:
            told = self._ask(partial(fetch_configs, resources=resources))
        except NotToldError as error:
            self._warn_once(str(error))
            return False
        for refusal in told.refusals:
            self._warn_once(refusal)
        self._known.update({resource: {} for resource in resources})
        self._known.update(told.values)
        return bool(told.values) or not told.refusals

    def _warn_once(self, reason: str) -> None:
        if reason not in self._refused:
            self._refused.add(reason)
            self._warn(f"/image/configs is incomplete: {reason}")
