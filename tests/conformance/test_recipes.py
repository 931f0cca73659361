"""The recipes that need Java: their commands, run as the pages show them."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from authorizerd.cli.routes.preset import read_presets
from tests.end_to_end.example_daemon import ExampleDaemon, running_example
from tests.end_to_end.page_shell import Names, run_page
from tests.kafka_rig.broker import Broker, BrokerSettings, running_broker
from tests.kafka_rig.properties import PLAIN_LOGIN
from tests.kafka_rig.rig import Program, Rig

SECONDS_MAX = 300
"""Time limit of a command: Maven downloads, and a registry starts."""
BROKER_PORT = "9192"


@contextmanager
def broker_at(port: int, rig: Rig, folder: Path, formatted: Path) -> Iterator[Broker]:
    """Run a broker that allows everything, with the topic of the recipe."""
    log_dir = Path(shutil.copytree(formatted, folder / "log"))
    listeners = {"CLIENTS": ("SASL_PLAINTEXT", port)}
    users = "".join(f' user_{name}="{name}-secret"' for name in ("alice", "bob", "bridge"))
    settings = BrokerSettings(
        allow_everyone_if_no_acl_found=True,
        listeners=listeners,
        more={"listener.name.clients.plain.sasl.jaas.config": f"{PLAIN_LOGIN}{users};"},
    )
    with running_broker(rig, folder, log_dir, settings) as broker:
        done = broker.run(Program.TOPICS, "--create", "--topic", "orders")
        assert done.exit_code == 0, done
        yield broker


def count_records(broker: Broker, topic: str) -> int:
    """Return the end offset of the topic's only partition."""
    consumer = Consumer({"bootstrap.servers": broker.plaintext, "group.id": "none", "log_level": 0})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS_MAX)
    consumer.close()
    return int(end)


def run_recipe(page: str, daemon: ExampleDaemon) -> None:
    with daemon.shell(SECONDS_MAX) as shell:
        run_page(page, "tests/conformance/test_recipes.py", shell, daemon.ports)


def require(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[ExampleDaemon]:
    require("java", "mvn")
    with running_example(tmp_path) as daemon:
        yield daemon


def test_registry_behind_a_gateway(tmp_path: Path) -> None:
    """As root, nginx would change to another user, who may not read the test's files."""
    require("java", "mvn", "nginx")
    (tmp_path / "routes.yaml").write_text(read_presets()["apicurio-registry"])
    as_root = {"events {}": "user root;\nevents {}"} if os.geteuid() == 0 else {}
    with (
        running_example(tmp_path, ["authorizerd.routes.file=routes.yaml"]) as daemon,
        daemon.shell(SECONDS_MAX) as shell,
    ):
        names = Names(as_root, daemon.ports)
        run_page("recipe-registry.md", "tests/conformance/test_recipes.py", shell, names)


def test_kroxylicious_asks_about_each_record(
    daemon: ExampleDaemon, rig: Rig, formatted: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    port = int(daemon.ports.to_real(BROKER_PORT))
    with broker_at(port, rig, tmp_path_factory.mktemp("broker"), formatted):
        run_recipe("recipe-kroxylicious.md", daemon)


def test_rest_bridge_asks_about_each_record(
    daemon: ExampleDaemon, rig: Rig, formatted: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    port = int(daemon.ports.to_real(BROKER_PORT))
    with broker_at(port, rig, tmp_path_factory.mktemp("broker"), formatted) as broker:
        run_recipe("recipes.md", daemon)
        assert count_records(broker, "orders") == 2  # those that were answered with "written"
