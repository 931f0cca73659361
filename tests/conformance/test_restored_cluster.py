"""A daemon meets a controller that was restored from a backup, and whose log has grown longer."""

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.followers import Follower
from tests.kafka_rig.cluster import FIRST_CONTROLLER, Cluster, running_cluster
from tests.kafka_rig.cluster_settings import NODE, ClusterSettings
from tests.kafka_rig.followers import quorum_source
from tests.kafka_rig.rig import Rig
from tests.support.acls import acl
from tests.support.daemon_process import wait_until

SETTINGS = ClusterSettings(
    controllers=1,
    brokers=0,
    node=replace(NODE, jvm_options=("-Xmx512m", "-XX:+UseSerialGC")),
)
MARGIN = 20
"""More than the controller writes between a question and its end."""


@pytest.fixture
def single(rig: Rig, tmp_path: Path) -> Iterator[Cluster]:
    """Run one controller."""
    with running_cluster(rig, tmp_path / "kafka", SETTINGS) as cluster:
        yield cluster


def test_longer_log_of_the_same_epoch_stops_decisions(single: Cluster, tmp_path: Path) -> None:
    """Kafka finds no fault in the daemon's Fetch: its log also has the offset and the epoch."""
    single.create(acl(topic="kept"))
    metadata = single.members[FIRST_CONTROLLER].metadata_dir
    single.stop(FIRST_CONTROLLER)
    shutil.copytree(metadata, tmp_path / "backup")
    single.start(FIRST_CONTROLLER)
    with Follower(tmp_path / "daemon", quorum_source(single)) as follower:
        single.create(acl(topic="lost"))
        before = single.quorum()
        follower.wait_for_offset(before.high_watermark - 1)
        os.kill(follower.process_id, signal.SIGSTOP)
        single.stop(FIRST_CONTROLLER)
        shutil.rmtree(metadata)
        shutil.copytree(tmp_path / "backup", metadata)
        single.start(FIRST_CONTROLLER)
        single.create(acl(topic="new"))
        end = before.high_watermark + MARGIN
        single.wait_for(lambda: single.quorum().high_watermark > end, "a longer log")
        assert single.quorum().leader_epoch == before.leader_epoch
        os.kill(follower.process_id, signal.SIGCONT)
        wait_until(lambda: b"reset-copy" in follower.readiness().body, "decisions have stopped")
