"""Grants in a real cluster that loses its active controller again and again, with two daemons.

One daemon follows the controllers and knows uuids, the other lists the ACLs of a broker. Between
them, each grant ends once: not early, not late, and nothing ends that a person keeps.
"""

import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from authorizerd.acl.grants.model import Grant, make_grant_note, read_grant_note
from authorizerd.acl.model import Acl, AclAdded
from authorizerd.acl.notes import is_note
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.replay import Replay
from tests.conformance.writing_daemons import may_alter
from tests.kafka_rig.cluster import FIRST_BROKER, Cluster, running_cluster
from tests.kafka_rig.cluster_settings import FOLLOWER, POLLER, ClusterSettings
from tests.kafka_rig.followers import brokers_source, quorum_source
from tests.kafka_rig.rig import Rig, RigError
from tests.support.acls import acl, exact_filter
from tests.support.background import Background
from tests.support.daemon_process import running

GRANTS = 200
KEPT = 20
"""Of each kind: extended, made permanent, and created again."""
BEGIN_SECONDS, SPREAD_SECONDS = 45, 60
LATE_SECONDS_MAX = 75.0
KILLS = 5


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class BrokersView(Background):
    """Note when the broker, and so its authorizer, first lacks each ACL."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.missing_ms: dict[str, int] = {}
        self.present: set[Acl] = set()
        self._cluster = cluster

    @property
    def grants(self) -> list[Grant]:
        read = [read_grant_note(each) for each in self.present if is_note(each)]
        return [each for each in read if each is not None]

    def _run(self) -> None:
        seen: set[str] = set()
        while not self._ends.is_set():
            with suppress(OSError, RigError), self._cluster.admin(FIRST_BROKER) as admin:
                while not self._ends.is_set():
                    self.present = set(admin.describe())
                    names = {each.resource_name for each in self.present if not is_note(each)}
                    for gone in seen - names:
                        self.missing_ms.setdefault(gone, now_ms())
                    for back in names & self.missing_ms.keys():
                        del self.missing_ms[back]
                    seen |= names
                    time.sleep(0.02)


def retry(change: Callable[[], object]) -> None:
    """Repeat a change, whose repetition is harmless, until a controller has accepted it."""
    give_up = time.monotonic() + 60
    while True:
        try:
            change()
        except (OSError, RigError):
            assert time.monotonic() < give_up
            time.sleep(0.2)
        else:
            return


def list_changes(log_dir: Path) -> Iterator[tuple[int, bool, Acl]]:
    """Yield the time of each change in a log, whether it adds, and the ACL."""
    replay, acls = Replay(), dict[bytes, Acl]()
    for log_batch in MetadataLog.open(log_dir).batches():
        for step in replay.steps(log_batch):
            for change in () if step is None else step.changes:
                is_added = isinstance(change, AclAdded)
                each = change.acl if isinstance(change, AclAdded) else acls.pop(change.id)
                if is_added:
                    acls[change.id] = each
                yield log_batch.placed.batch.max_timestamp_ms, is_added, each


def test_grants_end_in_time_under_killed_leaders(
    rig: Rig, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    terminal: Any = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    folders = [tmp_path / "quorum", tmp_path / "brokers"]
    for folder in folders:
        folder.mkdir()
    enforce = {"authorizerd.grants.enforce": "true"}
    with running_cluster(rig, tmp_path, ClusterSettings()) as cluster:
        cluster.create(may_alter(FOLLOWER), may_alter(POLLER))
        sources = [
            {**quorum_source(cluster), "node.id": "9", **enforce},
            {**brokers_source(cluster), "node.id": "10", **enforce},
        ]
        with (
            running(folders[0], folders[0] / "copy", sources[0]),
            running(folders[1], folders[1] / "copy", sources[1]),
            BrokersView(cluster) as view,
        ):
            start, chance = now_ms(), random.Random(0)
            grants = [
                Grant(
                    id=str(number), acl=acl("User:a", topic=f"granted-{number}"), begin_ms=start,
                    end_ms=start + 1000 * BEGIN_SECONDS + chance.randrange(1000 * SPREAD_SECONDS),
                    author="User:ops", reason="a test", is_waiting=number % 5 == 4,
                )
                for number in range(GRANTS)
            ]  # fmt: skip
            grants = [
                replace(each, begin_ms=start + 20_000) if each.is_waiting else each
                for each in grants
            ]
            cluster.create(
                *(each.acl for each in grants if not each.is_waiting), *map(make_grant_note, grants)
            )
            active = [each for each in grants if not each.is_waiting]
            extended, permanent, again = (
                active[first : first + KEPT] for first in range(0, 3 * KEPT, KEPT)
            )
            cluster.wait_for(
                lambda: len(active) == sum(each.acl_id is not None for each in view.grants),
                "the first daemon has noted all uuids",
            )
            later = [
                replace(each, id=f"{each.id}b", end_ms=each.end_ms + 15_000) for each in extended
            ]
            cluster.create(*map(make_grant_note, later))
            cluster.delete(*(exact_filter(each.acl) for each in again))
            cluster.create(*(each.acl for each in again))
            ids = {each.id for each in permanent}
            notes = [make_grant_note(each) for each in view.grants if each.id in ids]
            cluster.delete(*map(exact_filter, notes))
            assert now_ms() < min(each.end_ms for each in grants), "the machine is too slow"
            kept = {each.acl.resource_name for each in (*permanent, *again)}
            ends = {each.acl.resource_name: each.end_ms for each in (*grants, *later)}
            ends = {name: end for name, end in ends.items() if name not in kept}
            for _ in range(KILLS):
                leader = cluster.find_leader()
                cluster.kill(leader)
                time.sleep(8)
                retry(lambda: cluster.start(leader))  # noqa: B023 - called at once
                time.sleep(12)
            last = max(ends.values()) + 1000 * LATE_SECONDS_MAX
            while now_ms() < last and ends.keys() & {each.resource_name for each in view.present}:
                time.sleep(0.2)
            time.sleep(3)
            left = view.present
        assert kept == {each.resource_name for each in left if each.resource_name in {*ends, *kept}}
        assert not [each for each in left if is_note(each)]
        copied = tmp_path / "log"
        leader_dir = cluster.members[cluster.find_leader()].log_dir
        shutil.copytree(leader_dir, copied)
        removed = {
            each.resource_name: at for at, is_added, each in list_changes(copied) if not is_added
        }
    late = sorted(removed[name] - end for name, end in ends.items())
    denied = sorted(view.missing_ms[name] - end for name, end in ends.items())
    for what, values in (("deleted", late), ("denied by the broker", denied)):
        p50, p99 = values[len(values) // 2], values[len(values) * 99 // 100]
        terminal.write_line(f"{what}: p50 {p50} ms, p99 {p99} ms, max {values[-1]} ms late")
    assert late[0] >= 0
    assert late[-1] <= 1000 * LATE_SECONDS_MAX
