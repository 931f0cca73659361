"""A daemon that may write only where the systemd unit lets it write, by the kernel's own rule."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from authorizerd.protocol.kafka.api import ApiKey
from tests.support.acls import acl
from tests.support.daemon_process import (
    COMMAND,
    ROOT,
    SECONDS_MAX,
    evaluate_at,
    new_log,
    wait_until,
    write_config,
)
from tests.support.kafka_connection import KafkaConnection
from tests.support.landlock import is_supported
from tests.support.requests import evaluation
from tests.support.stream_connection import StreamConnection

BROKER = 4
RELOADED = "the configuration is reloaded"
WRITTEN = ("state", "logs", "run")
"""The folders of StateDirectory, LogsDirectory and RuntimeDirectory."""

pytestmark = pytest.mark.skipif(not is_supported(), reason="the kernel has no Landlock (Linux 6.2)")


class Installation:
    """Folders as systemd makes them, and one that only others may write."""

    def __init__(self, folder: Path) -> None:
        for name in (*WRITTEN, "etc"):
            (folder / name).mkdir()
        self.folder = folder
        self.ready_file = folder / "run" / "ready.json"
        self.log_file = folder / "logs" / "daemon.log"

    def start(self, config: Mapping[str, str], *command: str) -> subprocess.Popen[bytes]:
        """Start a command that may write only to the folders ``WRITTEN``."""
        path = write_config(self.folder / "etc", self.folder / "state" / "log", config)
        writable = [str(self.folder / name) for name in WRITTEN]
        with self.log_file.open("wb") as log:
            return subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.support.landlock", *writable, "--"),
                    *(*COMMAND, *command, "--config", str(path)),
                ],
                cwd=ROOT,
                stderr=log,
            )


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    installation = Installation(tmp_path)
    new_log(tmp_path).rename(tmp_path / "state" / "log")
    return installation


def files_outside(folder: Path) -> dict[str, int]:
    """Return the files in the folders that the daemon may not write, with their sizes."""
    return {
        str(path): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] not in WRITTEN
    }


@pytest.mark.parametrize("workers", ["1", "2"])
def test_daemon_writes_only_to_its_directories(installation: Installation, workers: str) -> None:
    """It starts, changes ACLs and settings, writes checkpoints, audits, reloads and ends."""
    folder = installation.folder
    socket, audit = folder / "run" / "stream.sock", folder / "logs" / "audit.log"
    config = {
        "super.users": "User:ANONYMOUS",
        "metadata.log.max.record.bytes.between.snapshots": "1",
        "authorizerd.audit.log": str(audit),
        "authorizerd.decision.stream": f"unix:{socket}",
        "authorizerd.console": "true",
        "authorizerd.workers": workers,
    }
    arguments = ("serve", "--ready-file", str(installation.ready_file))
    with installation.start(config, *arguments) as process:
        wait_until(installation.ready_file.exists, "the daemon is ready")
        before = files_outside(folder)
        ready = json.loads(installation.ready_file.read_bytes())
        kafka = KafkaConnection(ready["listeners"]["PLAINTEXT"])
        for number in range(3):
            assert kafka.create(acl("User:alice", topic=f"t{number}")) == [None]
        altered = kafka.ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=[
                SimpleNamespace(
                    resource_type=BROKER,
                    resource_name="1",
                    configs=[
                        SimpleNamespace(name="max.connections", config_operation=0, value="99")
                    ],
                )
            ],
            validate_only=False,
        )
        assert [each.error_code for each in altered.responses] == [0]
        kafka.close()
        stream = StreamConnection(f"unix:{socket}")
        assert stream.ask(("User:alice", None, "READ", "TOPIC", "t1")).decisions == b"\1"
        stream.close()
        denied = evaluate_at(ready["decision_http"], evaluation("mallory"))
        assert denied.json["decision"] is False
        process.send_signal(signal.SIGHUP)
        log = installation.log_file
        wait_until(lambda: RELOADED in log.read_text(), "the configuration is reloaded")
        wait_until(lambda: any(folder.glob("state/log/**/*.checkpoint")), "a checkpoint is written")
        wait_until(lambda: b"mallory" in audit.read_bytes(), "the audit is written")
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=SECONDS_MAX)
    assert process.returncode == 0, log.read_text()
    assert "Permission denied" not in log.read_text()
    assert "Traceback" not in log.read_text()
    assert files_outside(folder) == before


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("authorizerd.audit.log", "{}/etc/audit.log", "etc/audit.log"),
        ("authorizerd.decision.stream", "unix:{}/etc/stream.sock", "etc/stream.sock"),
    ],
)
def test_other_places_cannot_be_written(
    installation: Installation, key: str, value: str, place: str
) -> None:
    """This shows that the kernel applies the rule. The daemon says what it could not write."""
    config = {key: value.format(installation.folder)}
    with installation.start(config, "serve") as process:
        process.wait(timeout=SECONDS_MAX)
    assert process.returncode == 1
    log = installation.log_file.read_text()
    (line,) = (each for each in log.splitlines() if "Permission denied" in each)
    assert place in line
    assert not os.path.lexists(installation.folder / place)
