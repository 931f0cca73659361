"""Daemons follow a real cluster while nodes and daemons are killed, added and moved.

Every decision is compared with an independent reader of the controllers' log.
"""

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from authorizerd.acl.model import Acl, AclFilter
from tests.conformance.acl_history import read_history, read_written
from tests.conformance.churn import POOL, QUESTIONS, Churn
from tests.conformance.followers import Asker, Decisions, Follower
from tests.kafka_rig.cluster import FIRST_BROKER, Cluster
from tests.kafka_rig.cluster_settings import GRANTS
from tests.kafka_rig.followers import quorum_source
from tests.kafka_rig.rig import RigError
from tests.oracles.acl_history import AclHistory
from tests.support.acls import acl, exact_filter

LEADER_KILLS = 10
DAEMON_KILLS = 10
TRUNCATIONS = 4
SETTLE_SECONDS = 1.0
ALONE = "User:alone"
WRITTEN_ALONE = 3
WRITE_SECONDS = 0.25
"""Between changes that a leader writes alone. It resigns after 3 s without its followers."""


@dataclass
class Scene:
    """What happens to the cluster and to its followers; the first follower is never killed.

    ``truncated`` has ACLs that a leader wrote and no other controller ever got.
    """

    cluster: Cluster
    followers: list[Follower]
    random: random.Random
    truncated: set[Acl] = field(default_factory=set)

    def pause(self, seconds_max: float) -> None:
        time.sleep(self.random.uniform(0, seconds_max))


def kill_leaders(scene: Scene) -> None:
    """Kill the leader and start it again; twice, let a deposed leader go on instead."""
    cluster = scene.cluster
    for number in range(LEADER_KILLS):
        leader = cluster.find_leader()
        cluster.kill(leader)
        scene.pause(1.0)
        cluster.start(leader)
        if number % 5 == 0:
            _depose_leader(cluster)


def _depose_leader(cluster: Cluster) -> None:
    """Pause the leader until another one is elected; then it goes on, with an old watermark."""
    leader = cluster.find_leader()
    cluster.pause(leader)
    try:
        cluster.wait_for(lambda: cluster.find_leader() != leader, "another leader")
    finally:
        cluster.resume(leader)


def kill_daemons(scene: Scene) -> None:
    """Kill the second daemon at random moments; every third time, the leader too."""
    cluster, victim = scene.cluster, scene.followers[1]
    for number in range(DAEMON_KILLS):
        scene.pause(1.0)
        victim.kill()
        if number % 3 == 0:
            leader = cluster.find_leader()
            cluster.kill(leader)
            victim.start()
            cluster.start(leader)
        else:
            victim.start()


def truncate_leaders(scene: Scene) -> None:
    """Let a leader write what no other controller gets, kill it, and elect another one.

    The followers fetch these records too, but they are never committed. The old leader truncates
    them when it is back.
    """
    cluster, victim = scene.cluster, scene.followers[1]
    for number in range(TRUNCATIONS):
        leader = cluster.members[cluster.find_leader()]
        others = [each for each in cluster.controllers if each is not leader]
        alone = [
            acl(ALONE, "READ", topic=f"alone-{number}-{each}") for each in range(WRITTEN_ALONE)
        ]
        for each in others:
            each.process.pause()
        with ThreadPoolExecutor(WRITTEN_ALONE) as threads:
            for written in alone:
                threads.submit(_create_unanswered, cluster, leader.node_id, written)
                time.sleep(WRITE_SECONDS)
            leader.process.kill()
        if number % 2:
            victim.kill()
        scene.truncated |= {*alone[1:]} & read_written(cluster.rig, leader)
        for each in others:
            each.process.resume()
        if number % 2:
            victim.start()
        cluster.start(leader.node_id)
        time.sleep(SETTLE_SECONDS)
    cluster.delete(AclFilter(principal=ALONE))


def _create_unanswered(cluster: Cluster, leader_id: int, created: Acl) -> None:
    """Send a creation to a leader that dies first. The first one may still reach the others."""
    with pytest.raises((OSError, RigError)), cluster.admin(leader_id) as admin:
        admin.create([created])


def change_voters(scene: Scene) -> None:
    """Add a voter, remove the leader, then move every node to new ports."""
    cluster = scene.cluster
    cluster.add_controller()
    cluster.remove_controller(cluster.find_leader())
    for node_id in [*cluster.members]:
        cluster.move(node_id)


@pytest.mark.parametrize(
    "disturb",
    [kill_leaders, kill_daemons, truncate_leaders, change_voters],
    ids=lambda each: each.__name__,
)
def test_decisions_equal_those_of_the_log(
    cluster: Cluster, tmp_path: Path, seed: int, disturb: Callable[[Scene], None]
) -> None:
    source = quorum_source(cluster)
    with ExitStack() as stack:
        followers = [
            stack.enter_context(Follower(tmp_path / f"daemon-{number}", source))
            for number in (1, 2)
        ]
        with ExitStack() as asking:
            askers = [asking.enter_context(Asker(each, seed)) for each in followers]
            with Churn(cluster, seed) as churn:
                time.sleep(SETTLE_SECONDS)
                scene = Scene(cluster, followers, random.Random(seed))
                disturb(scene)
                time.sleep(SETTLE_SECONDS)
            history = read_history(cluster, tmp_path)
            for each in followers:
                each.wait_for_offset(history.last_offset)
        check_sets(cluster, followers, churn, history)
    for follower, asker in zip(followers, askers, strict=True):
        check_decisions(asker.decisions, history, follower)
    assert bool(scene.truncated) == (disturb is truncate_leaders)
    assert not scene.truncated & {each for _, each in history.added.values()}
    assert churn.acknowledged > 100, churn.acknowledged
    assert askers[0].decisions.reconnected == 0, followers[0].log.read_text()[-3000:]
    cluster.delete(*map(exact_filter, POOL))


def check_sets(
    cluster: Cluster, followers: list[Follower], churn: Churn, history: AclHistory
) -> None:
    """Check that journal, log, broker and daemons have the same ACLs, each once."""
    logged = history.acls_at(history.last_offset)
    assert sorted(map(str, logged)) == sorted(map(str, {*GRANTS, *churn.present}))
    assert not history.find_doubles()

    def is_shown_by_broker() -> bool:
        with cluster.admin(FIRST_BROKER) as admin:
            return {*admin.describe()} == {*logged}

    cluster.wait_for(is_shown_by_broker, "the broker shows the log's ACLs")
    for follower in followers:
        assert follower.describe() == {*logged}


def check_decisions(decisions: Decisions, history: AclHistory, follower: Follower) -> None:
    """Check every answer at its offset, which is the end of a batch and never decreases."""
    timelines = history.timelines(QUESTIONS)
    seen: set[bool] = set()
    given = zip(decisions.offsets, decisions.asked, decisions.answers, strict=True)
    for offset, asked, answers in given:
        if offset > history.last_offset:
            break  # a record of the controllers themselves, written after the log was read
        assert offset in history.batch_ends, (offset, follower.log)
        expected = [timelines[each].at(offset) for each in asked]
        assert [*map(bool, answers)] == expected, (offset, follower.log)
        seen |= {*expected}
    assert seen == {True, False}
    assert decisions.offsets == sorted(decisions.offsets), follower.log
    assert len(set(decisions.offsets)) > 20  # a slow machine shows fewer states
    assert decisions.not_ready == 0, follower.log.read_text()[-3000:]
