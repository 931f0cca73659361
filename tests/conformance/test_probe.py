"""``authorizerd verify --probe`` of a real cluster: no false difference; planted ones are found."""

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.cli.main import main
from authorizerd.cli.probe.causes import Cause
from tests.end_to_end.example_daemon import Ports
from tests.end_to_end.page_shell import Names, Shell, run_page
from tests.kafka_rig.broker import ADMIN
from tests.kafka_rig.cluster import Cluster, running_cluster
from tests.kafka_rig.cluster_settings import NODE, ClusterSettings
from tests.kafka_rig.rig import Rig
from tests.support.acls import acl
from tests.support.fixture_types import Capture

HOST, ELSEWHERE = "127.0.0.1", "10.0.0.7"
USERS = ("alice", "bob", "carol")
NAMES = ("a", "ab", "abc", "b", "b.c")
FIXED = (
    *(acl(f"User:{user}", topic="shown") for user in USERS),
    acl("User:carol", topic="hosted", host=HOST),
    acl("User:carol", "ALTER", group="hosted", host=ELSEWHERE),
)
PLANTED = acl("User:carol", "ALTER", topic="zz")
KNOWN = ("--super-users", f"User:{ADMIN}", "--allow-everyone-if-no-acl-found", "false")
SECONDS_MAX = 60.0


def random_acl(random: Random) -> Acl:
    """Return an ACL of a user, or of everyone, whose pattern collides with those of others."""
    kind = random.choice((ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP))
    name, pattern = random.choice(NAMES), random.choice((PatternType.LITERAL, PatternType.PREFIXED))
    if random.random() < 0.1:
        kind, name, pattern = ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL
    operations = (Operation.ALL, *SUPPORTED[kind])
    is_denied = random.random() < 0.25
    return Acl(
        kind, name, pattern, f"User:{random.choice((*USERS, '*'))}",
        random.choice(("*", "*", HOST, ELSEWHERE)), random.choice(operations),
        PermissionType.DENY if is_denied else PermissionType.ALLOW,
    )  # fmt: skip


def write_acls(path: Path, *acls: Acl) -> Path:
    entries = [
        {
            "principal": each.principal, "host": each.host, "resource_name": each.resource_name,
            "resource_type": ResourceType(each.resource_type).name,
            "pattern_type": PatternType(each.pattern_type).name,
            "operation": Operation(each.operation).name,
            "permission_type": PermissionType(each.permission_type).name,
        }
        for each in acls
    ]  # fmt: skip
    path.write_text(json.dumps({"acls": entries}))
    return path


class Probing:
    """A cluster with random ACLs, and runs of the command as one of its users."""

    def __init__(self, cluster: Cluster, acls: tuple[Acl, ...]) -> None:
        self.cluster = cluster
        self.acls = acls

    @property
    def log_dir(self) -> Path:
        return self.cluster.controllers[0].log_dir

    def probe(
        self, capsys: Capture, user: str, *words: str | Path, host: str = HOST
    ) -> tuple[int, Any]:
        servers = ("--bootstrap-server", self.cluster.bootstrap_servers)
        client = ("--command-config", self.cluster.client_config(user))
        whom = ("--principal", f"User:{user}", "--host", host, "--rate", "100", "--window", "2s")
        named = ("--topics", *NAMES, "zz", "hosted", "--groups", *NAMES, "hosted")
        command = ("verify", "--probe", "--json", *servers, *client, *whom, *named, *words)
        code = main([*map(str, command)])
        return code, json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def probing(rig: Rig, seed: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probing]:
    """Run a controller and two brokers, one of which coordinates all groups."""
    random = Random(seed)
    acls = tuple(dict.fromkeys((*FIXED, *(random_acl(random) for _ in range(60)))))
    node = replace(NODE, users={name: f"{name}-secret" for name in (ADMIN, *USERS)})
    settings = ClusterSettings(controllers=1, brokers=2, node=node)
    with running_cluster(rig, tmp_path_factory.mktemp("probed"), settings) as cluster:
        login: dict[str, str | int | float | bool] = {
            "bootstrap.servers": cluster.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN", "sasl.username": ADMIN, "sasl.password": f"{ADMIN}-secret",
        }  # fmt: skip
        topics = [NewTopic(name, 1, 1) for name in ("a", "abc", "shown", "unlisted")]
        admin = AdminClient(login)  # its futures fail once it is gone
        for created in admin.create_topics(topics).values():
            created.result(SECONDS_MAX)
        consumer = Consumer({**login, "group.id": "ab"})
        consumer.commit(offsets=[TopicPartition("shown", 0, 0)], asynchronous=False)
        consumer.close()
        cluster.create(*acls)
        yield Probing(cluster, acls)


@pytest.mark.parametrize("user", USERS)
def test_live_cluster_agrees_with_its_log(probing: Probing, user: str, capsys: Capture) -> None:
    """The coordinator of the groups may still be loading when the broker is new."""
    give_up = time.monotonic() + SECONDS_MAX
    code, document = probing.probe(capsys, user, "--log-dir", probing.log_dir, *KNOWN)
    while document["not_judged"] and time.monotonic() < give_up:
        code, document = probing.probe(capsys, user, "--log-dir", probing.log_dir, *KNOWN)
    assert (document["differences"], document["not_judged"]) == ([], {})
    assert code == 0, document
    assert document["brokers"] == 2
    assert document["agreed"] > 30


def test_page_shows_it(probing: Probing, tmp_path: Path) -> None:
    shutil.copy(probing.cluster.client_config("alice"), tmp_path)
    real = {
        "broker1.example.com:9092": probing.cluster.bootstrap_servers,
        "/var/lib/authorizerd/copy": str(probing.log_dir),
        "192.0.2.7": HOST,
    }
    with Shell(tmp_path) as shell:
        run_page("prove.md", "tests/conformance/test_probe.py", shell, Names(real, Ports()))


@pytest.mark.parametrize(("users", "host", "planted", "cause"), [
    (f"User:{ADMIN};User:carol", HOST, (), Cause.SUPER_USERS),
    (f"User:{ADMIN}", ELSEWHERE, (), Cause.HOST),
    (f"User:{ADMIN}", HOST, (PLANTED,), Cause.BROKERS_LACK),
])  # fmt: skip
def test_planted_difference_is_found(
    probing: Probing, users: str, host: str, planted: tuple[Acl, ...], cause: Cause,
    tmp_path: Path, capsys: Capture,
) -> None:  # fmt: skip
    acls = write_acls(tmp_path / "acls.json", *probing.acls, *planted)
    words = ("--acls", acls, "--super-users", users, *KNOWN[2:])
    code, document = probing.probe(capsys, "carol", *words, host=host)
    assert code == 3
    assert cause in [each["cause"] for each in document["differences"]]
    if planted:
        (only,) = document["differences"]
        assert (only["operation"], only["resource_name"]) == ("DESCRIBE", "zz")
