"""Read the ACLs of a Kafka cluster, or of a daemon, from a broker's listener.

It takes longer to load than the rest of a command, so ``acl_source`` imports it only once a command
reads from brokers.

**Invariant:** a listing is complete or an error. A setting that the broker does not report is never
guessed. The cluster is never changed.

Source: KIP-140 (DescribeAcls), KIP-226 (DescribeConfigs); Kafka 4.3 ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec
import trio

from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.acl.listing import Listing
from authorizerd.acl.model import AclAdded
from authorizerd.acl.release_in_force import Evidence, ReleaseInForce, judge_release
from authorizerd.acl.snapshot import AclSnapshot, with_rules
from authorizerd.cli.acls.advice import advise
from authorizerd.cli.acls.arguments import Arguments
from authorizerd.cli.acls.connection_settings import open_context, read_settings
from authorizerd.cli.acls.errors import KafkaAclsError
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import warn
from authorizerd.cli.profile import name_servers
from authorizerd.cli.source_settings import SETTING_KEYS
from authorizerd.config.values import STANDARD_AUTHORIZER
from authorizerd.image.changes import UNKNOWN_LEVEL, ClusterChange, FeatureLevel, NodeRegistered
from authorizerd.image.cluster import EMPTY_IMAGE, apply_cluster_changes
from authorizerd.image.features import METADATA_VERSION_FEATURE
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import ClientSettings, KafkaClient
from authorizerd.kafka_client.connection import NO_FEATURES, Call, message_call
from authorizerd.kafka_client.errors import RequestFailedError
from authorizerd.kafka_client.quorum_calls import LISTING_CALL
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import HTTP_FOUND
from authorizerd.protocol.kafka import responses
from authorizerd.protocol.kafka.acl_client import read_listing_head, read_placed_listing
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.requests import (
    DescribeConfigsRequest,
    MetadataRequest,
    ResourceToDescribe,
)

T = TypeVar("T")

UseBrokers: TypeAlias = Callable[["BrokerReader"], Awaitable[T]]
"""A function that works on the brokers, through a reader that is connected to them."""


class BrokerAnswer(msgspec.Struct, frozen=True):
    """The brokers' ACLs and settings.

    Attributes:
        values: the values of the settings that are set on the broker; None if the broker does not
            show a value.
        failure: why no value is known; an empty text if the broker reported all set values.
        user: the name that the client logged in with, or None.
    """

    snapshot: AclSnapshot
    topics: tuple[str, ...]
    values: Mapping[str, str | None]
    failure: str = ""
    user: str | None = None


class Right(NamedTuple):
    """A right on the cluster, and the words for the action that needs it."""

    operation: str
    verb: str
    noun: str
    otherwise: str = ""


LISTING: Final = Right("Describe", "list", "listing", ", or read a log (--log-dir)")
CREATION: Final = Right("Alter", "create", "creating")
CHANGE: Final = Right("Alter", "change", "changing")

BROKER_CONFIGS: Final = 4
"""Kafka's ConfigResource.Type.BROKER."""
AUTHORIZER: Final = "authorizer.class.name"
_UNLISTABLE: Final = """\
a broker lists no ACLs at all if one of them has a code that its Kafka version does not know.
Its server.log names the cause. Its log directory can be read (--log-dir).
"""
LISTING_OFFSET: Final = -1
"""The offset of a snapshot that a broker listed: a listing has none."""


def read_brokers(servers: str, command_config: str | None) -> BrokerAnswer:
    """Return the brokers' answers. Blocks; failures that are retried are printed."""
    return run_on_brokers(servers, command_config, BrokerReader.read)


def run_on_brokers(
    servers: str, command_config: str | None, use: UseBrokers[T], *, place: str | None = None
) -> T:
    """Return what ``use`` returns. Blocks; failures that are retried are printed.

    Args:
        place: the prefix of errors; by default, the flag ``--bootstrap-server`` or the profile.
    """
    place = place or name_servers(servers, command_config)
    with _named_errors(place):
        settings = _read_settings(servers, command_config)
        return trio.run(_run, servers, settings, use, place)


def read_client_settings(servers: str, command_config: str | None, *, place: str) -> ClientSettings:
    """Return the settings of a client, which are checked as for all commands. Blocks.

    Args:
        place: the prefix of errors.
    """
    with _named_errors(place):
        return _read_settings(servers, command_config)


def _read_settings(servers: str, command_config: str | None) -> ClientSettings:
    given = {"bootstrap-server": [servers]}
    if command_config is not None:
        given["command-config"] = [command_config]
    return read_settings(Arguments(given))


@contextmanager
def _named_errors(place: str) -> Iterator[None]:
    """Turn the errors of kafka-acls into those of a command."""
    try:
        yield
    except KafkaAclsError as error:
        # An error about the file begins with its flag.
        is_of_file = error.advice.startswith("--")
        text = error.advice.rstrip() if is_of_file else _describe(place, error.reason, error.advice)
        raise CommandError(text) from None


async def _run(servers: str, settings: ClientSettings, use: UseBrokers[T], place: str) -> T:
    context = None if settings.tls is None else open_context(settings.tls)
    async with KafkaClient(settings, warn, context=context) as client:
        if not await client.can_resolve():
            raise CommandError(_describe(place, "no host name can be resolved"))
        credentials = settings.credentials
        user = None if credentials is None else credentials.username
        return await use(BrokerReader(client, servers, user, place))


class BrokerReader:
    """The requests to one cluster.

    Args:
        servers: the brokers' addresses, for advice.
        user: the name that the client logs in with, or None.
        place: the prefix of errors.
    """

    def __init__(self, client: KafkaClient, servers: str, user: str | None, place: str) -> None:
        self.client: Final = client
        self._servers = servers
        self._user = user
        self._place = place

    @property
    def caller(self) -> str | None:
        """The principal that the client logs in as, or None."""
        return None if self._user is None else f"User:{self._user}"

    async def read(self) -> BrokerAnswer:
        """Return the brokers' answers."""
        snapshot = await self.read_acls()
        metadata = await self.read_metadata()
        snapshot = with_rules(snapshot, (await self._find_release(metadata)).rules)
        values, failure = await self.read_configs(broker.node_id for broker in metadata.brokers)
        name = values.get(AUTHORIZER)
        if name and name != STANDARD_AUTHORIZER:
            warn(f"the broker decides by {name}; this answer follows {STANDARD_AUTHORIZER}")
        topics = {topic.name for topic in metadata.topics if topic.name and not topic.error_code}
        told = {key: value for key, value in values.items() if key in SETTING_KEYS}
        return BrokerAnswer(snapshot, tuple(sorted(topics)), told, failure, self._user)

    async def _find_release(self, metadata: responses.MetadataAnswer) -> ReleaseInForce:
        """Ask the brokers which releases' rules apply."""
        addresses = {
            broker.node_id: Address(broker.host, broker.port) for broker in metadata.brokers
        }
        found = await self.client.read_features(addresses.values())
        newest = max(found.values(), key=lambda each: each.epoch, default=NO_FEATURES)
        changes: list[ClusterChange] = [
            NodeRegistered(
                False,
                node_id,
                found.get(address, NO_FEATURES).supported.get(
                    METADATA_VERSION_FEATURE, UNKNOWN_LEVEL
                ),
            )
            for node_id, address in addresses.items()
        ]
        level = newest.finalized.get(METADATA_VERSION_FEATURE, 0)
        changes.append(FeatureLevel(METADATA_VERSION_FEATURE, level))
        return judge_release(apply_cluster_changes(EMPTY_IMAGE, changes), Evidence.BROKERS)

    async def read_acls(self) -> AclSnapshot:
        """Return all ACLs. Each gets an id that is derived from its fields."""
        builder = SnapshotBuilder()
        listing = await self.list_acls()
        builder.apply_changes(AclAdded(acl_id, acl) for acl_id, acl in listing.items())
        return builder.freeze(LISTING_OFFSET)

    async def list_acls(self) -> Listing:
        """Return all ACLs, without building their index."""
        listing, _ = await self.read_listing(LISTING_CALL)
        return listing

    async def read_listing(
        self, call: Call[tuple[int, bytes | bytearray]]
    ) -> tuple[Listing, int | None]:
        """Return all ACLs, and the log offset of the listing if the server reports it."""
        try:
            version, body = await self.client.request(
                call, name="describeAcls", errors=find_listing_errors
            )
        except RequestFailedError as error:
            raise self.new_error(error) from error
        try:
            return read_placed_listing(version, body)
        except DecodeError as error:
            raise CommandError(_describe(self._place, f"DescribeAcls: {error}")) from error

    async def read_metadata(self) -> responses.MetadataAnswer:
        try:
            return await self.client.request(_METADATA_CALL, name="listTopics", errors=_no_errors)
        except RequestFailedError as error:
            raise self.new_error(error) from error

    async def read_configs(self, node_ids: Iterable[int]) -> tuple[Mapping[str, str | None], str]:
        """Return the keys that are set on the answering broker, and why none is known.

        A broker describes only itself, and a proxy hides its id. So the request names all brokers,
        and the answers for the others are errors.
        """
        resources = ((BROKER_CONFIGS, str(node_id)) for node_id in node_ids)
        call = configs_call(resources, (*SETTING_KEYS, AUTHORIZER))
        try:
            answer = await self.client.request(call, name="describeConfigs", errors=_no_errors)
        except RequestFailedError as error:
            return {}, f"DescribeConfigs: {error}"
        for result in answer.results:
            if not result.error_code:
                return {config.name: config.value for config in result.configs}, ""
        return {}, _describe_refusal(answer.results)

    def new_error(self, error: RequestFailedError, *, right: Right = LISTING) -> CommandError:
        """Return the error of a failed request, which needs ``right``."""
        if error.error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return CommandError(_describe(self._place, *self._explain_missing_right(right)))
        if error.error.code == ErrorCode.SECURITY_DISABLED:
            reason = "the broker has no authorizer, so it has no ACLs: everyone may do anything"
            return CommandError(_describe(self._place, reason))
        if error.cause is None:
            is_odd = right is LISTING and error.error.code == ErrorCode.UNKNOWN_SERVER_ERROR
            advice = _UNLISTABLE if is_odd else advise(error)
            return CommandError(_describe(self._place, str(error), advice))
        if HTTP_FOUND in str(error):
            reason = "this is an HTTP port, not a Kafka listener: name an address of its listeners"
            return CommandError(_describe(self._place, reason))
        # The advice is more helpful than the name of the error's code.
        reason = (error.error.message or error.error.name).removeprefix(f"{self._servers}: ")
        return CommandError(_describe(self._place, reason, advise(error)))

    def _explain_missing_right(self, right: Right) -> tuple[str, str]:
        principal = "PRINCIPAL" if self._user is None else f"User:{self._user}"
        reason = f"{'this client' if self._user is None else principal} may not {right.verb} ACLs"
        advice = (
            f"{right.noun} ACLs needs {right.operation.upper()} on the cluster. A user who may "
            "change ACLs can grant it by running:\n"
            f"  authorizerd acls --bootstrap-server {self._servers} --add --cluster "
            f"--operation {right.operation} --allow-principal '{principal}'\n"
            "If this is a daemon that follows a cluster with authorizerd.writes=refuse, name a "
            "broker of the cluster in it.\n"
            f"Or log in as another user (--command-config){right.otherwise}.\n"
        )
        return reason, advice


def _describe(place: str, reason: str, advice: str = "") -> str:
    text = f"{place}: {reason}"
    return f"{text}\n{advice.rstrip()}" if advice else text


def _describe_refusal(results: Iterable[responses.DescribedResource]) -> str:
    refused = [ApiError(result.error_code, result.error_message) for result in results]
    for each in refused:
        if each.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return "the broker shows its settings only to users with DESCRIBE_CONFIGS"
    return f"DescribeConfigs: {refused[0]}" if refused else "the cluster names no broker"


def _no_errors(_: object) -> list[ApiError]:
    return []


def find_listing_errors(answer: tuple[int, bytes | bytearray]) -> list[ApiError]:
    """Return the error of a listing. If it cannot be read, the next reader reports that."""
    try:
        head = read_listing_head(*answer)
    except DecodeError:
        return []
    return [] if head.error is None else [head.error]


_METADATA_CALL: Final = message_call(
    ApiKey.METADATA,
    MetadataRequest(topics=None, allow_auto_topic_creation=False),  # all topics
    responses.MetadataAnswer,
)


def configs_call(
    resources: Iterable[tuple[int, str]], keys: Sequence[str] | None = None
) -> Call[responses.DescribeConfigsAnswer]:
    """Return the call that requests these keys (default: all) of resources, given by type and
    name."""
    asked = DescribeConfigsRequest(
        resources=[
            ResourceToDescribe(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name in resources
        ]
    )
    return message_call(ApiKey.DESCRIBE_CONFIGS, asked, responses.DescribeConfigsAnswer)
