"""``authorizerd verify`` on a topic of a real Kafka, to which brokers' audit logs are shipped.

The brokers audit the requests of clients, of the shipper and of the verifier itself.
"""

import json
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from authorizerd.protocol.verification import Counts
from tests.conformance.audit_topic import AuditTopic
from tests.conformance.churn import PRINCIPAL, TOPICS
from tests.kafka_rig.broker import ADMIN
from tests.kafka_rig.cluster import Cluster, running_cluster
from tests.kafka_rig.cluster_settings import NODE, ClusterSettings
from tests.kafka_rig.rig import Rig, RigError
from tests.support.acls import acl
from tests.support.background import Background
from tests.support.daemon_process import COMMAND, wait_until
from tests.support.forked_command import StartedCommand, start_command

READER = "bob"
SETTINGS = (
    "--super-users", f"User:{ADMIN}", "--allow-everyone-if-no-acl-found", "false", "--window", "1s",
)  # fmt: skip
WAIT_SECONDS = 120.0
RESTARTS = 5


class Shipper(Background):
    """Ask the brokers as a client, and write the new lines of their audit logs to the topic."""

    def __init__(self, cluster: Cluster, topic: AuditTopic) -> None:
        super().__init__()
        self.shipped = 0
        self._cluster, self._topic = cluster, topic
        self._read = {broker.node_id: 0 for broker in cluster.brokers}

    def _run(self) -> None:
        while not self._ends.is_set():
            for broker in self._cluster.brokers:
                with (
                    suppress(RigError, OSError),
                    self._cluster.admin(broker.node_id, PRINCIPAL.removeprefix("User:")) as client,
                ):
                    client.may_describe(*TOPICS)
                self._ship(broker.node_id, broker.process.audit_log)
            time.sleep(0.1)

    def _ship(self, node_id: int, log: Path) -> None:
        with log.open("rb") as file:
            file.seek(self._read[node_id])
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read[node_id] += len(whole)
        lines = whole.splitlines()
        self._topic.feed(lines)
        self.shipped += len(lines)


class Verifier:
    """``verify --follow`` on the topic, as a user who may do nothing but read it."""

    def __init__(self, cluster: Cluster, topic: AuditTopic, folder: Path) -> None:
        self._words = (
            "verify", "--follow", "--logs", topic.uri, "--command-config",
            cluster.client_config(READER), "--log-dir", cluster.controllers[0].log_dir,
            "--state", folder / "verify.json", "--listen", "127.0.0.1:0", *SETTINGS,
        )  # fmt: skip
        self._state = folder / "verify.json"
        self._process: StartedCommand | None = None

    def start(self) -> None:
        self._process = start_command(self._words)

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
        self._process = None

    def read(self) -> Any:  # noqa: ANN401 - a JSON document
        return json.loads(self._state.read_bytes()) if self._state.exists() else None

    def count(self) -> int:
        found = self.read()
        return 0 if found is None else msgspec.convert(found["counts"], Counts).lines

    def wait_for(self, lines: int) -> Any:  # noqa: ANN401 - a JSON document
        """Return the counts once so many lines are counted, and no record is left."""
        wait_until(
            lambda: self.count() >= lines and self.read()["lag"]["records"] == 0,
            f"{lines} lines are counted", WAIT_SECONDS,
        )  # fmt: skip
        assert self.count() == lines
        return self.read()["counts"]


@pytest.fixture(scope="module")
def cluster(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    users = {**NODE.users, PRINCIPAL.removeprefix("User:"): "secret"}
    more = {**NODE.more, "transaction.state.log.replication.factor": "1"}
    settings = ClusterSettings(controllers=1, brokers=2, node=replace(NODE, users=users, more=more))
    with running_cluster(rig, tmp_path_factory.mktemp("topics"), settings) as cluster:
        yield cluster


def test_each_record_of_brokers_is_counted_once(
    cluster: Cluster, seed: int, tmp_path: Path
) -> None:
    """While the verifier is killed, leaders change, and the topic loses records and is replaced."""
    chance = random.Random(seed)
    topic = AuditTopic.of_cluster(cluster, "audit")
    topic.create(replicas=2)
    cluster.create(
        acl(f"User:{READER}", "READ", topic=topic.name), acl(PRINCIPAL, "DESCRIBE", topic=TOPICS[0])
    )
    verifier = Verifier(cluster, topic, tmp_path)
    with ExitStack() as stack:
        stack.callback(verifier.end)
        with Shipper(cluster, topic) as shipper:
            verifier.start()
            for number in range(RESTARTS):
                time.sleep(chance.uniform(0.5, 6))
                verifier.end()
                if number % 2:
                    node_id = chance.choice(cluster.brokers).node_id
                    cluster.stop(node_id)
                    cluster.start(node_id)
                verifier.start()
            node_id = chance.choice(cluster.brokers).node_id
            cluster.stop(node_id)
            time.sleep(2)
            cluster.start(node_id)
        lines = shipper.shipped
        counts = verifier.wait_for(lines)
        assert (counts["disagreements"], counts["lost_files"], counts["lost_records"]) == ({}, 0, 0)
        assert counts["agreed"] > RESTARTS * 10

        # Control records are no lines, and a transaction that was aborted has none.
        some = cluster.brokers[0].process.audit_log.read_bytes().splitlines()[:100]
        topic.feed_transaction(some, commits=True)
        topic.feed_transaction(some, commits=False)
        lines += len(some)
        verifier.wait_for(lines)
        check_whole(topic, cluster, lines)

        # Kafka deletes records that were not read.
        verifier.end(signal.SIGTERM)
        begin = verifier.read()["partitions"]
        (offset,) = [each["offset"] for each in begin if each["partition"] == 0]
        topic.feed(some, partition=0)
        topic.delete_records(0, offset + 40)
        lines += len(some) - 40
        verifier.start()
        counts = verifier.wait_for(lines)
        assert (counts["lost_files"], counts["lost_records"]) == (0, 40)
        topic.add_partition()
        topic.feed(some, partition=3)
        lines += len(some)
        verifier.wait_for(lines)

        # The topic is replaced by one with more records, while the verifier reads.
        topic.delete()
        topic.create(replicas=2)
        for partition in range(3):
            topic.feed(some * 20, partition=partition)
        lines += 3 * 20 * len(some)
        counts = verifier.wait_for(lines)
        assert (counts["disagreements"], counts["lost_files"], counts["lost_records"]) == (
            {},
            4,
            40,
        )


def check_whole(topic: AuditTopic, cluster: Cluster, lines: int) -> None:
    """Check that a run at once reads the same lines."""
    command: list[str | Path] = [
        *COMMAND, "verify", "--json", "--logs", topic.uri, "--command-config",
        cluster.client_config(READER), "--log-dir", cluster.controllers[0].log_dir, *SETTINGS,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    assert (document["logs"]["lines"], document["differences"]) == (lines, [])
