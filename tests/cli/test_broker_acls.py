"""The commands that answer questions read from a broker, or say which right is missing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import trio

from authorizerd.acl.known_settings import ALLOW_EVERYONE, SUPER_USERS
from authorizerd.acl.listing import derive_id
from authorizerd.cli.broker_acls import AUTHORIZER, BrokerAnswer, BrokerReader, read_brokers
from authorizerd.cli.errors import CommandError
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import ClientSettings, KafkaClient
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.kafka_cluster import HANG_UP, SERVED, KafkaCluster, KafkaNode, answer, described
from tests.support.acls import acl

ADDRESS = Address("broker", 9092)
SERVERS = str(ADDRESS)
ACLS = (acl("User:a", topic="t"), acl("User:b", "WRITE", topic="t", host="10.0.0.1", deny=True))
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def listing() -> SimpleNamespace:
    resource = {"resource_type": 2, "resource_name": "t", "pattern_type": 3}
    return described(SimpleNamespace(**resource, acls=ACLS))


def refused(code: int, text: str | None = None) -> SimpleNamespace:
    return answer(error_code=code, error_message=text, resources=())


def metadata(*names: str, hidden: str = "") -> SimpleNamespace:
    """Return an answer with brokers 1 and 2, and topics; the client may not see ``hidden``."""

    def topic(name: str, error_code: int = 0) -> SimpleNamespace:
        return SimpleNamespace(
            error_code=error_code, name=name, topic_id=None, is_internal=False, partitions=(),
            topic_authorized_operations=-(2**31),
        )  # fmt: skip

    topics = [*map(topic, names), *([topic(hidden, 29)] if hidden else [])]
    brokers = [
        SimpleNamespace(node_id=number, host="broker", port=9092, rack=None) for number in (1, 2)
    ]
    return answer(brokers=brokers, cluster_id="c", controller_id=1, topics=topics, error_code=0)


def result(
    node_id: int, configs: dict[str, str | None], code: int = 0, text: str | None = None
) -> SimpleNamespace:
    """Return the description of one broker; a value of None is one that it does not show."""
    return SimpleNamespace(
        error_code=code,
        error_message=text,
        resource_type=4,
        resource_name=str(node_id),
        configs=[
            SimpleNamespace(
                name=key, value=value, read_only=True, config_source=4, is_sensitive=value is None,
                synonyms=(), config_type=0, documentation=None,
            )
            for key, value in configs.items()
        ],
    )  # fmt: skip


def configs(configs: dict[str, str | None]) -> SimpleNamespace:
    """Return what broker 2 answers; it describes only itself."""
    return answer(results=[result(1, {}, ErrorCode.INVALID_REQUEST, "No."), result(2, configs)])


@pytest.fixture
async def node(nursery: trio.Nursery) -> KafkaNode:
    return KafkaCluster(nursery).add(ADDRESS, served={**SERVED, ApiKey.DESCRIBE_CONFIGS: (1, 4)})


async def read(node: KafkaNode, user: str | None = None) -> BrokerAnswer:
    settings = ClientSettings(bootstrap=[ADDRESS])
    with trio.fail_after(30):
        async with KafkaClient(settings, lambda _: None, node.cluster.connect) as client:
            return await BrokerReader(client, SERVERS, user, f"--bootstrap-server {SERVERS}").read()


async def test_acls_topics_and_settings_are_read(node: KafkaNode) -> None:
    values: dict[str, str | None] = {SUPER_USERS: "User:root", ALLOW_EVERYONE: "true"}
    node.answers = [listing(), metadata("z", "a", hidden="h"), configs(values)]
    found = await read(node)
    assert dict(found.snapshot.acls.items()) == {derive_id(each): each for each in ACLS}
    assert found.topics == ("a", "z")
    assert found.values == values
    assert found.failure == ""
    names = [name.split()[0] for name in node.names[1:]]
    assert "API_VERSIONS" in names, "of the connection that asks for the release"
    assert [name for name in names if name != "API_VERSIONS"] == [
        "DESCRIBE_ACLS", "METADATA", "DESCRIBE_CONFIGS",
    ]  # fmt: skip


async def test_hidden_and_missing_values_are_told_apart(node: KafkaNode) -> None:
    """Kafka's brokers list super.users only if it is set, and never show its value."""
    node.answers = [listing(), metadata(), configs({SUPER_USERS: None, AUTHORIZER: STANDARD})]
    found = await read(node)
    assert found.values == {SUPER_USERS: None}
    assert found.failure == ""


@pytest.mark.parametrize(("code", "said"), [
    (ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
     "the broker shows its settings only to users with DESCRIBE_CONFIGS"),
    (ErrorCode.INVALID_REQUEST, "DescribeConfigs: INVALID_REQUEST"),
])  # fmt: skip
async def test_refused_settings_are_not_an_error(node: KafkaNode, code: int, said: str) -> None:
    both = answer(results=[result(1, {}, code), result(2, {}, code)])
    node.answers = [listing(), metadata(), both]
    found = await read(node)
    assert found.values == {}
    assert found.failure.startswith(said)
    assert len(found.snapshot.acls) == 2


async def test_broker_without_describe_configs_is_read(node: KafkaNode) -> None:
    node.served = SERVED
    node.answers = [listing(), metadata()]
    found = await read(node)
    assert "does not support DESCRIBE_CONFIGS" in found.failure


async def test_other_authorizer_is_reported(
    node: KafkaNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node.answers = [listing(), metadata(), configs({AUTHORIZER: "com.example.Other"})]
    await read(node)
    assert capsys.readouterr().err == (
        f"authorizerd: the broker decides by com.example.Other; this answer follows {STANDARD}\n"
    )


@pytest.mark.parametrize(("code", "user", "said"), [
    (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None,
     ["--bootstrap-server broker:9092: this client may not list ACLs",
      "listing ACLs needs DESCRIBE on the cluster. A user who may change ACLs can grant it by "
      "running:",
      "  authorizerd acls --bootstrap-server broker:9092 --add --cluster "
      "--operation Describe --allow-principal 'PRINCIPAL'",
      "If this is a daemon that follows a cluster with authorizerd.writes=refuse, name a "
      "broker of the cluster in it.",
      "Or log in as another user (--command-config), or read a log (--log-dir)."]),
    (ErrorCode.SECURITY_DISABLED, None,
     ["--bootstrap-server broker:9092: the broker has no authorizer, so it has no ACLs: "
      "everyone may do anything"]),
    (ErrorCode.UNKNOWN_SERVER_ERROR, None,
     ["--bootstrap-server broker:9092: UNKNOWN_SERVER_ERROR: The server experienced an "
      "unexpected error when processing the request.",
      "a broker lists no ACLs at all if one of them has a code that its Kafka version "
      "does not know.",
      "Its server.log names the cause. Its log directory can be read (--log-dir)."]),
    (ErrorCode.UNSUPPORTED_VERSION, None,
     ["--bootstrap-server broker:9092: UNSUPPORTED_VERSION: The version of API is not "
      "supported.",
      "a controller does not serve this request: name the address of a broker with "
      "--bootstrap-server, or",
      "ask the controller with 'authorizerd acls --bootstrap-controller'. If the address "
      "is a broker's, its", "Kafka is too old: reading ACLs needs Kafka 2.0 or newer."]),
])  # fmt: skip
async def test_refused_listing_names_the_flag_the_cause_and_the_remedy(
    node: KafkaNode, code: int, user: str | None, said: list[str]
) -> None:
    node.answers = [refused(code)]
    with pytest.raises(CommandError) as error:
        await read(node, user)
    assert str(error.value).splitlines() == said


async def test_missing_right_names_the_user(node: KafkaNode) -> None:
    node.answers = [refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    with pytest.raises(CommandError) as error:
        await read(node, "alice")
    first, _, command, follower, _ = str(error.value).splitlines()
    assert first.endswith("User:alice may not list ACLs")
    assert command.endswith("--allow-principal 'User:alice'")
    assert follower.startswith("If this is a daemon that follows a cluster")


async def test_listener_that_requires_a_log_in_gets_advice(node: KafkaNode) -> None:
    """The node closes the connection at the first request, and answers SaslHandshake."""
    enabled = SimpleNamespace(error_code=0, mechanisms=["PLAIN"])
    node.answers = [HANG_UP, enabled]
    with pytest.raises(CommandError) as error:
        await read(node)
    first, *advice = str(error.value).splitlines()
    assert first == (
        "--bootstrap-server broker:9092: the listener expects SASL_PLAINTEXT, "
        "but the client uses PLAINTEXT"
    )
    assert "  security.protocol=SASL_PLAINTEXT" in advice
    assert "  sasl.mechanism=SCRAM-SHA-512" in advice  # as docs/authentication.md sets it up


@pytest.mark.parametrize(("servers", "config", "said"), [
    ("127.0.0.1:1", None, "--bootstrap-server 127.0.0.1:1: "),
    ("127.0.0.1", None, "--bootstrap-server 127.0.0.1: Invalid url in bootstrap.servers"),
    ("no-such-host.invalid:9", None, "no host name can be resolved"),
    ("127.0.0.1:1", "/none/client.properties", "--command-config: /none/client.properties: "),
])  # fmt: skip
def test_unusable_address_or_file_is_named(servers: str, config: str | None, said: str) -> None:
    with pytest.raises(CommandError, match=said) as error:
        read_brokers(servers, config)
    assert "java" not in str(error.value)
