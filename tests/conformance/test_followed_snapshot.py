"""Daemons follow a controller whose log was cut to a snapshot, as if from a backup."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from authorizerd.acl.model import Acl
from tests.conformance.acl_history import read_checkpoint
from tests.conformance.followers import Follower
from tests.end_to_end.example_daemon import Ports
from tests.end_to_end.page_shell import Names, Shell, run_page
from tests.kafka_rig.cluster import FIRST_CONTROLLER, Cluster, running_cluster
from tests.kafka_rig.cluster_settings import NODE, ClusterSettings
from tests.kafka_rig.followers import quorum_source
from tests.kafka_rig.rig import Rig
from tests.support.acls import acl

ACLS = 30_000
"""More than one answer to FetchSnapshot contains."""

BATCH = 5000
SETTINGS = ClusterSettings(
    controllers=1,
    brokers=0,
    node=replace(NODE, jvm_options=("-Xmx512m", "-XX:+UseSerialGC")),
    controller_more={"metadata.log.max.record.bytes.between.snapshots": "1000000"},
)


@pytest.fixture
def single(rig: Rig, tmp_path: Path) -> Iterator[Cluster]:
    """Run one controller with many ACLs and a snapshot."""
    with running_cluster(rig, tmp_path / "kafka", SETTINGS) as cluster:
        for first in range(0, ACLS, BATCH):
            cluster.create(*(acl(topic=f"t-{number}") for number in range(first, first + BATCH)))
        cluster.wait_for(lambda: newest_checkpoint(cluster).stat().st_size > 1 << 20, "a snapshot")
        yield cluster


def newest_checkpoint(cluster: Cluster) -> Path:
    return max(cluster.members[FIRST_CONTROLLER].metadata_dir.glob("*.checkpoint"))


def cut_log(cluster: Cluster) -> list[Acl]:
    """Restart the controller with its newest checkpoint alone, as restored; return its ACLs."""
    cluster.stop(FIRST_CONTROLLER)
    kept = newest_checkpoint(cluster)
    left = {"partition.metadata", "quorum-state", kept.name}
    for file in kept.parent.iterdir():
        if file.name not in left:
            file.unlink()
    acls = read_checkpoint(cluster.rig, kept)
    cluster.start(FIRST_CONTROLLER)
    return acls


def reset_copy(follower: Follower, page: str, folder: Path) -> None:
    """Run the command of a page."""
    real = {
        "/etc/authorizerd/server.properties": str(follower.config),
        "/var/lib/authorizerd/copy": str(follower.copy),
    }
    with Shell(folder) as shell:
        test = "tests/conformance/test_followed_snapshot.py"
        run_page(page, test, shell, Names(real, Ports()))


def test_new_daemon_begins_with_the_snapshot_and_the_old_one_stops(
    single: Cluster, tmp_path: Path
) -> None:
    source = quorum_source(single)
    with Follower(tmp_path / "old", source) as old:
        single.create(acl(topic="lost"))
        old.wait_for_offset(single.quorum().high_watermark - 1)
        assert acl(topic="lost") in old.describe()
        expected = cut_log(single)
        assert len(expected) > ACLS // 2
        assert acl(topic="lost") not in expected
        with Follower(tmp_path / "new", source) as new:
            assert new.describe() == {*expected}
            single.create(acl(topic="after"))
            new.wait_for_offset(single.quorum().high_watermark - 1)
            assert new.describe() == {*expected, acl(topic="after")}
            new.kill()
            new.start()
            assert new.describe() == {*expected, acl(topic="after")}
        old.wait_until_not_ready()
        assert "reset-copy" in old.readiness().body.decode()
        for page in ("backup.md", "following.md"):
            old.kill()
            reset_copy(old, page, tmp_path)
            old.start()
            assert old.describe() == {*expected, acl(topic="after")}
