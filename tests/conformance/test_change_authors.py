"""Three users change the ACLs of a real cluster, and ``history`` names each by the audit logs."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from authorizerd.acl.model import AclFilter
from tests.conformance.writing_daemons import PRINCIPALS, add_scram_users, connected, following
from tests.kafka_rig.broker import ADMIN
from tests.kafka_rig.cluster import FIRST_BROKER, Cluster, running_cluster
from tests.kafka_rig.cluster_settings import ClusterSettings
from tests.kafka_rig.rig import Rig
from tests.support.acls import acl
from tests.support.printed import run_main

LATENCY_MS, SKEW_MS = 4_000, 500
PAUSE_SECONDS = (LATENCY_MS + 2 * SKEW_MS) / 1000 + 0.5
"""After this, an earlier request no longer fits. A longer pause changes nothing."""
AROUND_SECONDS = PAUSE_SECONDS + 6
"""The time before and after a change for which a controller's log must be complete."""


@pytest.fixture(scope="module")
def cluster(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = ClusterSettings(controllers=3, brokers=2)
    with running_cluster(rig, tmp_path_factory.mktemp("cluster"), settings) as cluster:
        for user in ("alice", "bob"):
            cluster.create(acl(f"User:{user}", "ALTER", cluster=True))
        add_scram_users(cluster, "alice")
        yield cluster


def read_authors(log_dir: Path, topic: str, *logs: Path) -> list[tuple[str, str, list[str]]]:
    """Return the kind, the certainty and the principals of each change of a topic's ACLs."""
    done = run_main(
        "history", "--log-dir", log_dir, "--topic", topic, "--json", "--audit", *logs,
        "--audit-tz", time.strftime("%z"), "--audit-latency-ms", str(LATENCY_MS),
        "--audit-skew-ms", str(SKEW_MS),
    )  # fmt: skip
    return [
        (each["change"], each["by"]["certainty"], each["by"]["principals"])
        for each in json.loads(done.out)["changes"]
    ]


def test_history_names_who_changed_a_real_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """Through two brokers, and through a daemon that forwards the request for its caller.

    A controller authorizes all requests; no broker logs them.
    """
    time.sleep(AROUND_SECONDS)
    with cluster.admin(FIRST_BROKER, "alice") as admin:
        admin.create([acl(topic="prices")])
    time.sleep(PAUSE_SECONDS)
    with cluster.admin(FIRST_BROKER + 1, "bob") as admin:
        admin.create([acl("User:b", topic="prices")])
        assert len(admin.delete([AclFilter(principal="User:b")])) == 1
    time.sleep(PAUSE_SECONDS)
    with (
        following(cluster, tmp_path, "forward", {PRINCIPALS: "User:alice"}) as daemon,
        connected(daemon, "alice") as client,
    ):
        assert client.create(acl("User:c", topic="prices")) == [None]
    time.sleep(PAUSE_SECONDS)
    # Two callers at once cannot be told apart.
    with cluster.admin(FIRST_BROKER, "bob") as bob, cluster.admin(FIRST_BROKER + 1, ADMIN) as admin:
        bob.create([acl("User:d", topic="prices")])
        admin.create([acl("User:e", topic="prices")])
    time.sleep(AROUND_SECONDS)

    leader = cluster.find_leader()
    controllers = [each.process.audit_log for each in cluster.controllers]
    assert read_authors(cluster.members[leader].log_dir, "prices", *controllers) == [
        ("add", "complete", ["User:alice"]),
        ("add", "complete", ["User:bob"]),
        ("remove", "complete", ["User:bob"]),
        ("add", "complete", ["User:alice"]),
        *[("add", "one_of", ["User:admin", "User:bob"])] * 2,
    ]
    brokers = [
        each.process.audit_log
        for node_id, each in cluster.members.items()
        if each not in cluster.controllers
    ]
    assert {
        certainty
        for _, certainty, _ in read_authors(cluster.members[leader].log_dir, "prices", *brokers)
    } == {"unknown"}
