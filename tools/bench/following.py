"""Daemons that follow a real cluster, compared with a broker of the same cluster.

The cluster's nodes share this machine with the daemons, so latencies include their load.
*Visibility* is the time from an ACL's acknowledgement until a server first decides by it. A user
repeatedly asks each server for the Metadata of one topic, and the answer changes as soon as the
server knows the ACL. The first question is sent before the ACL is created, so a server can know the
ACL before the acknowledgement arrives. In that case, its time is negative.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from authorizerd.acl.model import Operation
from tests.kafka_rig.admin import Admin
from tests.kafka_rig.cluster import FIRST_BROKER, Cluster, running_cluster
from tests.kafka_rig.cluster_settings import NODE, ClusterSettings
from tests.kafka_rig.followers import quorum_source
from tests.kafka_rig.properties import PLAIN_LOGIN
from tests.kafka_rig.rig import VERSION, Absent, prepare
from tools.bench.figures import MeasurementError, Peer, Row, percentile_rows
from tools.bench.run import Run
from tools.bench.sets import allow
from tools.daemon_process import DaemonProcess, ready_daemon
from tools.processes import cpu_seconds

BROKER: Final = f"a broker of Kafka {VERSION}"
"""The name of the peer."""
ASKER: Final = "alice"
_LISTENER: Final = "CLIENTS"
_SETTLE_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 0.0005
_VISIBLE_SECONDS_MAX: Final = 10.0


def measure_following(run: Run) -> Iterator[Row]:
    """Measure daemons and brokers of the same cluster; without Kafka, there are no figures."""
    rig = prepare()
    if isinstance(rig, Absent):
        raise MeasurementError(f"no Kafka: {rig.reason}")
    samples, seconds, followers = run.pick((110, 8.0, 5), (10, 1.0, 2))
    directory = run.new_place("following")
    node = replace(NODE, jvm_options=("-Xmx512m", "-XX:+UseSerialGC"), audit_level="INFO")
    settings = ClusterSettings(node=node, brokers=2)
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(rig, directory / "kafka", settings))
        leader = cluster.members[cluster.find_leader()].process.process_id
        time.sleep(_SETTLE_SECONDS)
        leader_cpu = {0: _cpu_percents((leader,), seconds)}
        daemon = stack.enter_context(_follower(cluster, directory, 1))
        leader_cpu[1] = _cpu_percents((leader,), seconds)
        yield from _measure_visibility(cluster, daemon, samples)
        broker = cluster.members[FIRST_BROKER + 1].process.process_id
        time.sleep(_SETTLE_SECONDS)
        ours, theirs = _cpu_percents((daemon.process_id, broker), seconds)
        peer, unit = Peer(BROKER, theirs), "% of a core"
        yield Row(what="following", metric="CPU at rest", unit=unit, ours=ours, peer=peer)
        for number in range(2, followers + 1):
            stack.enter_context(_follower(cluster, directory, number))
        leader_cpu[followers] = _cpu_percents((leader,), seconds)
    for count, (percent,) in leader_cpu.items():
        metric = f"CPU of the leader at rest, with {count} daemon{'' if count == 1 else 's'}"
        yield Row(what="following", metric=metric, unit=unit, ours=percent)


def _measure_visibility(cluster: Cluster, daemon: DaemonProcess, samples: int) -> Iterator[Row]:
    """Time a daemon and the second broker; the first broker acknowledges the ACLs."""
    password = cluster.settings.node.users[ASKER]
    with (
        cluster.admin(FIRST_BROKER) as creator,
        Admin(daemon.listeners[_LISTENER], ASKER, password) as ours,
        cluster.admin(FIRST_BROKER + 1, ASKER) as theirs,
    ):
        our_ms, their_ms = time_visibility(creator, (ours, theirs), samples)
    what = "following, from a broker's acknowledgement to the first decision"
    yield from percentile_rows(what, our_ms, BROKER, their_ms)


def time_visibility(creator: Admin, askers: Sequence[Admin], samples: int) -> list[list[float]]:
    """Return the milliseconds of each sample, for each of ``askers``."""
    times_ms: list[list[float]] = [[] for _ in askers]
    with ThreadPoolExecutor(len(askers)) as threads:
        for number in range(samples):
            topic = f"visible-{number:06}"
            if any(asker.may_describe(topic) for asker in askers):
                raise MeasurementError(f"{topic} may be described before its ACL was created")
            waiting = [threads.submit(_await_permission, asker, topic) for asker in askers]
            creator.create([allow(topic, f"User:{ASKER}", Operation.DESCRIBE)])
            acknowledged = time.perf_counter()
            for times, allowed in zip(times_ms, waiting, strict=True):
                times.append((allowed.result() - acknowledged) * 1000)
    return times_ms


def _await_permission(asker: Admin, topic: str) -> float:
    """Return the time of the first answer that allows."""
    give_up = time.perf_counter() + _VISIBLE_SECONDS_MAX
    while not asker.may_describe(topic):
        if time.perf_counter() > give_up:
            raise MeasurementError(f"no permission for {topic} in {_VISIBLE_SECONDS_MAX:g} s")
        time.sleep(_POLL_SECONDS)
    return time.perf_counter()


@contextmanager
def _follower(cluster: Cluster, directory: Path, number: int) -> Iterator[DaemonProcess]:
    """Run a daemon until the block ends; it has a listener where users log in."""
    users = "".join(f' user_{name}="{word}"' for name, word in cluster.settings.node.users.items())
    own = {
        "node.id": str(number),
        "listeners": f"{_LISTENER}://127.0.0.1:0",
        "listener.security.protocol.map": f"CONTROLLER:SASL_PLAINTEXT,{_LISTENER}:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        f"listener.name.{_LISTENER.lower()}.plain.sasl.jaas.config": f"{PLAIN_LOGIN}{users};",
    }
    folder = directory / f"daemon-{number}"
    with ready_daemon(folder, folder / "copy", quorum_source(cluster) | own) as daemon:
        yield daemon


def _cpu_percents(process_ids: Sequence[int], seconds: float) -> list[float]:
    """Return the CPU time that each process uses during ``seconds``, in percent of one core."""
    before, began = [*map(cpu_seconds, process_ids)], time.perf_counter()
    time.sleep(seconds)
    after, taken = [*map(cpu_seconds, process_ids)], time.perf_counter() - began
    return [100 * (now - used) / taken for now, used in zip(after, before, strict=True)]
