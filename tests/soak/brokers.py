"""A daemon that follows scripted brokers: its site, its writer, and what disturbs it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from threading import Lock
from typing import Final

import trio

from authorizerd.acl.model import Acl
from tests.fleet.client import Client
from tests.fleet.disk import Disk
from tests.fleet.universe import DAEMON, make_ballast
from tests.soak.disturbances import Disturbance, fill_copy_disk, toggle_super_user
from tests.soak.history import History
from tests.soak.sites import COMMON, Site, wait_until
from tests.support.scripted_brokers import ScriptedCluster
from tests.support.scripted_thread import ScriptedThread, running_scripted

_POLL_MS: Final = 200
_REQUEST_TIMEOUT_MS: Final = 2000
_LAG_SECONDS: Final = 1.5
_LEADER: Final = "authorizerd_source_leader_id"

BrokersThread = ScriptedThread[ScriptedCluster]


@contextmanager
def running_brokers() -> Iterator[BrokersThread]:
    """Run two brokers on free ports of 127.0.0.1 until the block ends."""

    async def begin(nursery: trio.Nursery) -> ScriptedCluster:
        cluster = ScriptedCluster(nursery)
        await cluster.listen()
        return cluster

    with running_scripted(begin, "scripted brokers") as running:
        yield running


class BrokersSite(Site):
    """A daemon that lists the ACLs of two brokers, with everything in one process.

    Attributes:
        writing: a lock; hold it to change the ACLs. A writer waits until the daemon has applied
            its change before it returns the lock, so each listing has one change at most.
    """

    def __init__(self, folder: Path, *, ballast: int, disk: Disk, brokers: BrokersThread) -> None:
        self.brokers = brokers
        self.writing = Lock()
        brokers.do(ScriptedCluster.change, *make_ballast(ballast))
        servers = brokers.do(lambda each: [str(one.address) for one in each.brokers.values()])
        settings = {
            **COMMON,
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "PLAIN",
            "authorizerd.source": "brokers",
            "authorizerd.source.bootstrap.servers": ",".join(servers),
            "authorizerd.source.poll.ms": str(_POLL_MS),
            "authorizerd.source.request.timeout.ms": str(_REQUEST_TIMEOUT_MS),
        }
        super().__init__("brokers", folder, settings, log_dir=disk.folder / "copy", disk=disk)
        self.ballast = ballast
        offset = int(self.metric("authorizerd_snapshot_offset"))
        self.judge = History(
            frozenset(), offset, newest_offset=lambda: math.inf, is_one_process=True
        )

    def change(self, added: list[Acl], removed: list[Acl]) -> None:
        """Change the ACLs in the cluster, and wait until the daemon has followed.

        The daemon also appends releases of brokers to its copy, so its next offset is not known.
        """
        if math.isinf(self.judge.newest.last):  # an error has ended the last change
            self._settle()
        acls = (self.judge.newest.acls | {*added}) - {*removed}
        self.judge.add(acls, self.judge.newest.last + 1, math.inf)
        self.brokers.do(ScriptedCluster.change, *added, removed=removed)
        self._settle()

    def _settle(self) -> None:
        count = (self.ballast or 0) + len(self.judge.newest.acls)
        wait_until(lambda: self.metric("authorizerd_acls") == count, f"{count} ACLs follow")
        self.judge.settle(int(self.metric("authorizerd_snapshot_offset")))


class BrokersWriter(Client):
    """Change the ACLs in the cluster; the daemon follows."""

    name, pause_seconds, has_worker = "change", 0.15, False
    site: BrokersSite

    def exchange(self) -> None:
        with self.site.writing:
            added, removed = DAEMON.draw_change(self.random, self.site.judge.newest.acls)
            self.site.change(added, removed)


def disturbances_of_brokers(site: BrokersSite, random: Random) -> dict[str, Disturbance]:
    """Return what disturbs the daemon that follows brokers, by name."""
    found: dict[str, Disturbance] = {
        "reload settings": partial(toggle_super_user, site),
        "stop the broker": partial(_fail, site, "is_down"),
        "silence the broker": partial(_fail, site, "is_silent"),
        "cut a listing": lambda: _spoil(site, "cut", random.randint(1, 1000)),
        "spoil a listing": partial(_spoil, site, "garbage", b"\xff" * 64),
        "leave a lagging broker": partial(_leave_lagging, site, random),
    }
    if site.disk.is_small:
        found["fill the copy's disk"] = partial(fill_copy_disk, site)
    return found


def _find_read(site: BrokersSite) -> int:
    """Return the id of the broker whose listings are in force."""
    return int(site.metric(_LEADER))


@contextmanager
def _failing(site: BrokersSite, fault: str) -> Iterator[None]:
    """Let the broker fail that the daemon reads from, until it reads from the other one."""
    read = _find_read(site)
    site.brokers.do(lambda cluster: setattr(cluster.brokers[read], fault, True))
    try:
        yield
        wait_until(lambda: _find_read(site) != read, f"broker {read} is left")
    finally:
        site.brokers.do(lambda cluster: setattr(cluster.brokers[read], fault, False))


def _fail(site: BrokersSite, fault: str) -> None:
    with _failing(site, fault):
        pass


def _leave_lagging(site: BrokersSite, random: Random) -> None:
    """Let one broker lag behind a change, and the other fail: the daemon must not go back."""
    read = _find_read(site)
    with site.writing:
        site.brokers.do(lambda cluster: cluster.lagging.update(cluster.brokers.keys() - {read}))
        try:
            site.change(*DAEMON.draw_change(random, site.judge.newest.acls))
            with _failing(site, "is_down"):
                time.sleep(_LAG_SECONDS)
                site.brokers.do(ScriptedCluster.catch_up)
        finally:
            site.brokers.do(ScriptedCluster.catch_up)


def _spoil(site: BrokersSite, fault: str, value: object) -> None:
    """Spoil the next listing of the broker that the daemon reads from: it lists again."""
    read = _find_read(site)
    site.brokers.do(lambda cluster: setattr(cluster.brokers[read], fault, value))
    wait_until(
        lambda: site.brokers.do(lambda each: getattr(each.brokers[read], fault)) is None,
        f"broker {read} is asked",
    )
    listings = site.brokers.do(_count_listings)
    wait_until(lambda: site.brokers.do(_count_listings) > listings + 1, "more listings")


def _count_listings(cluster: ScriptedCluster) -> int:
    return sum(each.listings for each in cluster.brokers.values())
