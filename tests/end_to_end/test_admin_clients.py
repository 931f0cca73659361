"""ACLs managed by the admin clients that people use: confluent-kafka, kafka-python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
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

from authorizerd.acl.model import Acl, AclAdded, Operation, PatternType, PermissionType
from authorizerd.acl.model import ResourceType as AclResource
from authorizerd.image.changes import Partition, PartitionAdded, TopicAdded
from tests.support.daemon_process import DaemonProcess, run, running, write_config
from tests.support.log_files import acl_id, write_log

SECONDS_MAX = 20.0


def meant(name: str | None, pattern_type: ResourcePatternType) -> AclBindingFilter:
    """Return a filter for a resource's name that leaves everything else open."""
    open_name: Any = name  # the client's annotations deny that these may be left open
    nobody: Any = None
    return AclBindingFilter(
        ResourceType.ANY if name is None else ResourceType.TOPIC,
        open_name,
        pattern_type,
        nobody,
        nobody,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


ANYTHING = meant(None, ResourcePatternType.ANY)
EVERYTHING = ACLFilter(
    None,
    None,
    PythonOperation.ANY,
    PythonPermission.ANY,
    ResourcePatternFilter(PythonResource.ANY, None, PythonPattern.ANY),
)


def new_log(folder: Path) -> Path:
    """Format a log directory."""
    log_dir = folder / "log"
    done = run("format", "--config", write_config(folder, log_dir))
    assert done.returncode == 0, done.stderr
    return log_dir


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with running(tmp_path, new_log(tmp_path), super_users="User:ANONYMOUS") as daemon:
        yield daemon


@pytest.fixture
def admin(daemon: DaemonProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": daemon.ready["listeners"]["PLAINTEXT"]})


def binding(
    name: str = "orders",
    *,
    pattern_type: ResourcePatternType = ResourcePatternType.LITERAL,
    principal: str = "User:alice",
    operation: AclOperation = AclOperation.READ,
    resource_type: ResourceType = ResourceType.TOPIC,
) -> AclBinding:
    return AclBinding(
        resource_type, name, pattern_type, principal, "*", operation, AclPermissionType.ALLOW
    )


def ended(future: Future[Any]) -> Any:  # noqa: ANN401 - what a future holds
    """Return a future's value, or its error as code and text."""
    try:
        return future.result(timeout=SECONDS_MAX)
    except KafkaException as error:
        return error.args[0].code(), error.args[0].str()


def created(admin: AdminClient, *bindings: AclBinding) -> list[Any]:
    futures = admin.create_acls(list(bindings), request_timeout=SECONDS_MAX)
    return [ended(futures[each]) for each in bindings]


def described(admin: AdminClient, wanted: AclBindingFilter = ANYTHING) -> set[AclBinding]:
    return set(admin.describe_acls(wanted, request_timeout=SECONDS_MAX).result(SECONDS_MAX))


def test_confluents_client_creates_describes_and_deletes(admin: AdminClient) -> None:
    """Literal and prefixed, valid and invalid items in one request, each with its own result."""
    literal = binding()
    prefixed = binding("ord", pattern_type=ResourcePatternType.PREFIXED)
    no_principal = binding(principal="alice")
    no_cluster = binding("other", resource_type=ResourceType.BROKER)
    assert created(admin, literal, no_principal, prefixed, no_cluster) == [
        None,
        (
            42,
            "Could not parse principal from `alice` (no colon is present separating the principal "
            "type from the principal name)",
        ),
        None,
        (42, "The only valid name for the CLUSTER resource is kafka-cluster"),
    ]
    assert described(admin) == {literal, prefixed}
    assert created(admin, literal) == [None]
    assert described(admin) == {literal, prefixed}
    matched = meant("orders", ResourcePatternType.MATCH)
    assert described(admin, matched) == {literal, prefixed}
    deleted = admin.delete_acls([matched], request_timeout=SECONDS_MAX)[matched]
    assert set(deleted.result(SECONDS_MAX)) == {literal, prefixed}
    assert described(admin) == set()


def test_a_creation_is_decided_by_at_once(daemon: DaemonProcess, admin: AdminClient) -> None:
    """Once a client is told "created", decisions use the ACL; the same for "deleted"."""
    question = {
        "subject": {"type": "user", "id": "alice"},
        "action": {"name": "read"},
        "resource": {"type": "topic", "id": "orders"},
        "context": {"host": "10.0.0.1"},
    }
    only = meant("orders", ResourcePatternType.LITERAL)
    for _ in range(20):
        assert daemon.evaluate(question).json["decision"] is False
        assert created(admin, binding()) == [None]
        assert daemon.evaluate(question).json["decision"] is True
        ended(admin.delete_acls([only], request_timeout=SECONDS_MAX)[only])
    assert daemon.metric("authorizerd_acls") == 0
    assert daemon.metric('authorizerd_purgatory_size{operation="acl-update"}') == 0
    assert daemon.metric('authorizerd_request_remote_seconds_count{request="CreateAcls"}') == 20


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    """SIGKILL loses no acknowledged creation, and restores no acknowledged deletion."""
    log_dir = new_log(tmp_path)
    for number in range(3):
        with running(tmp_path, log_dir, super_users="User:ANONYMOUS") as daemon:
            admin = AdminClient({"bootstrap.servers": daemon.ready["listeners"]["PLAINTEXT"]})
            before = described(admin)
            assert len(before) == number
            assert created(admin, binding(f"t{number}"), binding("gone")) == [None, None]
            gone = meant("gone", ResourcePatternType.LITERAL)
            ended(admin.delete_acls([gone], request_timeout=SECONDS_MAX)[gone])
            daemon.process.kill()
            daemon.process.wait()


def test_only_who_may_describe_and_alter_the_cluster_does(tmp_path: Path) -> None:
    """Everyone else gets CLUSTER_AUTHORIZATION_FAILED, item by item."""
    with running(tmp_path, new_log(tmp_path)) as daemon:
        admin = AdminClient({"bootstrap.servers": daemon.ready["listeners"]["PLAINTEXT"]})
        assert (
            created(admin, binding(), binding("other"))
            == [(31, "Cluster authorization failed.")] * 2
        )
        python = KafkaAdminClient(bootstrap_servers=daemon.ready["listeners"]["PLAINTEXT"])
        with pytest.raises(ClusterAuthorizationFailedError):
            python.describe_acls(EVERYTHING)  # librdkafka takes the error for an empty list
        python.close()
        deletion = admin.delete_acls([ANYTHING], request_timeout=SECONDS_MAX)[ANYTHING]
        assert ended(deletion)[0] == 31
        assert daemon.metric("authorizerd_acls") == 0


def test_plain_log_ins_are_who_they_say(tmp_path: Path) -> None:
    """SASL_PLAINTEXT beside PLAINTEXT: one principal per user, and none without the password."""
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
            return AdminClient(
                {
                    "bootstrap.servers": daemon.ready["listeners"]["SASL_PLAINTEXT"],
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.username": user,
                    "sasl.password": password,
                }
            )

        assert created(admin_as("admin", "admin-secret"), binding()) == [None]
        assert created(admin_as("bob", "bob-secret"), binding("t"))[0][0] == 31
        wrong = admin_as("admin", "wrong")
        with pytest.raises(KafkaException):
            wrong.describe_acls(ANYTHING, request_timeout=3).result(5)
        wait_until(lambda: failed_logins(daemon) >= 1)
        code, errors = daemon.stop()
    assert code == 0
    assert "secret" not in errors


def failed_logins(daemon: DaemonProcess) -> float:
    return daemon.metric('authorizerd_kafka_logins_failed_total{listener="SASL_PLAINTEXT"}')


def wait_until(holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_kafka_pythons_client_creates_describes_and_deletes(daemon: DaemonProcess) -> None:
    """The same checks with another client."""
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
    """Metadata, DescribeCluster: this daemon, at the address that it is reached by."""
    host, _, port = daemon.ready["listeners"]["PLAINTEXT"].partition(":")
    cluster = admin.describe_cluster(request_timeout=SECONDS_MAX).result(SECONDS_MAX)
    assert [(node.id, node.host, node.port) for node in cluster.nodes] == [(1, host, int(port))]
    assert cluster.controller.id == 1
    metadata = admin.list_topics(timeout=SECONDS_MAX)
    assert metadata.cluster_id == cluster.cluster_id
    assert not metadata.topics


ORDERS_ID, SECRETS_ID = b"orders".rjust(16, b"-"), b"secrets".rjust(16, b"-")
PARTITION = Partition(replicas=(1, 2), isr=(1,), leader=1, leader_epoch=3, partition_epoch=3)


def anonymous_may(number: int, operation: Operation, resource: AclResource, name: str) -> AclAdded:
    rule = Acl(
        resource, name, PatternType.LITERAL, "User:ANONYMOUS", "*", operation, PermissionType.ALLOW
    )
    return AclAdded(acl_id(number), rule)


@pytest.fixture
def told_little(tmp_path: Path) -> Iterator[DaemonProcess]:
    """A daemon whose log names two topics, to clients that may read one of them and one group."""
    log_dir = new_log(tmp_path)
    write_log(
        log_dir,
        [
            TopicAdded("orders", ORDERS_ID),
            PartitionAdded(ORDERS_ID, 0, PARTITION),
            PartitionAdded(ORDERS_ID, 1, PARTITION),
            TopicAdded("secrets", SECRETS_ID),
            PartitionAdded(SECRETS_ID, 0, PARTITION),
            anonymous_may(1, Operation.READ, AclResource.TOPIC, "orders"),
            anonymous_may(2, Operation.READ, AclResource.GROUP, "billing"),
            anonymous_may(3, Operation.ALTER, AclResource.CLUSTER, "kafka-cluster"),
        ],
    )
    with running(tmp_path, log_dir) as daemon:
        yield daemon


def test_confluents_client_is_told_of_authorized_operations(told_little: DaemonProcess) -> None:
    """KIP-430: of topics, groups and the cluster; what may not be described does not show."""
    admin = AdminClient({"bootstrap.servers": told_little.ready["listeners"]["PLAINTEXT"]})
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
    orders = ended(topics["orders"])
    assert set(orders.authorized_operations) == {AclOperation.READ, AclOperation.DESCRIBE}
    assert [each.id for each in orders.partitions] == [0, 1]
    assert ended(topics["secrets"])[0] == ended(topics["absent"])[0] == 29
    groups = admin.describe_consumer_groups(
        ["billing", "payroll"], include_authorized_operations=True, request_timeout=SECONDS_MAX
    )
    billing = ended(groups["billing"])
    assert set(billing.authorized_operations) == {AclOperation.READ, AclOperation.DESCRIBE}
    assert ended(groups["payroll"])[0] == 30
    cluster = ended(
        admin.describe_cluster(include_authorized_operations=True, request_timeout=SECONDS_MAX)
    )
    assert set(cluster.authorized_operations) == {AclOperation.ALTER, AclOperation.DESCRIBE}


def test_kafka_pythons_client_is_told_of_authorized_operations(told_little: DaemonProcess) -> None:
    """Another client's view of the same."""
    client = KafkaAdminClient(bootstrap_servers=told_little.ready["listeners"]["PLAINTEXT"])
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
