"""ACLs managed with the usual admin clients: confluent-kafka and kafka-python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ResourcePatternType, ResourceType
from kafka.admin import ACL, ACLFilter, KafkaAdminClient, ResourcePattern, ResourcePatternFilter
from kafka.admin import ACLOperation as PythonOperation
from kafka.admin import ACLPermissionType as PythonPermission
from kafka.admin import ACLResourcePatternType as PythonPattern
from kafka.admin import ResourceType as PythonResource
from kafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    InvalidRequestError,
)

from authorizerd.image.changes import Partition, PartitionAdded, TopicAdded
from tests.support.acls import acl
from tests.support.admin_client import (
    ANYTHING,
    binding,
    create_acls,
    delete_acls,
    describe_acls,
    filter_of,
    new_admin,
    result_of,
)
from tests.support.daemon_process import SECONDS_MAX, DaemonProcess, new_log, running, wait_until
from tests.support.log_files import added, write_log
from tests.support.requests import evaluation

EVERYTHING = ACLFilter(
    None,
    None,
    PythonOperation.ANY,
    PythonPermission.ANY,
    ResourcePatternFilter(PythonResource.ANY, None, PythonPattern.ANY),
)


@pytest.fixture
def admin(daemon: DaemonProcess) -> AdminClient:
    return new_admin(daemon)


def test_confluents_client_creates_describes_and_deletes(admin: AdminClient) -> None:
    """One request has literal and prefixed, valid and invalid items, and a result for each."""
    literal = binding()
    prefixed = binding("ord", pattern_type=ResourcePatternType.PREFIXED)
    no_principal = binding(principal="alice")
    no_cluster = binding("other", resource_type=ResourceType.BROKER)
    assert create_acls(admin, literal, no_principal, prefixed, no_cluster) == [
        None,
        (
            42,
            "Could not parse principal from `alice` (no colon is present separating the principal "
            "type from the principal name)",
        ),
        None,
        (42, "The only valid name for the CLUSTER resource is kafka-cluster"),
    ]
    assert describe_acls(admin) == {literal, prefixed}
    assert create_acls(admin, literal) == [None]
    assert describe_acls(admin) == {literal, prefixed}
    matched = filter_of("orders", ResourcePatternType.MATCH)
    assert describe_acls(admin, matched) == {literal, prefixed}
    assert set(delete_acls(admin, matched)) == {literal, prefixed}
    assert describe_acls(admin) == set()


def test_acknowledged_change_is_used_at_once(daemon: DaemonProcess, admin: AdminClient) -> None:
    for _ in range(20):
        assert daemon.evaluate(evaluation()).json["decision"] is False
        assert create_acls(admin, binding()) == [None]
        assert daemon.evaluate(evaluation()).json["decision"] is True
        assert len(delete_acls(admin, filter_of("orders"))) == 1
    assert daemon.metric("authorizerd_acls") == 0
    written = daemon.metric("authorizerd_snapshot_offset")
    assert daemon.metric("authorizerd_high_watermark") == written
    assert daemon.metric('authorizerd_purgatory_size{operation="acl-update"}') == 0
    assert daemon.metric('authorizerd_request_remote_seconds_count{request="CreateAcls"}') == 20


def test_acknowledged_changes_survive_a_kill(tmp_path: Path) -> None:
    """SIGKILL loses no acknowledged creation, and restores no acknowledged deletion."""
    log_dir = new_log(tmp_path)
    for number in range(3):
        with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
            admin = new_admin(daemon)
            before = describe_acls(admin)
            assert len(before) == number
            assert create_acls(admin, binding(f"t{number}"), binding("gone")) == [None, None]
            assert len(delete_acls(admin, filter_of("gone"))) == 1
            daemon.process.kill()
            daemon.process.wait()


def test_managing_acls_requires_rights_on_the_cluster(tmp_path: Path) -> None:
    """Each item has the error CLUSTER_AUTHORIZATION_FAILED."""
    with running(tmp_path, new_log(tmp_path)) as daemon:
        admin = new_admin(daemon)
        refused = (31, "Cluster authorization failed.")
        assert create_acls(admin, binding(), binding("other")) == [refused] * 2
        python = KafkaAdminClient(bootstrap_servers=daemon.ready["listeners"]["PLAINTEXT"])
        with pytest.raises(ClusterAuthorizationFailedError):
            python.describe_acls(EVERYTHING)  # librdkafka shows an empty list instead of the error
        python.close()
        assert delete_acls(admin) == refused
        assert daemon.metric("authorizerd_acls") == 0


def test_user_of_a_plain_log_in_is_the_principal(tmp_path: Path) -> None:
    """With the wrong password, there is no connection."""
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_admin="admin-secret" user_bob="bob-secret";'
    )
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "super.users": "User:admin",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
    }
    with running(tmp_path, new_log(tmp_path), config) as daemon:

        def admin_as(user: str, password: str) -> AdminClient:
            return new_admin(
                daemon,
                "SASL_PLAINTEXT",
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="PLAIN",
                sasl_username=user,
                sasl_password=password,
            )

        assert create_acls(admin_as("admin", "admin-secret"), binding()) == [None]
        assert create_acls(admin_as("bob", "bob-secret"), binding("t"))[0][0] == 31
        wrong = admin_as("admin", "wrong")
        with pytest.raises(KafkaException):
            wrong.describe_acls(ANYTHING, request_timeout=3).result(5)
        wait_until(lambda: failed_logins(daemon) >= 1, "the failed authentication is counted")
        code, errors = daemon.stop()
    assert code == 0
    assert "secret" not in errors


def failed_logins(daemon: DaemonProcess) -> float:
    return daemon.metric('authorizerd_kafka_logins_failed_total{listener="SASL_PLAINTEXT"}')


def test_kafka_pythons_client_creates_describes_and_deletes(daemon: DaemonProcess) -> None:
    """The same checks as for confluent-kafka's client."""
    client = KafkaAdminClient(bootstrap_servers=daemon.ready["listeners"]["PLAINTEXT"])
    pattern = ResourcePattern(PythonResource.TOPIC, "orders", PythonPattern.PREFIXED)
    good = ACL("User:alice", "*", PythonOperation.READ, PythonPermission.ALLOW, pattern)
    bad = ACL("alice", "*", PythonOperation.READ, PythonPermission.ALLOW, pattern)
    result = client.create_acls([good, bad])
    assert result["succeeded"] == [good]
    assert result["failed"] == [InvalidRequestError]
    found, _ = client.describe_acls(EVERYTHING)
    assert [acl.principal for acl in found] == ["User:alice"]
    client.delete_acls([EVERYTHING])
    found, _ = client.describe_acls(EVERYTHING)
    assert found == []
    client.close()


def test_the_cluster_is_described_as_one_node(daemon: DaemonProcess, admin: AdminClient) -> None:
    """Metadata and DescribeCluster give this daemon's address."""
    host, _, port = daemon.ready["listeners"]["PLAINTEXT"].partition(":")
    cluster = admin.describe_cluster(request_timeout=SECONDS_MAX).result(SECONDS_MAX)
    assert [(node.id, node.host, node.port) for node in cluster.nodes] == [(1, host, int(port))]
    assert cluster.controller.id == 1
    metadata = admin.list_topics(timeout=SECONDS_MAX)
    assert metadata.cluster_id == cluster.cluster_id
    assert not metadata.topics


ANONYMOUS = "User:ANONYMOUS"
ORDERS_ID, SECRETS_ID = b"orders".rjust(16, b"-"), b"secrets".rjust(16, b"-")
PARTITION = Partition(replicas=(1, 2), isr=(1,), leader=1, leader_epoch=3, partition_epoch=3)


@pytest.fixture
def restricted(tmp_path: Path) -> Iterator[DaemonProcess]:
    """Run a daemon with two topics, whose clients may read one of them and one group."""
    log_dir = new_log(tmp_path)
    write_log(
        log_dir,
        [
            TopicAdded("orders", ORDERS_ID),
            PartitionAdded(ORDERS_ID, 0, PARTITION),
            PartitionAdded(ORDERS_ID, 1, PARTITION),
            TopicAdded("secrets", SECRETS_ID),
            PartitionAdded(SECRETS_ID, 0, PARTITION),
            added(1, acl(ANONYMOUS, topic="orders")),
            added(2, acl(ANONYMOUS, group="billing")),
            added(3, acl(ANONYMOUS, "ALTER", cluster=True)),
        ],
    )
    with running(tmp_path, log_dir) as daemon:
        yield daemon


def test_confluents_client_gets_authorized_operations(restricted: DaemonProcess) -> None:
    """KIP-430: operations on topics, groups and the cluster. Other resources are not visible."""
    admin = new_admin(restricted)
    listed = admin.list_topics(timeout=SECONDS_MAX)
    assert set(listed.topics) == {"orders"}
    assert {
        number: (partition.leader, partition.replicas, partition.isrs)
        for number, partition in listed.topics["orders"].partitions.items()
    } == {0: (1, [1, 2], [1]), 1: (1, [1, 2], [1])}
    topics = admin.describe_topics(
        TopicCollection(["orders", "secrets", "absent"]),
        include_authorized_operations=True,
        request_timeout=SECONDS_MAX,
    )
    orders = result_of(topics["orders"])
    assert set(orders.authorized_operations) == {AclOperation.READ, AclOperation.DESCRIBE}
    assert [each.id for each in orders.partitions] == [0, 1]
    assert result_of(topics["secrets"])[0] == result_of(topics["absent"])[0] == 29
    groups = admin.describe_consumer_groups(
        ["billing", "payroll"], include_authorized_operations=True, request_timeout=SECONDS_MAX
    )
    billing = result_of(groups["billing"])
    assert set(billing.authorized_operations) == {AclOperation.READ, AclOperation.DESCRIBE}
    assert result_of(groups["payroll"])[0] == 30
    cluster = result_of(
        admin.describe_cluster(include_authorized_operations=True, request_timeout=SECONDS_MAX)
    )
    assert set(cluster.authorized_operations) == {AclOperation.ALTER, AclOperation.DESCRIBE}


def test_kafka_pythons_client_gets_authorized_operations(restricted: DaemonProcess) -> None:
    client = KafkaAdminClient(bootstrap_servers=restricted.ready["listeners"]["PLAINTEXT"])
    assert client.list_topics() == ["orders"]
    orders, secrets = client.describe_topics(["orders", "secrets"])
    assert set(orders["authorized_operations"]) == {"READ", "DESCRIBE"}
    assert [each["leader_epoch"] for each in orders["partitions"]] == [3, 3]
    assert (secrets["error_code"], secrets["topic_id"]) == (29, None)
    groups = client.describe_groups(["billing"], include_authorized_operations=True)
    assert "Group billing not found." in groups["billing"]["error"]  # this client asks with v6
    with pytest.raises(GroupAuthorizationFailedError):
        client.describe_groups(["payroll"], include_authorized_operations=True)
    assert set(client.describe_cluster()["authorized_operations"]) == {"ALTER", "DESCRIBE"}
    client.close()
