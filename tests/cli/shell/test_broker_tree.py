"""The tree of what brokers tell: which folders there are, and what is said about the others."""

import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

import outcome
import pytest
import trio

from authorizerd.acl.listing import derive_id
from authorizerd.acl.steps import finish
from authorizerd.cli.broker_acls import BrokerReader
from authorizerd.cli.errors import CommandError
from authorizerd.cli.shell.broker_tree import broker_tree, fetch_features
from authorizerd.cli.shell.commands import Shell
from authorizerd.cli.shell.java_text import format_uuid
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import ClientSettings, KafkaClient
from authorizerd.kafka_client.connection import Call
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.server_connection import KafkaRequest
from tests.daemon.kafka_cluster import SERVED, KafkaCluster, KafkaNode, answer, described
from tests.support.acls import acl
from tests.support.kio_codec import decode_request

T = TypeVar("T")

SECONDS_MAX = 30
ADDRESS = Address("broker", 9092)
ACL = acl("User:a", topic="t")
ACL_ID = format_uuid(derive_id(ACL))
TOPIC_ID = uuid.UUID(bytes=bytes(range(16)))
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def listing(code: int = 0) -> SimpleNamespace:
    if code:
        return answer(error_code=code, error_message=None, resources=())
    fields = {"resource_type": 2, "resource_name": "t", "pattern_type": 3}
    return described(SimpleNamespace(**fields, acls=(ACL,)))


def metadata(names: tuple[str, ...] = ("t",)) -> SimpleNamespace:
    partition = SimpleNamespace(
        error_code=0, partition_index=3, leader_id=1, leader_epoch=7, replica_nodes=(2, 1),
        isr_nodes=(1,), offline_replicas=(),
    )  # fmt: skip
    topics = [
        SimpleNamespace(
            error_code=code, name=name, topic_id=TOPIC_ID, is_internal=False,
            partitions=(partition,), topic_authorized_operations=-(2**31),
        )
        for name, code in (*((name, 0) for name in names), ("hidden", 29))
    ]  # fmt: skip
    broker = SimpleNamespace(node_id=1, host="h", port=9092, rack="r")
    return answer(brokers=[broker], cluster_id="c", controller_id=1, topics=topics, error_code=0)


def quotas(code: int = 0) -> SimpleNamespace:
    entity = SimpleNamespace(entity_type="user", entity_name="u")
    values = [SimpleNamespace(key="producer_byte_rate", value=1024.0)]
    entries = [SimpleNamespace(entity=[entity], values=values)]
    return answer(error_code=code, error_message="no", entries=None if code else entries)


def users(code: int = 0) -> SimpleNamespace:
    found = SimpleNamespace(
        user="u", error_code=0, error_message=None,
        credential_infos=[SimpleNamespace(mechanism=2, iterations=8192)],
    )  # fmt: skip
    return answer(error_code=code, error_message=None, results=[] if code else [found])


DYNAMIC: dict[tuple[int, str], list[tuple[str, str | None, int]]] = {
    (2, "t"): [("cleanup.policy", "compact", 1), ("retention.ms", "7", 5)],
    (4, ""): [("min.insync.replicas", "1", 3), ("ssl.key.password", None, 3)],
    (4, "1"): [("num.io.threads", "2", 2), ("log.retention.ms", "3", 4)],
}
"""Name, value and source that are told about each resource; only dynamic ones are in the tree."""


def configs(request: KafkaRequest) -> SimpleNamespace:
    """Describe the resources that are asked for, as a broker does."""
    decoded: Any = finish(decode_request(request.api_key, request.api_version, request.body))
    return answer(
        results=[
            SimpleNamespace(
                error_code=0 if (each.resource_type, each.resource_name) in DYNAMIC else 42,
                error_message="not mine",
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                configs=[
                    SimpleNamespace(
                        name=name, value=value, read_only=False, config_source=source,
                        is_sensitive=value is None, synonyms=(), config_type=0, documentation=None,
                    )
                    for name, value, source in DYNAMIC.get(
                        (each.resource_type, each.resource_name), []
                    )
                ],
            )
            for each in decoded.resources
        ]
    )  # fmt: skip


Answers = dict[ApiKey, Callable[[KafkaRequest], object]]

ANSWERS: Answers = {
    ApiKey.DESCRIBE_ACLS: lambda _: listing(), ApiKey.METADATA: lambda _: metadata(),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda _: quotas(),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda _: users(), ApiKey.DESCRIBE_CONFIGS: configs,
}  # fmt: skip


class ToldNode(KafkaNode):
    """A node that tells its features."""

    def _versions(self, request: KafkaRequest) -> SimpleNamespace:
        features = {"metadata.version": 30, "group.version": 1}
        told = super()._versions(request)
        told.supported_features = ()
        told.finalized_features_epoch = 5
        told.finalized_features = [
            SimpleNamespace(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.items()
        ]
        told.zk_migration_ready = False
        return told


def _ignore_request(given: object, _: KafkaRequest) -> object:
    return given


class Broker:
    """A broker in memory, which a new connection reaches for each question."""

    def __init__(self, *given: tuple[ApiKey, object], node: type[KafkaNode] = ToldNode) -> None:
        prepared = {key: partial(_ignore_request, each) for key, each in given}
        self.answers: Answers = {**ANSWERS, **prepared}
        self.asked: list[str] = []
        self.warnings: list[str] = []
        self._node = node

    def ask(self, fetch: Callable[[BrokerReader], Awaitable[T]]) -> T:
        async def run() -> T:
            with trio.fail_after(SECONDS_MAX):
                return await self._ask(fetch)

        return trio.run(run)

    async def _ask(self, fetch: Callable[[BrokerReader], Awaitable[T]]) -> T:
        async with trio.open_nursery() as nursery:
            cluster = KafkaCluster(nursery)
            served = {**SERVED, **dict.fromkeys(self.answers, (0, 4))}
            served[ApiKey.METADATA] = (0, 13)
            node = cluster.nodes[ADDRESS] = self._node(served=served)
            node.answers = [self._reply] * 10
            settings = ClientSettings(bootstrap=[ADDRESS])
            async with KafkaClient(settings, self.warnings.append, cluster.connect) as client:
                reader = BrokerReader(client, str(ADDRESS), None, "the brokers")
                # Out of a nursery, an error would come in a group.
                found = await outcome.acapture(fetch, reader)
            self.asked += [name.split()[0] for name in node.names[1:]]
            nursery.cancel_scope.cancel()
        return found.unwrap()

    def _reply(self, request: KafkaRequest) -> object:
        return self.answers[request.api_key](request)

    def look(self, *lines: str) -> str:
        printed: list[str] = []
        shell = Shell(
            broker_tree(self.ask, self.warnings.append), printed.append, is_interactive=True
        )
        for line in lines:
            shell.run(line.split())
        return "".join(printed)


TREE = f"""\
acls:
  byId:
    {ACL_ID}:
      {ACL}
clientQuotas:
  user(u):
    producer_byte_rate:
      1024.0
cluster:
  brokers:
    1:
      BrokerRegistration(id=1, listeners=[Endpoint(host='h', port=9092)], rack=Optional[r])
configs:
  BROKER:
    min.insync.replicas:
      1
    ssl.key.password:
      [redacted]
  BROKER:1:
    num.io.threads:
      2
  TOPIC:t:
    cleanup.policy:
      compact
features:
  finalized_group.version:
    1
  metadataVersion:
    Optional[4.3-IV0]
scram:
  SCRAM-SHA-256:
  SCRAM-SHA-512:
    u:
      ScramCredentialData(salt=[redacted], storedKey=[redacted], serverKey=[redacted], \
iterations=8192)
topics:
  byId:
    AAECAwQFBgcICQoLDA0ODw:
      3:
        PartitionRegistration(replicas=[2, 1], isr=[1], leader=1, leaderEpoch=7)
      id:
        AAECAwQFBgcICQoLDA0ODw
      name:
        t
  byName:
    t:
      3:
        PartitionRegistration(replicas=[2, 1], isr=[1], leader=1, leaderEpoch=7)
      id:
        AAECAwQFBgcICQoLDA0ODw
      name:
        t
"""


def test_tree_has_what_a_broker_tells() -> None:
    broker = Broker()
    assert broker.look("tree /image") == TREE
    assert broker.warnings == []


@pytest.mark.parametrize(("line", "asked"), [
    ("ls /local", []),
    (f"cat /acl/id/{ACL_ID}", ["DESCRIBE_ACLS"]),
    ("cat /image/topics/byName/t/3", ["METADATA"]),
    ("ls /image/cluster/brokers", ["METADATA"]),
    ("cat /image/scram/SCRAM-SHA-512/u", ["DESCRIBE_USER_SCRAM_CREDENTIALS"]),
    ("cat /image/configs/TOPIC:t/cleanup.policy",
     ["METADATA", "DESCRIBE_CONFIGS", "DESCRIBE_CONFIGS"]),
])  # fmt: skip
def test_only_what_a_command_shows_is_asked_for(line: str, asked: list[str]) -> None:
    broker = Broker()
    broker.look(line, line)
    assert broker.asked == asked


@pytest.mark.parametrize(("key", "given", "folder", "reason"), [
    (ApiKey.DESCRIBE_ACLS, listing(REFUSED), "/acl", "CLUSTER_AUTHORIZATION_FAILED"),
    (ApiKey.DESCRIBE_ACLS, listing(REFUSED), "/image/acls", "CLUSTER_AUTHORIZATION_FAILED"),
    (ApiKey.DESCRIBE_ACLS, listing(54), "/image/acls", "SECURITY_DISABLED"),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, quotas(REFUSED), "/image/clientQuotas", "no"),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users(REFUSED), "/image/scram", "AUTHORIZATION"),
])  # fmt: skip
def test_what_a_broker_refuses_is_left_out_with_a_message(
    key: ApiKey, given: object, folder: str, reason: str
) -> None:
    broker = Broker((key, given))
    parent, _, last = folder.rpartition("/")
    *names, refusal = broker.look(f"ls {parent or '/'}", f"ls {folder}").splitlines()
    assert refusal == f"ls: {folder}: no such file or directory."
    assert last not in names
    (warning,) = broker.warnings
    assert "is left out: " in warning
    assert folder in warning
    assert reason in warning


def test_broker_that_does_not_tell_features_has_no_folder_for_them() -> None:
    broker = Broker(node=KafkaNode)
    assert "features" not in broker.look("ls /image").split()
    assert broker.warnings == [
        "/image/features is left out: the broker does not report which features are finalized"
    ]


def test_configs_that_are_not_told_are_reported_once() -> None:
    broker = Broker((ApiKey.METADATA, metadata(("t", "unknown"))))
    printed = broker.look("ls /image/configs", "ls /image/configs/TOPIC:unknown")
    assert printed == (
        "BROKER\nBROKER:1\nTOPIC:t\nls: /image/configs/TOPIC:unknown: no such file or directory.\n"
    )
    assert broker.warnings == ["/image/configs is incomplete: INVALID_REQUEST: not mine"]


def test_failed_request_ends_the_command() -> None:
    broker = Broker((ApiKey.DESCRIBE_ACLS, listing(3)))
    with pytest.raises(CommandError, match="the brokers: "):
        broker.look("ls /acl")


def test_features_are_asked_for_in_every_version() -> None:
    """A node is asked in the newest version that it and this client know."""

    async def request(call: Call[Any], **_: object) -> SimpleNamespace:
        for version in APIS[ApiKey.API_VERSIONS].versions:
            call.encode(version)
        return SimpleNamespace(finalized_features_epoch=0, finalized_features=())

    reader: Any = SimpleNamespace(client=SimpleNamespace(request=request))
    assert trio.run(fetch_features, reader) == {}
