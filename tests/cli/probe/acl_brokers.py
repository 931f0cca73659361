"""Brokers in memory that judge one client by ACLs, as Kafka does, by the oracle's plain scan."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import outcome
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.model import Acl, Operation, Question, ResourceType
from authorizerd.acl.operations import NOT_REQUESTED, SUPPORTED, bit_field
from authorizerd.acl.releases import ANY_RELEASE, ReleaseRules
from authorizerd.acl.steps import finish
from authorizerd.cli.acl_source import AclSource, Place
from authorizerd.cli.broker_acls import BrokerReader
from authorizerd.cli.probe.arguments import ProbeRequest
from authorizerd.cli.probe.brokers import CLUSTER
from authorizerd.cli.probe.command import probe
from authorizerd.cli.probe.deciding import AclDecider, Decider
from authorizerd.cli.probe.report import Probed
from authorizerd.cli.question_words import Resource
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import ClientSettings, KafkaClient
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.messages import decode_request
from authorizerd.protocol.kafka.requests import (
    DescribeClusterRequest,
    DescribeGroupsRequest,
    MetadataRequest,
)
from authorizerd.protocol.kafka.server_connection import KafkaRequest
from tests.daemon.kafka_cluster import HANG_UP, SERVED, KafkaCluster, Served, answer, cluster_of
from tests.oracles.scan import decide
from tests.support.acls import snapshot_of

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
KNOWN = KnownSettings(frozenset(), False)
PRINCIPAL = "User:a"
HOST = "10.0.0.1"
KAFKA_4: Served = {
    **SERVED,
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
}
WINDOW_S = 5
DESCRIBE = Operation.DESCRIBE


REQUEST = ProbeRequest(
    bootstrap_server="", principal=PRINCIPAL, host=HOST, window=WINDOW_S, max_not_judged=0.05
)


@dataclass
class AclCluster:
    """A cluster whose brokers have ``acls``; broker 0 is the bootstrap server.

    Attributes:
        advertised: the brokers in Metadata, by default all.
        host: from where the brokers see the client.
        groups: the coordinator of each group; the last broker coordinates those that do not exist.
        odd: the error and the field of a resource, instead of those that the ACLs give.
        throttle: how long each answer lets the client wait.
        hooks: called before the request of this number is answered, counted from 0.
        down: the brokers that refuse connections; one that is added closes them.
        sent: the times of all requests.
    """

    acls: Collection[Acl] = ()
    topics: Collection[str] = ()
    groups: dict[str, int] = field(default_factory=dict)
    super_users: Collection[str] = ()
    is_open: bool = False
    rules: ReleaseRules = ANY_RELEASE
    host: str = HOST
    brokers: int = 1
    advertised: Collection[int] | None = None
    served: Served = field(default_factory=lambda: KAFKA_4)
    odd: dict[Resource, tuple[int, int]] = field(default_factory=dict)
    throttle: float = 0
    hooks: dict[int, Callable[[], object]] = field(default_factory=dict)
    down: set[int] = field(default_factory=set)
    sent: list[float] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)

    def allows(self, operation: int, resource: Resource) -> bool:
        asked = Question(PRINCIPAL, self.host, operation, *resource)
        return (
            PRINCIPAL in self.super_users or decide(self.acls, self.is_open, asked, self.rules)[0]
        )

    def show(self, resource: Resource, error: int = 0, *, is_asked: bool = True) -> tuple[int, int]:
        """Return the error and KIP-430's field of an answer."""
        if resource in self.odd:
            return self.odd[resource]
        kind = resource[0]
        if not self.allows(DESCRIBE, resource):
            hidden = {
                ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
            }
            return (hidden[kind], NOT_REQUESTED) if kind in hidden else (0, 0)
        if not is_asked or (error and kind is ResourceType.GROUP):
            return error, NOT_REQUESTED
        return error, bit_field(each for each in SUPPORTED[kind] if self.allows(each, resource))

    def address(self, number: int) -> Address:
        return Address(f"b{number}", 9092)

    def start(self, nursery: trio.Nursery) -> KafkaCluster:
        cluster = KafkaCluster(nursery)
        for number in set(range(self.brokers)) - self.down:
            node = cluster.add(self.address(number), served=self.served)
            node.answers = [self._answer_at(number)] * 10_000
        return cluster

    def _answer_at(self, number: int) -> Callable[[KafkaRequest], object]:
        return lambda request: self._answer(number, request)

    def _answer(self, number: int, request: KafkaRequest) -> object:
        if request.api_key is ApiKey.SASL_HANDSHAKE:  # the client asks after a lost connection
            return answer(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())
        hook = self.hooks.pop(len(self.sent), None)
        self.sent.append(trio.current_time())
        self.names.append(f"{request.api_key.name} {request.api_version}")
        given = None if hook is None else hook()
        if given is not None or number in self.down:
            return given or HANG_UP
        asked = finish(decode_request(request.api_key, request.api_version, request.body))
        match request.api_key:
            case ApiKey.METADATA:
                made = self._metadata(asked)
            case ApiKey.LIST_GROUPS:
                made = self._list_groups(number)
            case ApiKey.DESCRIBE_GROUPS:
                made = self._describe_groups(number, asked)
            case ApiKey.DESCRIBE_CLUSTER:
                made = self._describe_cluster(asked)
            case _:
                raise AssertionError(f"a request that may change something: {request}")
        made.throttle_time = timedelta(seconds=self.throttle)
        return made

    def _metadata(self, asked: MetadataRequest) -> SimpleNamespace:
        assert not asked.allow_auto_topic_creation
        wanted = asked.include_topic_authorized_operations
        if asked.topics is None:
            names = [name for name in self.topics if self.allows(DESCRIBE, (TOPIC, name))]
        else:
            names = [each.name for each in asked.topics if each.name is not None]
        return answer(
            error_code=0,
            cluster_id="probed",
            controller_id=0,
            topics=[self._topic(name, wanted) for name in names],
            brokers=[
                SimpleNamespace(
                    node_id=number, host=self.address(number).host, port=9092, rack=None
                )
                for number in self.advertised or range(self.brokers)
            ],
        )

    def _topic(self, name: str, wanted: bool) -> SimpleNamespace:
        missing = 0 if name in self.topics else int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        error, bits = self.show((TOPIC, name), missing, is_asked=wanted)
        return SimpleNamespace(
            error_code=error, name=name, topic_id=None, is_internal=False, partitions=(),
            topic_authorized_operations=bits,
        )  # fmt: skip

    def _list_groups(self, number: int) -> SimpleNamespace:
        shown = [
            name
            for name, coordinator in self.groups.items()
            if coordinator == number
            and (self.allows(DESCRIBE, CLUSTER) or self.allows(DESCRIBE, (GROUP, name)))
        ]
        return answer(
            error_code=0,
            groups=[
                SimpleNamespace(group_id=name, protocol_type="", group_state="", group_type="")
                for name in shown
            ],
        )

    def _describe_groups(self, number: int, asked: DescribeGroupsRequest) -> SimpleNamespace:
        return answer(groups=[self.group(number, name) for name in asked.groups])

    def group(self, number: int, name: str) -> SimpleNamespace:
        is_here = self.groups.get(name, self.brokers - 1) == number
        error, bits = self.show((GROUP, name), 0 if is_here else int(ErrorCode.NOT_COORDINATOR))
        return SimpleNamespace(
            error_code=error, error_message=None, group_id=name, group_state="Dead",
            protocol_type="", protocol_data="", members=(), authorized_operations=bits,
        )  # fmt: skip

    def _describe_cluster(self, asked: DescribeClusterRequest) -> SimpleNamespace:
        assert asked.include_cluster_authorized_operations
        error, bits = self.show(CLUSTER)
        described = cluster_of(0, error=error)
        described.cluster_authorized_operations, described.endpoint_type = bits, 1
        return described

    def probe(
        self,
        *acls: Acl,
        known: KnownSettings = KNOWN,
        open_side: Callable[[], Decider] | None = None,
        **flags: Any,  # noqa: ANN401 - fields
    ) -> Probed:
        """Return the result of a probe that compares with these ACLs.

        Args:
            open_side: our side, instead of the ACLs.
        """
        request = replace(REQUEST, **flags)
        opened = open_side or partial(own_side, acls, known)

        async def run() -> Probed:
            async with trio.open_nursery() as nursery:
                cluster = self.start(nursery)
                settings = ClientSettings(bootstrap=[self.address(0)])
                async with KafkaClient(settings, self.warned.append, cluster.connect) as client:
                    reader = BrokerReader(client, "b0:9092", None, "the brokers")
                    # Out of a nursery, an error would come in a group.
                    found = await outcome.acapture(probe, reader, request, opened)
                nursery.cancel_scope.cancel()
            return found.unwrap()

        return trio.run(run, clock=MockClock(autojump_threshold=0))


def own_side(acls: Collection[Acl], known: KnownSettings = KNOWN) -> Decider:
    source = AclSource(snapshot_of(*acls), known, (), (), Place.FILE, "acls.txt", None)
    return AclDecider(source, PRINCIPAL, HOST)


def differing(probed: Probed) -> dict[str, set[str]]:
    """Return what differs, as ``OPERATION name``, by cause."""
    found: dict[str, set[str]] = {}
    for each in probed.differences:
        found.setdefault(each.cause, set()).add(f"{each.operation} {each.resource_name}")
    return found
