"""Changes through daemons while a real quorum loses its leader again and again.

Nothing that is acknowledged is lost or undone, and nothing that is refused happens.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.conformance.writing_daemons import (
    PRINCIPALS,
    add_scram_users,
    connected,
    described,
    following,
    may_alter,
)
from tests.kafka_rig.cluster import FIRST_BROKER, Cluster, running_cluster
from tests.kafka_rig.cluster_settings import FOLLOWER, ClusterSettings
from tests.kafka_rig.rig import Rig
from tests.support.acls import acl
from tests.support.daemon_process import DaemonProcess

KILLS = 3
SECONDS_BETWEEN = 3.0
CLIENTS = 3
"""For each daemon."""
PREFIX = "during-elections"


@dataclass
class Client:
    """One client of a daemon, and what it was told about each of its ACLs."""

    daemon: DaemonProcess
    number: int
    created: set[Acl] = field(default_factory=set)
    deleted: set[Acl] = field(default_factory=set)
    refused: set[Acl] = field(default_factory=set)
    doubtful: set[Acl] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)

    def run(self, ends: Event) -> None:
        """Create ACLs, and delete some of them, one change after the other."""
        chance = random.Random(self.number)
        with connected(self.daemon, "alice") as connection:
            count = 0
            while not ends.is_set():
                count += 1
                mine = acl(f"User:{self.number}", topic=f"{PREFIX}-{self.number}-{count}")
                [error] = connection.create(mine)
                self.answers[f"create {error}"] += 1
                if error is not None:
                    is_known = error.code == ErrorCode.BROKER_NOT_AVAILABLE
                    (self.refused if is_known else self.doubtful).add(mine)
                    continue
                self.created.add(mine)
                if chance.random() < 0.5:
                    [result] = connection.delete(AclFilter(resource_name=mine.resource_name))
                    self.answers[f"delete {result.error}"] += 1
                    if result.error is None:
                        assert [match.acl for match in result.matches] == [mine]
                        self.deleted.add(mine)
                    elif result.error.code != ErrorCode.BROKER_NOT_AVAILABLE:
                        self.doubtful.add(mine)

    def check(self, acls: set[Acl]) -> None:
        """Compare the answers with the ACLs at the end."""
        assert self.created - self.deleted - self.doubtful <= acls
        assert not self.deleted & acls
        assert not self.refused & acls


@contextmanager
def working(clients: list[Client]) -> Iterator[None]:
    """Let all clients work until the block ends."""
    ends = Event()
    with ThreadPoolExecutor(len(clients)) as threads:
        tasks = [threads.submit(client.run, ends) for client in clients]
        try:
            yield
        finally:
            ends.set()
        for task in tasks:
            task.result()


def shown_by(daemon: DaemonProcess) -> set[Acl]:
    with connected(daemon, "alice") as connection:
        return {each for each in described(connection) if each.resource_name.startswith(PREFIX)}


def described_at_broker(cluster: Cluster) -> set[Acl]:
    with cluster.admin(FIRST_BROKER) as admin:
        return {each for each in admin.describe() if each.resource_name.startswith(PREFIX)}


def test_changes_survive_killed_leaders(rig: Rig, tmp_path: Path) -> None:
    """Two daemons take changes, one in its own name, one in the callers'."""
    folders = [tmp_path / "as-self", tmp_path / "forward"]
    for folder in folders:
        folder.mkdir()
    with running_cluster(rig, tmp_path, ClusterSettings()) as cluster:
        add_scram_users(cluster, "alice")
        cluster.create(may_alter("alice"), may_alter(FOLLOWER))
        with (
            following(cluster, folders[0], "as-self") as as_self,
            following(cluster, folders[1], "forward", {PRINCIPALS: "User:alice"}) as forward,
        ):
            daemons = [as_self, forward]
            clients = [Client(daemons[n % 2], n) for n in range(len(daemons) * CLIENTS)]
            with working(clients):
                for _ in range(KILLS):
                    time.sleep(SECONDS_BETWEEN)
                    leader = cluster.find_leader()
                    cluster.kill(leader)
                    time.sleep(SECONDS_BETWEEN)
                    cluster.start(leader)
                time.sleep(SECONDS_BETWEEN)
            for daemon in daemons:
                cluster.wait_for(
                    lambda: shown_by(daemon) == described_at_broker(cluster),  # noqa: B023 - called at once
                    "the daemon and the broker agree",
                )
                for client in clients:
                    client.check(shown_by(daemon))
            assert all(len(client.created) > KILLS for client in clients), clients
