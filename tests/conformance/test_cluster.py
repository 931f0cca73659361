"""The cluster that live tests follow: its users, its leader, its voters and its endpoints."""

from pathlib import Path

import pytest

from authorizerd.acl.model import AclFilter, PatternType
from tests.kafka_rig.cluster import FIRST_BROKER, Cluster, running_cluster
from tests.kafka_rig.cluster_settings import FOLLOWER, GRANTS, POLLER, ClusterSettings
from tests.kafka_rig.rig import Program, Rig, RigError
from tests.support.acls import acl


def check_described(cluster: Cluster, expected: set[str]) -> None:
    """Wait until the broker shows exactly the ACLs on these topics, besides the first ones."""

    def is_shown() -> bool:
        with cluster.admin(FIRST_BROKER) as admin:
            return {each.resource_name for each in set(admin.describe()) - {*GRANTS}} == expected

    cluster.wait_for(is_shown, f"the broker shows {expected}")


def test_nodes_are_killed_added_removed_and_moved(rig: Rig, tmp_path: Path) -> None:
    with running_cluster(rig, tmp_path, ClusterSettings()) as cluster:
        first = cluster.quorum()
        assert {*first.voters} == {1, 2, 3}
        assert {*first.observers} == {FIRST_BROKER}
        with cluster.admin(FIRST_BROKER, FOLLOWER) as admin, pytest.raises(RigError, match="CLUST"):
            admin.create([acl(topic="refused")])
        with cluster.admin(FIRST_BROKER, POLLER) as admin:
            assert {*admin.describe()} == {*GRANTS}

        cluster.kill(first.leader_id)
        leader = cluster.find_leader()
        assert leader != first.leader_id
        cluster.create(acl(topic="a"), acl(topic="b", pattern="PREFIXED"))
        cluster.start(first.leader_id)
        check_described(cluster, {"a", "b"})

        added = cluster.add_controller()
        cluster.remove_controller(leader)
        assert {*cluster.quorum().voters} == {1, 2, 3, added} - {leader}

        before = {each.address for each in cluster.members.values()}
        for node_id in (*cluster.members,):
            cluster.move(node_id)
        assert not before & {each.address for each in cluster.members.values()}
        deleted = cluster.delete(AclFilter(resource_name="b", pattern_type=PatternType.ANY))
        assert deleted == [acl(topic="b", pattern="PREFIXED")]
        check_described(cluster, {"a"})
        listed = cluster.run(Program.ACLS, "--list", "--topic", "a")
        assert listed.exit_code == 0, listed
        assert "principal=User:a" in listed.stdout
        processes = [each.process for each in cluster.members.values()]
    assert not any(each.is_running for each in processes)


def test_single_controller_serves_while_a_broker_is_paused(rig: Rig, tmp_path: Path) -> None:
    settings = ClusterSettings(controllers=1, brokers=2)
    with running_cluster(rig, tmp_path, settings) as cluster:
        cluster.pause(FIRST_BROKER + 1)
        with cluster.admin(FIRST_BROKER) as admin:
            admin.create([acl(topic="a")])
        check_described(cluster, {"a"})
        cluster.resume(FIRST_BROKER + 1)
        with cluster.admin(FIRST_BROKER + 1) as lagging:
            cluster.wait_for(lambda: acl(topic="a") in lagging.describe(), "the broker caught up")
