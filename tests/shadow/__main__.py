"""Run a daemon and ``verify --follow`` beside three controllers and two brokers, and disturb all.

``python -m tests.shadow --minutes 30`` ends with an error if a line is not counted exactly once, if
a decision differs, or if a planted difference raises no alert in Prometheus.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from threading import Lock

from tests.end_to_end.prometheus_process import prometheus
from tests.kafka_rig.admin import Admin
from tests.kafka_rig.cluster import Cluster, running_cluster
from tests.kafka_rig.cluster_settings import ClusterSettings
from tests.kafka_rig.followers import quorum_source
from tests.kafka_rig.properties import find_free_ports
from tests.kafka_rig.rig import DIRECTORY, Rig, RigError, prepare
from tests.support.acls import acl, exact_filter
from tests.support.background import Background
from tests.support.daemon_process import ROOT, DaemonProcess, running, wait_until
from tests.support.forked_command import StartedCommand, start_command

TOPICS = [f"shadow-{number}" for number in range(20)]
WAIT_S = 120.0


class Traffic(Background):
    """Change ACLs of alice, and ask both brokers as alice; ``lock`` stops it for a rotation."""

    def __init__(self, cluster: Cluster, chance: Random) -> None:
        super().__init__()
        self.lock, self.changes = Lock(), 0
        self._cluster, self.chance = cluster, chance

    def _run(self) -> None:
        present: set[str] = set()
        clients: dict[int, Admin] = {}
        while not self._ends.is_set():
            topic = self.chance.choice(TOPICS)
            binding = acl("User:alice", "DESCRIBE", topic=topic)
            with self.lock, suppress(RigError, OSError):
                if self.chance.random() < 0.2:
                    if topic in present:
                        self._cluster.delete(exact_filter(binding))
                    else:
                        self._cluster.create(binding)
                    present ^= {topic}
                    self.changes += 1
            for member in self._cluster.brokers:
                with self.lock:
                    try:
                        if member.node_id not in clients:
                            clients[member.node_id] = self._cluster.admin(member.node_id, "alice")
                        clients[member.node_id].may_describe(*TOPICS)
                    except (RigError, OSError):
                        client = clients.pop(member.node_id, None)
                        if client is not None:
                            client.close()
            time.sleep(0.2)
        for client in clients.values():
            client.close()


class Run:
    """All processes of one run."""

    def __init__(self, cluster: Cluster, folder: Path, traffic: Traffic, stack: ExitStack) -> None:
        self.cluster, self.traffic = cluster, traffic
        self.metrics = f"127.0.0.1:{find_free_ports(1)[0]}"  # the same after each restart
        self._folder, self._stack = folder, stack
        self.logs = [member.process.audit_log for member in cluster.brokers]
        self.state = folder / "verify.json"
        self.daemon = self._start_daemon()
        self.verifier = self._start_verifier()
        self._rotations = 0

    def _start_daemon(self) -> DaemonProcess:
        started = running(self._folder, self._folder / "copy", quorum_source(self.cluster))
        return self._stack.enter_context(started)

    def _start_verifier(self) -> StartedCommand:
        process = start_command([
            "verify", "--follow", "--logs", *self.logs, "--log-dir", self._folder / "copy",
            "--state", self.state, "--listen", self.metrics, "--super-users", "User:admin",
            "--allow-everyone-if-no-acl-found", "false",
        ])  # fmt: skip
        self._stack.callback(process.kill)
        return process

    def kill_leader(self) -> None:
        node_id = self.cluster.find_leader()
        self.cluster.kill(node_id)
        time.sleep(3)
        self.cluster.start(node_id)

    def restart_broker(self) -> None:
        member = self.traffic.chance.choice(self.cluster.brokers)
        self.cluster.stop(member.node_id)
        self.cluster.start(member.node_id)

    def restart_daemon(self) -> None:
        self.daemon.stop(self.traffic.chance.choice((signal.SIGTERM, signal.SIGKILL)))
        time.sleep(2)
        self.daemon = self._start_daemon()

    def restart_verifier(self) -> None:
        self.verifier.send_signal(self.traffic.chance.choice((signal.SIGTERM, signal.SIGKILL)))
        self.verifier.wait()
        time.sleep(2)
        self.verifier = self._start_verifier()

    def rotate(self) -> None:
        """Copy and truncate each log, as logrotate does."""
        self._rotations += 1
        with self.traffic.lock:
            for log in self.logs:
                shutil.copyfile(log, f"{log}.{self._rotations}")
                with log.open("r+b") as file:
                    file.truncate()

    def count_lines(self) -> int:
        """Return the number of lines in all files."""
        return sum(path.read_bytes().count(b"\n") for path in self.find_files())

    def find_files(self) -> list[Path]:
        return [path for log in self.logs for path in log.parent.glob(f"{log.name}*")]

    def read_counts(self) -> dict[str, object]:
        counts: dict[str, object] = json.loads(self.state.read_bytes())["counts"]
        return counts

    def count_counted(self) -> int:
        counts = self.read_counts()
        groups = [counts[name] for name in ("not_judged", "disagreements", "set_aside")]
        single = [counts[name] for name in ("agreed", "other_rule", "blank")]
        nested = [n for group in groups if isinstance(group, dict) for n in group.values()]
        return sum(n for n in (*nested, *single) if isinstance(n, int))


def write_prometheus_config(folder: Path, metrics: str) -> Path:
    config = folder / "prometheus.json"
    target = {"targets": [metrics]}
    config.write_text(json.dumps({
        "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
        "rule_files": [str(ROOT / "ops/prometheus/rules.yaml")],
        "scrape_configs": [{"job_name": "authorizerd-verify", "static_configs": [target]}],
    }))  # fmt: skip
    return config


def disturb(run: Run, minutes: float, chance: Random) -> dict[str, int]:
    """Disturb the run for some minutes; return how often each way was chosen."""
    ways: list[Callable[[], None]] = [
        run.kill_leader, run.restart_broker, run.restart_daemon, run.restart_verifier, run.rotate,
    ]  # fmt: skip
    done = dict.fromkeys((way.__name__ for way in ways), 0)
    ends_at = time.monotonic() + minutes * 60
    while time.monotonic() < ends_at:
        time.sleep(chance.uniform(5, 15))
        way = min(ways, key=lambda each: (done[each.__name__], chance.random()))
        print(f"{way.__name__}; {run.count_counted() if run.state.exists() else 0:,} lines counted")
        way()
        done[way.__name__] += 1
    return done


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.shadow", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parsed = parser.parse_args()
    chance = Random(parsed.seed)
    program = shutil.which("prometheus")
    assert program is not None, "prometheus is not installed"
    rig = prepare(ROOT / DIRECTORY)
    assert isinstance(rig, Rig), rig
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(running_cluster(rig, folder, ClusterSettings(brokers=2)))
        traffic = Traffic(cluster, chance)
        run = Run(cluster, folder, traffic, stack)
        config = write_prometheus_config(folder, run.metrics)
        server = stack.enter_context(prometheus(program, config, folder / "prometheus"))
        with traffic:
            done = disturb(run, parsed.minutes, chance)
        for member in cluster.brokers:
            cluster.stop(member.node_id)
        wait_until(
            lambda: run.count_counted() == run.count_lines(),
            f"{run.count_lines()} lines are counted, of which now {run.count_counted()}", WAIT_S,
        )  # fmt: skip
        counts = run.read_counts()
        print(f"seed {parsed.seed}: {done}, {traffic.changes} changes of ACLs: {counts}")
        assert counts["disagreements"] == {}, json.loads(run.state.read_bytes())["latest"]
        assert "AuthorizerdVerifyDisagrees" not in server.firing()
        text = "".join(path.read_text() for path in run.find_files())
        last = [line for line in text.splitlines() if "User:alice is Denied" in line][-1]
        with run.logs[0].open("a") as file:
            file.write(last.replace("alice is Denied", "mallory is Allowed") + "\n")
        wait_until(
            lambda: "AuthorizerdVerifyDisagrees" in server.firing(), "the alert fires", WAIT_S
        )
        print("the alert fires after a planted difference")
        run.verifier.send_signal(signal.SIGTERM)
        assert run.verifier.wait() == 0
        return 0


if __name__ == "__main__":
    sys.exit(main())
