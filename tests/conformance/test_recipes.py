"""The recipes that need Java: their commands, run as the pages show them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ops.kafka_rig.broker import BrokerSettings, running_broker
from ops.kafka_rig.properties import PLAIN_LOGIN
from ops.kafka_rig.rig import Program, Rig
from tests.end_to_end.documents import ROOT, blocks_of, commands_of
from tests.end_to_end.example_daemon import (
    ExampleDaemon,
    Shell,
    check,
    running_example,
    save_files,
)

SECONDS_MAX = 300
"""Time limit of a command: Maven downloads, and a registry starts."""
BROKER_PORT = "9192"


@contextmanager
def broker_at(port: int, rig: Rig, folder: Path, formatted: Path) -> Iterator[None]:
    """Run a broker that allows everything, with the topic of the recipe."""
    log_dir = Path(shutil.copytree(formatted, folder / "log"))
    listeners = {"CLIENTS": ("SASL_PLAINTEXT", port)}
    users = "".join(f' user_{name}="{name}-secret"' for name in ("alice", "bob"))
    settings = BrokerSettings(
        allow_everyone_if_no_acl_found=True,
        listeners=listeners,
        more={"listener.name.clients.plain.sasl.jaas.config": f"{PLAIN_LOGIN}{users};"},
    )
    with running_broker(rig, folder, log_dir, settings) as broker:
        done = broker.run(Program.TOPICS, "--create", "--topic", "orders")
        assert done.exit_code == 0, done
        yield


def run_page(page: str, daemon: ExampleDaemon) -> None:
    """Run all commands of a page in one shell, in order."""
    blocks = [*blocks_of(ROOT / "docs" / page)]
    save_files(blocks, daemon)
    with closing(Shell(daemon, SECONDS_MAX)) as shell:
        for block in blocks:
            for command in commands_of(block.text) if block.language == "console" else ():
                check(command, daemon, shell)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[ExampleDaemon]:
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")
    with running_example(tmp_path) as daemon:
        yield daemon


def test_registry_behind_a_gateway(daemon: ExampleDaemon) -> None:
    run_page("recipe-registry.md", daemon)


def test_kroxylicious_asks_about_each_record(
    daemon: ExampleDaemon, rig: Rig, formatted: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    port = int(daemon.ports.to_free(BROKER_PORT))
    with broker_at(port, rig, tmp_path_factory.mktemp("broker"), formatted):
        run_page("recipe-kroxylicious.md", daemon)
