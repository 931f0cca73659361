"""A real Kafka node and the daemon exclude each other from a log directory."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from tests.kafka_rig.broker import Broker, BrokerSettings, running_broker
from tests.kafka_rig.rig import Rig, RigError
from tests.support.daemon_process import run, running, write_config
from tools.example.log import write_log

LEVEL = 30
"""4.3-IV0, which the node can read."""


def test_daemon_refuses_a_brokers_directory(broker: Broker, tmp_path: Path) -> None:
    """It exits with code 1 and prints one line."""
    done = run("serve", "--config", write_config(tmp_path, broker.log_dir))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"authorizerd: {broker.log_dir}: in use by another process")


@pytest.fixture(scope="module")
def daemons_log_dir(formatted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("daemon")
    log_dir = directory / "log"
    shutil.copytree(formatted, log_dir)
    write_log(log_dir, LEVEL)
    with running(directory, log_dir):
        yield log_dir


def refusal(rig: Rig, directory: Path, log_dir: Path, roles: str) -> str:
    """Return the error with which a Kafka node ends."""
    with (
        pytest.raises(RigError, match="the broker ended") as error,
        running_broker(rig, directory, log_dir, BrokerSettings(roles=roles)),
    ):
        pass
    return str(error.value)


def contents(log_dir: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (log_dir / METADATA_TOPIC_DIRECTORY).iterdir()}


def test_controller_refuses_the_daemons_directory(
    rig: Rig, daemons_log_dir: Path, tmp_path: Path
) -> None:
    """It changes no byte, and its log names the lock."""
    before = contents(daemons_log_dir)
    said = refusal(rig, tmp_path, daemons_log_dir, "controller")
    assert f"Failed to acquire lock on file .lock in {daemons_log_dir}" in said
    assert contents(daemons_log_dir) == before


def test_combined_node_writes_before_it_notices_the_lock(
    rig: Rig, daemons_log_dir: Path, tmp_path: Path
) -> None:
    """Its controller appends before the broker takes the lock. It overwrites nothing."""
    before = contents(daemons_log_dir)
    said = refusal(rig, tmp_path, daemons_log_dir, "broker,controller")
    assert f"Failed to acquire lock on file .lock in {daemons_log_dir}" in said
    after = contents(daemons_log_dir)
    assert {name: after[name] for name in before} == before
    assert [name for name in sorted(after.keys() - before) if name.endswith(".log")]
