"""Changes of ACLs through a daemon that follows a real cluster, in each mode."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.conformance.writing_daemons import (
    MECHANISM,
    OWN,
    PRINCIPALS,
    PRIVILEGED,
    add_scram_users,
    audited,
    connected,
    described,
    following,
    may_alter,
)
from tests.kafka_rig.broker import BrokerSettings
from tests.kafka_rig.cluster import FIRST_BROKER, FIRST_CONTROLLER, Cluster, running_cluster
from tests.kafka_rig.cluster_settings import FOLLOWER, NODE, POLLER, ClusterSettings
from tests.kafka_rig.followers import brokers_source
from tests.kafka_rig.rig import Rig
from tests.support.acls import acl
from tests.support.daemon_process import running
from tests.support.kafka_connection import KafkaConnection


@pytest.fixture(scope="module")
def cluster(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a controller and a broker that audit allowed requests, too. alice may change ACLs."""
    node = BrokerSettings(
        users=NODE.users,
        jvm_options=NODE.jvm_options,
        linger_ms=NODE.linger_ms,
        more=NODE.more,
        audit_level="DEBUG",
    )
    settings = ClusterSettings(controllers=1, node=node)
    with running_cluster(rig, tmp_path_factory.mktemp("cluster"), settings) as cluster:
        add_scram_users(cluster, "alice", "bob")
        cluster.create(may_alter("alice"))
        yield cluster


def wait_for_broker(cluster: Cluster, topic: str, *, is_shown: bool) -> None:
    with cluster.admin(FIRST_BROKER) as admin:
        cluster.wait_for(
            lambda: (topic in {each.resource_name for each in admin.describe()}) is is_shown,
            f"the broker agrees about {topic}",
        )


def test_refused_changes_do_not_reach_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    before = len(audited(cluster, "CreateAcls"))
    with following(cluster, tmp_path, "refuse") as daemon, connected(daemon, "alice") as client:
        errors = [*client.create(acl(topic="refused"))]
        errors += [each.error for each in client.delete(AclFilter(resource_name="refused"))]
    for error in errors:
        assert error is not None
        assert error.code == ErrorCode.POLICY_VIOLATION
        assert cluster.bootstrap_controllers in str(error.message)
    assert len(audited(cluster, "CreateAcls")) == before


def test_changes_as_self_have_the_daemons_rights(cluster: Cluster, tmp_path: Path) -> None:
    """The daemon checks the caller, and the controller checks the daemon."""
    wanted = acl(topic="as-self")
    with (
        following(cluster, tmp_path, "as-self") as daemon,
        connected(daemon, "carol", "PLAIN") as client,
    ):
        [denied] = client.create(wanted)
        assert denied is not None
        assert denied.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert f"--operation Alter --allow-principal User:{FOLLOWER})" in str(denied.message)
        cluster.create(may_alter(FOLLOWER))
        before = len(audited(cluster, "CreateAcls"))
        assert client.create(wanted) == [None]
        assert wanted in described(client)
        assert audited(cluster, "CreateAcls")[before:] == [
            f"User:{FOLLOWER} is Allowed operation = ALTER from host = 127.0.0.1"
        ]
        wait_for_broker(cluster, "as-self", is_shown=True)
        assert client.create(wanted) == [None]
        before = len(audited(cluster, "DeleteAcls"))
        [deleted] = client.delete(AclFilter(resource_name="as-self"))
        assert [match.acl for match in deleted.matches] == [wanted]
        assert wanted not in described(client)
        assert audited(cluster, "DeleteAcls")[before:] == [
            f"User:{FOLLOWER} is Allowed operation = ALTER from host = 127.0.0.1"
        ]
        wait_for_broker(cluster, "as-self", is_shown=False)
    [was_deleted] = cluster.delete(AclFilter(principal=f"User:{FOLLOWER}", operation=7))
    assert was_deleted == may_alter(FOLLOWER)


def test_forwarded_changes_have_the_callers_rights(cluster: Cluster, tmp_path: Path) -> None:
    """alice may change ACLs. bob is a super user here, but not in the cluster."""
    wanted = acl(topic="forwarded")
    config = {PRINCIPALS: "User:alice;User:bob", PRIVILEGED: "super-users"}
    with following(cluster, tmp_path, "forward", config) as daemon:
        with connected(daemon, "alice") as client:
            before = len(audited(cluster, "CreateAcls"))
            assert client.create(wanted) == [None]
            assert wanted in described(client)
            assert audited(cluster, "CreateAcls")[before:] == [
                "User:alice is Allowed operation = ALTER from host = 127.0.0.1"
            ]
            wait_for_broker(cluster, "forwarded", is_shown=True)
            before = len(audited(cluster, "DeleteAcls"))
            [deleted] = client.delete(AclFilter(resource_name="forwarded"))
            assert [match.acl for match in deleted.matches] == [wanted]
            assert wanted not in described(client)
            assert audited(cluster, "DeleteAcls")[before:] == [
                "User:alice is Allowed operation = ALTER from host = 127.0.0.1"
            ]
            wait_for_broker(cluster, "forwarded", is_shown=False)
        with connected(daemon, "bob") as client:
            before = len(audited(cluster, "CreateAcls"))
            [denied] = client.create(wanted)
            assert denied is not None
            assert denied.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert audited(cluster, "CreateAcls")[before:] == [
                "User:bob is Denied operation = ALTER from host = 127.0.0.1"
            ]


def test_unlisted_callers_do_not_reach_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """Neither a user of the cluster nor one of the daemon is forwarded, super users or not."""
    before = len(audited(cluster, "CreateAcls"))
    config = {PRINCIPALS: "User:alice"}
    with following(cluster, tmp_path, "forward", config) as daemon:
        for user, mechanism in (("bob", MECHANISM), ("carol", "PLAIN")):
            with connected(daemon, user, mechanism) as client:
                [denied] = client.create(acl(topic="borrowed"))
            assert denied is not None
            assert denied.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert f"User:{user} is not forwarded" in str(denied.message)
            assert PRINCIPALS in str(denied.message)
    assert len(audited(cluster, "CreateAcls")) == before


def test_items_get_the_results_that_the_controller_gives(cluster: Cluster, tmp_path: Path) -> None:
    """Errors have the same codes and texts, in the same order."""
    wrong_name = Acl(4, "wrong", 3, "User:alice", "*", 3, 3)
    odd = [acl("nobody", topic="odd"), acl(topic="odd-1"), wrong_name, acl(topic="odd-1")]
    filters = [AclFilter(resource_name="odd-1"), AclFilter(operation=99), AclFilter(principal="x")]
    config = {PRINCIPALS: "User:alice"}
    controller = cluster.members[FIRST_CONTROLLER].address
    with closing(KafkaConnection(controller, "alice", NODE.users["alice"])) as direct:
        expected = direct.create(*odd), direct.delete(*filters)
    with (
        following(cluster, tmp_path, "forward", config) as daemon,
        connected(daemon, "alice") as client,
    ):
        assert (client.create(*odd), client.delete(*filters)) == expected


def test_changes_through_brokers_have_the_daemons_rights(cluster: Cluster, tmp_path: Path) -> None:
    """A listing of the pinned broker, not the next regular one, shows a change at once."""
    wanted = acl(topic="through-brokers")
    cluster.create(may_alter(POLLER))
    own = {key: value for key, value in OWN.items() if key != "sasl.enabled.mechanisms"}
    config = {
        **brokers_source(cluster),
        **own,
        "sasl.enabled.mechanisms": "PLAIN",
        "authorizerd.source.poll.ms": "60000",
        "authorizerd.writes": "as-self",
    }
    with (
        running(tmp_path, tmp_path / "copy", config) as daemon,
        connected(daemon, "carol", "PLAIN") as client,
    ):
        before = len(audited(cluster, "CreateAcls"))
        assert client.create(wanted) == [None]
        assert wanted in described(client)
        wait_for_broker(cluster, "through-brokers", is_shown=True)
        [deleted] = client.delete(AclFilter(resource_name="through-brokers"))
        assert [match.acl for match in deleted.matches] == [wanted]
        assert wanted not in described(client)
        assert audited(cluster, "CreateAcls")[before:] == [
            f"User:{POLLER} is Allowed operation = ALTER from host = 127.0.0.1"
        ]
    cluster.delete(AclFilter(principal=f"User:{POLLER}", operation=7))
