"""A log that a real broker writes during the test: its ACLs and decisions."""

import shlex
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conformance.kafka_clients import create_topics, use_broker
from tests.kafka_rig.broker import ADMIN, Broker, BrokerSettings, running_broker
from tests.kafka_rig.rig import Program, Rig
from tests.support.daemon_process import run, running
from tests.support.kafka_acls_output import bindings
from tests.support.recorded_decisions import Recorded, recorded_of

TOPICS = ["orders", "orders-secret", "status"]
GROUP = "billing"
USERS = [ADMIN, "alice", "bob", "zoé"]
ADDED = """
--allow-principal User:alice --operation Read --topic orders --group billing
--allow-principal User:bob --operation All --topic ord --resource-pattern-type prefixed
--deny-principal User:* --deny-host 127.0.0.1 --operation Write --topic orders-secret
--allow-principal 'User:CN=Zoé 日本,O=x' --allow-host 10.0.0.7 --operation Alter --cluster
--allow-principal User:zoé --operation DescribeConfigs --operation Write --topic *
--deny-principal User:zoé --operation Describe --group *
"""
REMOVED = "--allow-principal User:zoé --operation DescribeConfigs --topic *"


@dataclass(frozen=True)
class Written:
    """A broker's log, and its output while it ran."""

    log_dir: Path
    listed: str
    decisions: list[Recorded]


@pytest.fixture(scope="module")
def written(rig: Rig, formatted: Path, tmp_path_factory: pytest.TempPathFactory) -> Written:
    directory = tmp_path_factory.mktemp("written")
    log_dir = directory / "log"
    shutil.copytree(formatted, log_dir)
    users = {name: f"{name}-secret" for name in USERS}
    with running_broker(rig, directory, log_dir, BrokerSettings(users=users)) as broker:
        create_topics(broker, ADMIN, *TOPICS)
        for arguments in ADDED.strip().splitlines():
            acls(broker, "--add", *shlex.split(arguments))
        acls(broker, "--remove", "--force", *shlex.split(REMOVED))
        for user in (None, *USERS):
            use_broker(broker, user, TOPICS, GROUP)
        listed = acls(broker, "--list")
    lines = broker.audit_log.read_text(encoding="utf-8").splitlines()
    decisions = [recorded for line in lines if (recorded := recorded_of(line)) is not None]
    return Written(log_dir, listed, decisions)


def acls(broker: Broker, *arguments: str) -> str:
    """Run kafka-acls and return its output."""
    done = broker.run(Program.ACLS, *arguments)
    assert done.exit_code == 0, done
    return done.stdout


def test_acls_equal_those_of_kafka_acls(written: Written) -> None:
    """Some are prefixed or wildcards, some deny or are for one host, some have non-ASCII names."""
    printed = run("acls", "--list", "--log-dir", written.log_dir)
    assert printed.returncode == 0, printed.stderr
    assert bindings(printed.stdout) == bindings(written.listed)
    assert len(bindings(printed.stdout)) == 7


def test_decisions_equal_the_brokers(written: Written, tmp_path: Path) -> None:
    """The rules are equal too. Decisions on super users are left out."""
    met: Counter[bool] = Counter()
    with running(tmp_path, written.log_dir, super_users="User:admin") as daemon:
        for recorded in written.decisions:
            answer = daemon.evaluate(recorded.evaluation)
            assert answer.json["decision"] == recorded.decision, recorded
            assert answer.json["context"]["rule"] == recorded.rule, recorded
            met[recorded.decision] += 1
    assert min(met.values()) > 10, met
    rules = {recorded.rule for recorded in written.decisions}
    assert len(rules) > 6, rules
