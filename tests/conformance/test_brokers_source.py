"""A daemon that lists the ACLs of two real brokers, with a user that has DESCRIBE alone.

One broker lags, then all stop. The controller is a separate process.
"""

import random
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from authorizerd.acl.model import Acl, AclAdded, AclFilter, AclRemoved
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.replay import Replay
from tests.kafka_rig.cluster import FIRST_BROKER, Cluster, running_cluster
from tests.kafka_rig.cluster_settings import GRANTS, ClusterSettings
from tests.kafka_rig.followers import brokers_source
from tests.kafka_rig.rig import Rig
from tests.support.acls import acl
from tests.support.daemon_process import DaemonProcess, ask, running, wait_until
from tests.support.kafka_connection import KafkaConnection

SECOND_BROKER = FIRST_BROKER + 1
CHANGES = 200
POLL_SECONDS = 0.5
STALE_SECONDS = 8.0
SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def cluster(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a controller and two brokers."""
    settings = ClusterSettings(controllers=1, brokers=2)
    with running_cluster(rig, tmp_path_factory.mktemp("cluster"), settings) as cluster:
        yield cluster


@contextmanager
def following(folder: Path, cluster: Cluster, **more: str) -> Iterator[DaemonProcess]:
    """Run a daemon that polls the brokers as a user with DESCRIBE alone."""
    source = {
        **brokers_source(cluster),
        "authorizerd.source.poll.ms": str(int(POLL_SECONDS * 1000)),
        "authorizerd.source.request.timeout.ms": "2000",
        "authorizerd.source.stale.max.ms": str(int(STALE_SECONDS * 1000)),
        "super.users": "User:ANONYMOUS",
    }
    with running(folder, folder / "copy", {**source, **more}) as daemon:
        yield daemon


def list_here(daemon: DaemonProcess) -> set[Acl]:
    """Return the ACLs that the daemon decides by, besides the first ones."""
    with closing(KafkaConnection(daemon.ready["listeners"]["PLAINTEXT"])) as connection:
        listed = connection.describe()
    assert isinstance(listed, list), listed
    return set(listed) - {*GRANTS}


def change(cluster: Cluster, held: set[Acl], chance: random.Random) -> AclAdded | AclRemoved:
    with cluster.admin(cluster.find_leader()) as admin:
        if held and chance.random() < 0.4:
            removed = chance.choice(sorted(held, key=str))
            held.remove(removed)
            assert admin.delete([exact(removed)]) == [removed]
            return AclRemoved(b"")
        made = acl(
            f"User:{chance.choice('abc')}",
            chance.choice(("READ", "WRITE", "DESCRIBE", "ALL")),
            topic=f"t{chance.randrange(40)}",
            pattern=chance.choice(("LITERAL", "PREFIXED")),
            deny=chance.random() < 0.2,
            host=chance.choice(("*", "10.0.0.1")),
        )
        if made in held:
            return change(cluster, held, chance)
        held.add(made)
        admin.create([made])
        return AclAdded(b"", made)


def exact(each: Acl) -> AclFilter:
    return AclFilter(
        each.resource_type, each.resource_name, each.pattern_type, each.principal, each.host,
        each.operation, each.permission_type,
    )  # fmt: skip


def read_history(folder: Path) -> list[tuple[bool, Acl]]:
    """Return every change in the copy, in order: True and the ACL for a creation."""
    replay, acls, history = Replay(), dict[bytes, Acl](), list[tuple[bool, Acl]]()
    for batch in MetadataLog.open(folder / "copy").batches():
        for step in replay.steps(batch):
            for each in () if step is None else step.changes:
                if isinstance(each, AclAdded):
                    acls[each.id] = each.acl
                    history.append((True, each.acl))
                else:
                    history.append((False, acls.pop(each.id)))
    return history


def test_bindings_are_equal_after_each_change(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    """Half of the time one of the brokers is paused. No change is seen twice or undone."""
    chance = random.Random(seed)
    held: set[Acl] = set()
    history: list[tuple[bool, Acl]] = []
    paused: int | None = None
    with following(tmp_path, cluster) as daemon:
        for number in range(CHANGES):
            if number % 20 == 10:
                paused = chance.choice((FIRST_BROKER, SECOND_BROKER))
                cluster.pause(paused)
            elif number % 20 == 0 and paused is not None:
                cluster.resume(paused)
                paused = None
            before = set(held)
            change(cluster, held, chance)
            history += [(True, each) for each in held - before]
            history += [(False, each) for each in before - held]
            wait_until(
                lambda: list_here(daemon) == held, f"change {number} is followed", SECONDS_MAX
            )
        assert daemon.stop()[0] == 0
    written = [(is_new, each) for is_new, each in read_history(tmp_path) if each not in GRANTS]
    assert written == history


def test_stopped_brokers_are_stale_then_not_ready_then_back(
    cluster: Cluster, tmp_path: Path
) -> None:
    with following(tmp_path, cluster) as daemon:
        assert readiness(daemon)[0] == 200
        held = list_here(daemon)
        for broker in (FIRST_BROKER, SECOND_BROKER):
            cluster.kill(broker)
        stopped = time.monotonic()
        while time.monotonic() < stopped + STALE_SECONDS / 2:
            assert readiness(daemon)[0] == 200
            assert list_here(daemon) == held
            time.sleep(0.2)
        wait_until(lambda: readiness(daemon)[0] == 503, "the daemon is not ready", SECONDS_MAX)
        assert time.monotonic() - stopped < STALE_SECONDS + 2 * POLL_SECONDS + 1
        assert "decisions have stopped" in readiness(daemon)[1]
        answer = daemon.evaluate(
            {
                "subject": {"type": "user", "id": "a"},
                "action": {"name": "read"},
                "resource": {"type": "topic", "id": "t1"},
            }
        )
        assert answer.status == 503
        # Only a controller is left to take the change.
        added = acl("User:back", topic="back")
        cluster.create(added)
        for broker in (FIRST_BROKER, SECOND_BROKER):
            cluster.start(broker)
        wait_until(lambda: readiness(daemon)[0] == 200, "the daemon is ready again", SECONDS_MAX)
        assert list_here(daemon) == held | {added}
        assert daemon.stop()[0] == 0


def readiness(daemon: DaemonProcess) -> tuple[int, str]:
    answer = ask(daemon.admin, "GET", "/readyz")
    return answer.status, answer.body.decode()
