"""A cluster moves from Kafka 4.3.1 to 4.4.0 node by node, while daemons follow it by both sources.

4.4 reads ranges in the hosts of ACLs, so ACLs that never matched begin to deny and to allow in the
middle of the upgrade. Real clients ask the brokers from many addresses of 127.0.0.0/8.
"""

import random
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from pathlib import Path

from authorizerd.acl.model import Acl
from authorizerd.protocol.decisions.stream import ALLOWED, DENIED
from tests.conformance.followers import Follower
from tests.kafka_rig.cluster import Cluster, running_cluster
from tests.kafka_rig.cluster_settings import NODE, ClusterSettings
from tests.kafka_rig.followers import brokers_source, quorum_source
from tests.kafka_rig.rig import Program, Rig
from tests.support.acls import acl, question
from tests.support.daemon_process import wait_until
from tests.support.requests import stream_question

USERS = ("alice", "bob", "carol", "dave", "erin")
CLIENT_HOSTS = (
    "127.0.0.1", "127.0.0.2", "127.0.1.1", "127.1.2.3", "127.1.2.4", "127.1.9.9", "127.127.0.1",
    "127.128.0.1", "127.200.1.1", "127.255.255.254",
)  # fmt: skip
ACL_HOSTS = (
    "*", "127.0.0.1", "127.1.2.3", "127.0.0.0/8", "127.1.0.0/16", "127.1.2.3/31", "127.1.2.3/9",
    "127.128.0.0/9", "127.0.0.1/32", "0.0.0.0/0", "127.0.0.0/08", "::/0", "::ffff:127.0.0.0/104",
    "127.0.0.0/33", "127.1.2.0/24 ", "10.0.0.0/8",
)  # fmt: skip
TOPICS = tuple(f"{stem}-{number}" for stem in ("a", "ab", "orders") for number in range(9))
PATTERNS = [
    *(("LITERAL", topic) for topic in (*TOPICS, "*", "*")),
    *(("PREFIXED", prefix) for prefix in ("a", "ab-", "orders-1", "orders", "*")),
]
FLIPPING = (
    acl("User:erin", "READ", topic="guarded"),
    acl("User:erin", "ALL", topic="guarded", deny=True, host="127.0.0.0/8"),
    acl("User:erin", "READ", topic="opened", host="127.0.0.0/8"),
)
"""No other ACL matches these topics: by 4.3 only the first is allowed, by 4.4 only the second."""

ASKED_TOPICS = ("guarded", "opened", *TOPICS)
POLLING = {"authorizerd.source.poll.ms": "500"}

Asked = tuple[str, str, str]
QUESTIONS = [*product(USERS, CLIENT_HOSTS, ASKED_TOPICS)]
QUESTIONS_PER_FRAME = 200


def random_acls(seed: int) -> Iterator[Acl]:
    """Yield different ACLs; half of them are for ranges, or for what looks like one."""
    chance = random.Random(seed)
    made = set(FLIPPING)
    yield from FLIPPING
    while len(made) < 150:
        pattern, name = chance.choice(PATTERNS)
        deny = chance.random() < 0.4
        user = chance.choice(USERS[:-1] if name == "*" else (*USERS, *USERS, "*"))
        each = acl(
            f"User:{user}",
            chance.choice(("ALL", "DESCRIBE") if deny else ("ALL", "DESCRIBE", "READ", "ALTER")),
            pattern=pattern,
            deny=deny,
            host=chance.choice(ACL_HOSTS),
            topic=name,
        )
        if each not in made:
            made.add(each)
            yield each


def ask_broker(cluster: Cluster, node_id: int) -> set[Asked]:
    """Return the questions that a broker allows, each asked by a client at its address."""
    allowed: set[Asked] = set()
    for user, host in product(USERS, CLIENT_HOSTS):
        with cluster.admin(node_id, user, host) as client:
            topics = client.may_describe(*ASKED_TOPICS)
        allowed |= {(user, host, topic) for topic in topics}
    return allowed


def ask_every_broker(cluster: Cluster) -> set[Asked]:
    """Return the questions that every broker allows."""
    return reduce(set.__and__, (ask_broker(cluster, each.node_id) for each in cluster.brokers))


def ask_daemon(follower: Follower) -> set[Asked]:
    """Return the questions that a daemon allows."""
    allowed: set[Asked] = set()
    with closing(follower.connect()) as connection:
        for first in range(0, len(QUESTIONS), QUESTIONS_PER_FRAME):
            some = QUESTIONS[first : first + QUESTIONS_PER_FRAME]
            frame = (
                stream_question(question(f"User:{user}", "DESCRIBE", host=host, topic=topic))
                for user, host, topic in some
            )
            answer = connection.ask(*frame)
            assert answer.error_code == 0, answer
            assert {*answer.decisions} <= {ALLOWED, DENIED}
            allowed |= {
                each for each, code in zip(some, answer.decisions, strict=True) if code == ALLOWED
            }
    return allowed


def release_of(follower: Follower) -> str:
    """Return the releases by whose rules a daemon judges, as /readyz names them."""
    readiness = follower.readiness().body.decode()
    found = re.search(r"judged by the rules of Kafka ([^:]+):", readiness)
    return found[1] if found else readiness


@dataclass(frozen=True)
class Scene:
    """A cluster, and the daemons that follow it."""

    cluster: Cluster
    by_quorum: Follower
    by_brokers: Follower

    def check(self, expected: set[Asked], release: str) -> None:
        """Compare both daemons' answers with those that every broker allows."""
        self.check_one(self.by_quorum, expected, release)
        self.check_one(self.by_brokers, expected, release)

    def check_one(self, follower: Follower, expected: set[Asked], release: str) -> None:
        """Compare a daemon's answers: at once, they are not wider; in the end, they are equal."""
        assert ask_daemon(follower) <= expected, f"{follower.log}: wider than the cluster"
        wait_until(lambda: release_of(follower) == release, f"{follower.log}: {release}")
        assert ask_daemon(follower) == expected, follower.log


@contextmanager
def running_scene(rig: Rig, directory: Path, seed: int) -> Iterator[Scene]:
    """Run a cluster with ACLs for ranges, and a daemon for each source."""
    users = {**NODE.users, **{user: f"{user}-secret" for user in USERS}}
    settings = ClusterSettings(brokers=2, node=replace(NODE, users=users))
    with running_cluster(rig, directory / "cluster", settings) as cluster:
        cluster.create(*random_acls(seed))
        with (
            Follower(directory / "quorum", quorum_source(cluster)) as by_quorum,
            Follower(directory / "brokers", brokers_source(cluster) | POLLING) as by_brokers,
        ):
            yield Scene(cluster, by_quorum, by_brokers)


def test_daemons_allow_what_every_release_allows(
    rig: Rig, newest_rig: Rig, tmp_path: Path, seed: int
) -> None:
    """At each step of the upgrade; while all nodes run the same release, all answers are equal."""
    with running_scene(rig, tmp_path, seed) as scene:
        cluster = scene.cluster
        first, second = (each.node_id for each in cluster.brokers)
        old = ask_broker(cluster, first)
        assert ask_broker(cluster, second) == old
        scene.check(old, "4.3")

        cluster.restart_with(first, newest_rig)
        at_once = ask_daemon(scene.by_quorum) | ask_daemon(scene.by_brokers)
        new = ask_broker(cluster, first)
        assert at_once <= old & new
        assert ask_broker(cluster, second) == old
        assert min(len(old - new), len(new - old)) >= len(CLIENT_HOSTS)
        scene.check(old & new, "4.3 or 4.4")

        cluster.restart_with(second, newest_rig)
        assert ask_broker(cluster, second) == new
        scene.check_one(scene.by_brokers, new, "4.4")
        for controller in cluster.controllers:
            # A controller judges the requests that it gets, so it counts as well.
            scene.check_one(scene.by_quorum, old & new, "4.3 or 4.4")
            cluster.restart_with(controller.node_id, newest_rig)
        scene.check(new, "4.4")

        cluster.restart_with(second, rig)  # back, while metadata.version still allows it
        scene.check(old & new, "4.3 or 4.4")
        cluster.restart_with(second, newest_rig)
        scene.check(new, "4.4")
        deny_another_range(scene, newest_rig, new)


def deny_another_range(scene: Scene, newest_rig: Rig, allowed: set[Asked]) -> None:
    """Raise metadata.version, without which 4.4 creates no ACL for a range, and create one."""
    cluster = scene.cluster
    cluster.rig = newest_rig
    raised = cluster.run(Program.FEATURES, "upgrade", "--release-version", "4.4")
    assert raised.exit_code == 0, raised
    cluster.create(acl("User:*", "ALL", topic="*", deny=True, host="127.1.0.0/16"))
    expected = {asked for asked in allowed if not asked[1].startswith("127.1.")}
    wait_until(lambda: ask_every_broker(cluster) == expected, "the brokers deny the range")
    wait_until(lambda: ask_daemon(scene.by_quorum) == expected, "its follower denies the range")
    wait_until(lambda: ask_daemon(scene.by_brokers) == expected, "the other one does")
    scene.check(expected, "4.4")
