"""Ask a cluster's brokers what the client that is logged in may do.

**Invariant:** requests only read, and are no more frequent than the given rate, and no earlier than
a broker's throttling permits. No topic is created: a coordinator is found by asking every broker,
since FindCoordinator would create the topic of offsets.

Source: KIP-430, KIP-219 (throttling); Kafka 4.3 KafkaApis, AuthHelper.authorizedOperations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Final, NamedTuple, Protocol, TypeVar

import trio

from authorizerd.acl.model import CLUSTER_NAME, Operation, ResourceType
from authorizerd.acl.operations import NOT_REQUESTED
from authorizerd.cli.broker_acls import BrokerReader
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import warn
from authorizerd.cli.question_words import Resource
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import KafkaClient
from authorizerd.kafka_client.connection import Call, message_call
from authorizerd.kafka_client.errors import RequestFailedError
from authorizerd.protocol.kafka import requests, responses
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

CLUSTER: Final[Resource] = (ResourceType.CLUSTER, CLUSTER_NAME)
UNANSWERED: Final = "no broker answers"

_METADATA_VERSIONS: Final = range(8, 14)
_GROUP_VERSIONS: Final = range(3, 6)
"""The versions with authorized operations. Version 6 has none for groups that do not exist."""
_KAFKA_4_VERSIONS: Final = range(6, 7)
_SINCE_KAFKA_4: Final = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
"""The operations that AclEntry.supportedOperations has for groups since Kafka 4.0."""
_CLUSTER_VERSIONS: Final = range(3)
_HIDDEN: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED)
_AFTER_DESCRIBE: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""The errors of a group whose right DESCRIBE the broker has checked before."""


class Shown(NamedTuple):
    """What brokers show of a resource.

    Attributes:
        is_visible: whether DESCRIBE is allowed; None if no broker has said so.
        bits: KIP-430's field; None if it is not known.
        reason: why something is not known.
        unreported: operations that these brokers never report, even if they are allowed.
    """

    is_visible: bool | None
    bits: int | None = None
    reason: str = UNANSWERED
    unreported: tuple[Operation, ...] = ()


def _read(code: int, bits: int, unreported: tuple[Operation, ...] = ()) -> Shown:
    """Return what an answer with an error code and KIP-430's field shows."""
    if bits != NOT_REQUESTED and bits >> Operation.DESCRIBE & 1:
        return Shown(True, bits, "", unreported)
    # A field without DESCRIBE is the cluster's, or the right was removed meanwhile.
    if code in _HIDDEN or bits != NOT_REQUESTED:
        return Shown(False)
    reason = f"the brokers answer {ApiError(code).name}" if code else "the brokers do not say"
    return Shown(True if code in _AFTER_DESCRIBE else None, None, reason)


class _Throttled(Protocol):
    @property
    def throttle_time(self) -> timedelta: ...


T = TypeVar("T", bound=_Throttled)


class UnsupportedError(CommandError):
    """A broker does not know the versions of a request."""


class Brokers:
    """Ask a cluster.

    Args:
        stack: closes the connections to the brokers.

    Attributes:
        cluster_id: empty until ``list_resources``.
        nodes: the brokers that answer, known after ``list_resources``.
    """

    def __init__(self, reader: BrokerReader, per_second: float, stack: AsyncExitStack) -> None:
        self._reader = reader
        self._pause_seconds = 1 / per_second
        self._next_time = 0.0
        self._stack = stack
        self._unreported: tuple[Operation, ...] = ()
        self.cluster_id = ""
        self.nodes: dict[Address, KafkaClient] = {}

    async def list_resources(self) -> list[Resource]:
        """Return the topics, and then the groups, that the brokers list.

        Raises:
            CommandError: no broker answers.
        """
        found = await self._ask_metadata(None)
        if found.error_code:
            warn(f"the brokers do not list topics: {ApiError(found.error_code)}")
        self.cluster_id = found.cluster_id or ""
        for broker in found.brokers:
            address = Address(broker.host, broker.port)
            client = self._reader.client.at(address)
            self.nodes[address] = await self._stack.enter_async_context(client)
        try:
            await self._ask(self._reader.client, _groups_call((), _KAFKA_4_VERSIONS))
        except UnsupportedError:
            self._unreported = _SINCE_KAFKA_4
        groups: set[str] = set()
        asked = requests.ListGroupsRequest()
        call = message_call(ApiKey.LIST_GROUPS, asked, responses.ListGroupsAnswer)
        for address in list(self.nodes):
            answer = await self._ask_node(address, call)
            if answer is not None and answer.error_code:
                warn(f"{address} does not list its groups: {ApiError(answer.error_code)}")
            elif answer is not None:
                groups.update(each.group_id for each in answer.groups)
        topics = sorted((ResourceType.TOPIC, each.name) for each in found.topics if each.name)
        return [*topics, *((ResourceType.GROUP, name) for name in sorted(groups))]

    async def describe(self, resources: Iterable[Resource]) -> dict[Resource, Shown]:
        """Return what the brokers show of a few resources.

        Raises:
            CommandError: no broker answers, or it does not know KIP-430.
        """
        found = dict.fromkeys(resources, Shown(None))
        names = [name for kind, name in found if kind is ResourceType.TOPIC]
        if names:
            answer = await self._ask_metadata(names)
            found |= {
                (ResourceType.TOPIC, each.name): _read(
                    each.error_code, each.topic_authorized_operations
                )
                for each in answer.topics
                if each.name in names
            }
        await self._describe_groups(found)
        if CLUSTER in found:
            asked = requests.DescribeClusterRequest(include_cluster_authorized_operations=True)
            described = await self._ask(
                self._reader.client,
                message_call(
                    ApiKey.DESCRIBE_CLUSTER,
                    asked,
                    responses.DescribeClusterAnswer,
                    _CLUSTER_VERSIONS,
                ),
            )
            found[CLUSTER] = _read(described.error_code, described.cluster_authorized_operations)
        return found

    async def _describe_groups(self, found: dict[Resource, Shown]) -> None:
        """Ask broker after broker, until the coordinator of each group has answered."""
        for address in list(self.nodes):
            names = [
                name
                for (kind, name), shown in found.items()
                if kind is ResourceType.GROUP and shown.is_visible is not False and not shown.bits
            ]
            if not names:
                return
            answer = await self._ask_node(address, _groups_call(names, _GROUP_VERSIONS))
            for each in () if answer is None else answer.groups:
                resource = (ResourceType.GROUP, each.group_id)
                shown = _read(each.error_code, each.authorized_operations, self._unreported)
                is_asked = each.group_id in names  # a broker may answer about others
                if is_asked and (shown.is_visible is not None or not found[resource].is_visible):
                    found[resource] = shown

    async def _ask_metadata(self, names: Sequence[str] | None) -> responses.MetadataAnswer:
        """Describe topics with their operations, or list all without them."""
        asked = requests.MetadataRequest(
            topics=None
            if names is None
            else [requests.RequestedTopic(name=each) for each in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=names is not None,
        )
        call = message_call(ApiKey.METADATA, asked, responses.MetadataAnswer, _METADATA_VERSIONS)
        return await self._ask(self._reader.client, call)

    async def _ask_node(self, address: Address, call: Call[T]) -> T | None:
        """Return the answer of one broker, or None if it fails, which is printed once."""
        try:
            return await self._ask(self.nodes[address], call)
        except UnsupportedError:
            raise
        except CommandError as error:
            reason, _, _ = str(error).partition("\n")
            warn(f"{address} is not asked about groups: {reason}")
            del self.nodes[address]
            return None

    async def _ask(self, client: KafkaClient, call: Call[T]) -> T:
        await trio.sleep_until(self._next_time)
        self._next_time = trio.current_time() + self._pause_seconds
        try:
            answer = await client.request(call, name=call.api_key.name, errors=lambda _: ())
        except RequestFailedError as error:
            if error.error.code == ErrorCode.UNSUPPORTED_VERSION:
                reason = "expected a broker that tells authorized operations: Kafka 2.8 or newer"
                raise UnsupportedError(f"{call.api_key.name}: {reason}") from error
            raise self._reader.new_error(error) from error
        end_time = trio.current_time() + answer.throttle_time.total_seconds()
        self._next_time = max(self._next_time, end_time)
        return answer


def _groups_call(names: Sequence[str], versions: range) -> Call[responses.DescribeGroupsAnswer]:
    asked = requests.DescribeGroupsRequest(groups=names, include_authorized_operations=True)
    return message_call(ApiKey.DESCRIBE_GROUPS, asked, responses.DescribeGroupsAnswer, versions)
