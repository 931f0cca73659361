"""What other clients write to a cluster decides in the daemons that follow it, as in its broker."""

import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from authorizerd.acl.model import AclFilter, PatternType
from tests.conformance.followers import Follower
from tests.conformance.kafka_clients import client_settings, create_topics, use_broker
from tests.kafka_rig.broker import ADMIN, Broker
from tests.kafka_rig.cluster import FIRST_BROKER, Cluster
from tests.kafka_rig.cluster_settings import GRANTS
from tests.kafka_rig.followers import quorum_source
from tests.kafka_rig.rig import Program
from tests.support.admin_client import create_acls
from tests.support.kafka_acls_output import bindings
from tests.support.recorded_decisions import Recorded, recorded_of

BY_TOOL = """
--allow-principal User:alice --allow-principal User:bob --operation Read --operation Write {topics}
--deny-principal User:* --deny-host 10.0.0.7 --operation All {groups}
--allow-principal 'User:CN=Zoé 日本,O=x' --allow-host 127.0.0.1 --operation Describe {prefixes}
--allow-principal User:tx --operation Describe --transactional-id t --cluster
"""
NAMES = range(200)
BY_CLIENT = 1200
ACLS = 2 * 2 * 200 + 200 + 200 + BY_CLIENT
"""A lower bound: kafka-acls makes a few more for the cluster and the transactional id."""

TOPICS = ["orders", "orders-secret", "status"]
GROUP = "billing"
PHASES = [
    "--allow-principal User:alice --operation Read --topic orders --group billing\n"
    "--allow-principal User:bob --operation All --topic ord --resource-pattern-type prefixed",
    "--deny-principal User:* --deny-host 127.0.0.1 --operation Write --topic orders-secret\n"
    "--allow-principal User:alice --operation All --topic *\n"
    "--deny-principal User:bob --operation Describe --group *",
    "--allow-principal User:ANONYMOUS --operation Describe --topic s"
    " --resource-pattern-type prefixed\n"
    "--deny-principal User:alice --operation Read --topic orders",
]
"""The ACLs that are added before each round of traffic."""


@pytest.fixture
def followers(cluster: Cluster, tmp_path: Path) -> Iterator[list[Follower]]:
    """Run two daemons; delete the test's ACLs at the end."""
    source = quorum_source(cluster)
    with ExitStack() as stack:
        yield [
            stack.enter_context(Follower(tmp_path / f"daemon-{number}", source))
            for number in (1, 2)
        ]
    cluster.delete(AclFilter(pattern_type=PatternType.ANY))
    cluster.create(*GRANTS)


def broker_of(cluster: Cluster) -> Broker:
    (member,) = cluster.brokers
    return Broker(
        cluster.rig, member.directory, member.log_dir, cluster.settings.node, member.ports,
        member.process.process_id,
    )  # fmt: skip


def add_with_tool(cluster: Cluster, arguments: str) -> None:
    done = cluster.run(Program.ACLS, "--add", *shlex.split(arguments))
    assert done.exit_code == 0, done


def await_all(cluster: Cluster, followers: list[Follower]) -> None:
    """Wait until the followers have applied what is committed, and the broker shows it, too."""
    last_offset = cluster.quorum().high_watermark - 1
    for each in followers:
        each.wait_for_offset(last_offset)
    expected = followers[0].describe()
    with cluster.admin(FIRST_BROKER) as admin:
        cluster.wait_for(lambda: set(admin.describe()) == expected, "the broker shows our ACLs")


def listed(cluster: Cluster, follower: Follower | None = None) -> set[tuple[str, str]]:
    """Return what kafka-acls lists at a follower, or at the broker."""
    server = follower.listener if follower else cluster.bootstrap_servers
    config = cluster.client_config(ADMIN)
    words = ("--bootstrap-server", server, "--command-config", config, "--list")
    done = cluster.rig.run(Program.ACLS, *words)
    assert done.exit_code == 0, done
    return bindings(done.stdout)


def test_acls_of_other_clients_have_the_same_bindings(
    cluster: Cluster, followers: list[Follower]
) -> None:
    """More than 2,000 are made with kafka-acls and an AdminClient, then half are deleted."""
    words = {
        "topics": "".join(f" --topic made-{n}" for n in NAMES),
        "groups": "".join(f" --group made-{n}" for n in NAMES),
        "prefixes": "".join(f" --topic made-{n}" for n in NAMES)
        + " --resource-pattern-type prefixed",
    }
    for line in BY_TOOL.strip().splitlines():
        add_with_tool(cluster, line.format(**words))
    admin = AdminClient(client_settings(broker_of(cluster), ADMIN))
    made = [
        AclBinding(
            (ResourceType.TOPIC, ResourceType.GROUP)[n % 2],
            f"client-{n}",
            (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED)[n % 3 == 0],
            f"User:client-{n % 50}",
            ("*", "10.0.0.1")[n % 5 == 0],
            (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.ALL)[n % 3],
            (AclPermissionType.ALLOW, AclPermissionType.DENY)[n % 7 == 0],
        )
        for n in range(BY_CLIENT)
    ]
    assert set(create_acls(admin, *made)) == {None}
    await_all(cluster, followers)
    expected = listed(cluster)
    assert len(expected) > ACLS >= 2000, len(expected)
    for each in followers:
        assert listed(cluster, each) == expected

    words_left = shlex.split(BY_TOOL.strip().splitlines()[0].format(**words))
    done = cluster.run(Program.ACLS, "--remove", "--force", *words_left)
    assert done.exit_code == 0, done
    cluster.delete(AclFilter(principal="User:client-3", pattern_type=PatternType.ANY))
    await_all(cluster, followers)
    with cluster.admin(FIRST_BROKER) as broker:
        left = {*broker.describe()}
    assert len(expected) - len(left) == 2 * 2 * 200 + BY_CLIENT // 50
    for each in followers:
        assert each.describe() == left


def test_decisions_equal_the_brokers_audit_log(cluster: Cluster, followers: list[Follower]) -> None:
    """Clients do what they may and what they may not, while the ACLs change between rounds."""
    broker = broker_of(cluster)
    create_topics(broker, ADMIN, *TOPICS)
    met: Counter[bool] = Counter()
    rules: set[str] = set()
    for added in PHASES:
        for line in added.splitlines():
            add_with_tool(cluster, line)
        await_all(cluster, followers)
        before = broker.audit_log.stat().st_size
        for user in (None, "alice", "bob"):
            use_broker(broker, user, TOPICS, GROUP)
        for recorded in recorded_after(broker, before):
            for each in followers:
                answer = each.evaluate(recorded.evaluation).json
                assert answer["decision"] == recorded.decision, recorded
                assert answer["context"]["rule"] == recorded.rule, recorded
            met[recorded.decision] += 1
            rules.add(recorded.rule)
    assert min(met.values()) > 20, met
    assert len(rules) > 6, rules


def recorded_after(broker: Broker, start: int) -> list[Recorded]:
    """Return the decisions in the audit log from this byte on, each once."""
    with broker.audit_log.open("rb") as log:
        log.seek(start)
        lines = log.read().decode().splitlines()
    found = (recorded for line in lines if (recorded := recorded_of(line)) is not None)
    return list({str((each.evaluation, each.rule, each.decision)): each for each in found}.values())
