"""Daemons that follow a real cluster, beside a broker of the same cluster.

The cluster's nodes share this machine with the daemons, so figures of latency include their load.

    python -m tools.bench.following [--small]

This runs only this part of the benchmark, and more of it than ``python -m tools.bench`` does. Files
are below ``.run/bench/following``.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from authorizerd.acl.model import (
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from tests.kafka_rig.admin import Admin
from tests.kafka_rig.cluster import FIRST_BROKER, Cluster, running_cluster
from tests.kafka_rig.cluster_settings import GRANTS, NODE, ClusterSettings
from tests.kafka_rig.followers import quorum_source
from tests.kafka_rig.properties import PLAIN_LOGIN
from tests.kafka_rig.rig import VERSION, Absent, Rig, RigError, prepare
from tools.bench.daemon_process import DaemonProcess, ready_daemon
from tools.bench.figures import Line, Peer, format_table, percentile, supported_percent
from tools.bench.machine import describe_machine
from tools.bench.processes import ProcessError, cpu_seconds
from tools.bench.visibility import time_visibility

BROKER: Final = f"a broker of Kafka {VERSION}"
"""The name of the peer."""
ASKER: Final = "alice"
DIRECTORY: Final = Path(".run/bench/following")
CLEAN_SECONDS_MAX: Final = 240.0

_LISTENER: Final = "CLIENTS"
_BATCH: Final = 5000
_SETTLE_SECONDS: Final = 3.0
_SNAPSHOT_BYTES_PER_ACL: Final = 20
"""A third of a record: the controller writes about three snapshots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The extent of the measurement. ``seconds`` is the time of each measurement of CPU.

    Without ``acls``, no start is measured: a cluster needs minutes until its log begins with a
    snapshot.
    """

    samples: int
    acls: int
    seconds: float
    followers: int


WHOLE: Final = Extent(samples=500, acls=500_000, seconds=30.0, followers=20)
FULL: Final = Extent(samples=200, acls=0, seconds=8.0, followers=5)
SMALL: Final = Extent(samples=20, acls=20_000, seconds=3.0, followers=3)


def measure_following(rig: Rig | Absent, directory: Path, extent: Extent) -> Iterator[Line]:
    """Yield the lines; without Kafka, yield none.

    Raises:
        ProcessError: a node of the cluster or a daemon failed.
    """
    if isinstance(rig, Absent):
        return
    shutil.rmtree(directory, ignore_errors=True)
    try:
        yield from _measure_beside_broker(rig, directory / "beside", extent)
        if extent.acls:
            yield from _measure_start(rig, directory / "start", extent)
    except (RigError, OSError) as error:
        raise ProcessError(f"following a cluster: {error}") from error


def _measure_beside_broker(rig: Rig, directory: Path, extent: Extent) -> Iterator[Line]:
    node = replace(NODE, jvm_options=("-Xmx512m", "-XX:+UseSerialGC"), audit_level="INFO")
    with ExitStack() as stack:
        cluster = stack.enter_context(
            running_cluster(rig, directory / "kafka", ClusterSettings(node=node, brokers=2))
        )
        leader = cluster.members[cluster.find_leader()].process.process_id
        time.sleep(_SETTLE_SECONDS)
        leader_cpu = {0: _cpu_percent(leader, extent.seconds)}
        daemon = stack.enter_context(_follower(cluster, directory, 1))
        leader_cpu[1] = _cpu_percent(leader, extent.seconds)
        yield from _measure_visibility(cluster, daemon, extent.samples)
        yield _measure_rest(cluster, daemon, extent.seconds)
        for number in range(2, extent.followers + 1):
            stack.enter_context(_follower(cluster, directory, number))
        leader_cpu[extent.followers] = _cpu_percent(leader, extent.seconds)
    for followers, percent in leader_cpu.items():
        noun = "daemon" if followers == 1 else "daemons"
        what = f"following: CPU of the leader at rest, with {followers} {noun}"
        yield Line(what=what, unit="% of a core", ours=percent)


def _measure_visibility(cluster: Cluster, daemon: DaemonProcess, samples: int) -> Iterator[Line]:
    """Time a daemon and the second broker; the first broker acknowledges the ACLs."""
    password = cluster.settings.node.users[ASKER]
    with (
        cluster.admin(FIRST_BROKER) as creator,
        Admin(daemon.listeners[_LISTENER], ASKER, password) as ours,
        cluster.admin(FIRST_BROKER + 1, ASKER) as theirs,
    ):
        our_ms, their_ms = time_visibility(creator, (ours, theirs), ASKER, samples)
    for percent in sorted({50, supported_percent(samples)}):
        yield Line(
            what=f"following: from a broker's acknowledgement to the first decision, p{percent}",
            unit="ms",
            ours=percentile(our_ms, percent),
            peer=Peer(BROKER, percentile(their_ms, percent)),
        )


def _measure_rest(cluster: Cluster, daemon: DaemonProcess, seconds: float) -> Line:
    broker = cluster.members[FIRST_BROKER + 1].process.process_id
    time.sleep(_SETTLE_SECONDS)
    ours, theirs = _cpu_percents((daemon.process_id, broker), seconds)
    what = "following: CPU at rest"
    return Line(what=what, unit="% of a core", ours=ours, peer=Peer(BROKER, theirs))


def _measure_start(rig: Rig, directory: Path, extent: Extent) -> Iterator[Line]:
    """Time a daemon and a broker that start with nothing, and a daemon with its copy."""
    node = replace(NODE, jvm_options=("-Xmx2g", "-XX:+UseSerialGC"), audit_level="INFO")
    # Delete the log before a snapshot, so that a new follower begins with the snapshot.
    size = str(_SNAPSHOT_BYTES_PER_ACL * extent.acls)
    more = {
        "metadata.log.max.record.bytes.between.snapshots": size,
        "metadata.max.retention.bytes": size,
    }
    settings = ClusterSettings(controllers=1, brokers=0, node=node, controller_more=more)
    with running_cluster(rig, directory / "kafka", settings) as cluster:
        with cluster.admin(cluster.find_leader()) as admin:
            for first in range(0, extent.acls, _BATCH):
                last = min(first + _BATCH, extent.acls)
                admin.create([_acl(number) for number in range(first, last)])
        _await_clean(cluster)
        starts = [_time_start(cluster, directory, extent.acls) for _ in ("empty", "copy")]
        began = time.perf_counter()
        cluster.add_broker()
        theirs = time.perf_counter() - began
    whats = ("from the quorum's snapshot", "with a local copy")
    for what, ours in zip(whats, starts, strict=True):
        yield Line(
            what=f"following: start to ready with {extent.acls:,} ACLs, {what}",
            unit="s",
            ours=ours,
            peer=Peer(BROKER, theirs) if what == whats[0] else None,
        )


def _time_start(cluster: Cluster, directory: Path, acls: int) -> float:
    """Return the seconds from the start of a daemon until it is ready."""
    began = time.perf_counter()
    with _follower(cluster, directory, 1) as daemon:
        taken = time.perf_counter() - began
        loaded = daemon.metric("authorizerd_acls")
    if loaded != acls + len(GRANTS):
        raise ProcessError(f"the daemon has {loaded:g} ACLs, not {acls + len(GRANTS)}")
    return taken


@contextmanager
def _follower(cluster: Cluster, directory: Path, number: int) -> Iterator[DaemonProcess]:
    """Run a daemon until the block ends; it has a listener where users log in."""
    source = quorum_source(cluster)
    users = "".join(f' user_{name}="{word}"' for name, word in cluster.settings.node.users.items())
    own = {
        "node.id": str(number),
        "listeners": f"{_LISTENER}://127.0.0.1:0",
        "listener.security.protocol.map": f"CONTROLLER:SASL_PLAINTEXT,{_LISTENER}:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        f"listener.name.{_LISTENER.lower()}.plain.sasl.jaas.config": f"{PLAIN_LOGIN}{users};",
    }
    folder = directory / f"daemon-{number}"
    with ready_daemon(folder, folder / "copy", source | own) as daemon:
        yield daemon


def _cpu_percent(process_id: int, seconds: float) -> float:
    (percent,) = _cpu_percents((process_id,), seconds)
    return percent


def _cpu_percents(process_ids: Sequence[int], seconds: float) -> list[float]:
    """Return the CPU time that each process uses meanwhile, in percent of one core."""
    before = [cpu_seconds(each) for each in process_ids]
    began = time.perf_counter()
    time.sleep(seconds)
    taken = time.perf_counter() - began
    return [
        100 * (cpu_seconds(each) - used) / taken
        for each, used in zip(process_ids, before, strict=True)
    ]


def _await_clean(cluster: Cluster) -> None:
    """Wait until the leader's log begins with a snapshot; it is cleaned once a minute."""
    leader = cluster.members[cluster.find_leader()]
    give_up = time.monotonic() + CLEAN_SECONDS_MAX
    while any(int(each.name[:20]) == 0 for each in leader.metadata_dir.glob("*.checkpoint")):
        if time.monotonic() > give_up:
            raise RigError(f"the first snapshot is still there after {CLEAN_SECONDS_MAX:g} s")
        time.sleep(0.5)


def _acl(number: int) -> Acl:
    return Acl(
        ResourceType.TOPIC, f"topic-{number // 10}", PatternType.LITERAL,
        f"User:user-{number % 10}", WILDCARD, Operation.READ, PermissionType.ALLOW,
    )  # fmt: skip


def main(arguments: list[str]) -> int:
    """Print the table of this part alone."""
    rig = prepare()
    if isinstance(rig, Absent):
        print(f"no Kafka: {rig.reason}", file=sys.stderr)
        return 1
    extent = SMALL if "--small" in arguments else WHOLE
    lines: list[Line] = []
    try:
        lines.extend(measure_following(rig, DIRECTORY.absolute(), extent))
    except ProcessError as error:
        # What was measured before is shown: the parts are independent.
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        print(f"{describe_machine()}\n\n{format_table(lines)}", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
