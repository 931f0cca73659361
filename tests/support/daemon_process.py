"""A real daemon in a process of its own, for the length of a test."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

SECONDS_MAX = 30.0
COMMAND = (sys.executable, "-m", "authorizerd.cli.main")
ROOT = Path(__file__).parents[2]


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever JSON holds
        return json.loads(self.body)


class DaemonProcess:
    """``decision`` and ``admin`` are keep-alive connections to a daemon that is ready."""

    def __init__(self, process: subprocess.Popen[str], ready: dict[str, Any]) -> None:
        self.process = process
        self.ready = ready
        self.decision = HTTPConnection(ready["decision_http"], timeout=SECONDS_MAX)
        self.admin = HTTPConnection(ready["admin_http"], timeout=SECONDS_MAX)

    def evaluate(self, body: object, *, path: str = "/access/v1/evaluation") -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return ask(self.decision, "POST", path, data, {"Content-Type": "application/json"})

    def metric(self, name: str, *, absent: float | None = None) -> float:
        """Return one sample of /metrics by its whole name, labels included.

        Args:
            absent: what one counts as that is not there; None: it must be.
        """
        give_up = time.monotonic() + SECONDS_MAX
        while (answer := ask(self.admin, "GET", "/metrics")).status == 503:  # overloaded for now
            assert time.monotonic() < give_up
            time.sleep(0.1)
        for line in answer.body.decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        assert absent is not None, f"no metric {name}"
        return absent

    def close(self) -> None:
        self.decision.close()
        self.admin.close()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return exit code and standard error."""
        self.close()
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, errors


def ask(
    connection: HTTPConnection,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    return Answer(response.status, dict(response.getheaders()), response.read())


def write_config(
    folder: Path, log_dir: Path, config: Mapping[str, str] | None = None, **settings: str
) -> Path:
    """Write a server.properties; keyword ``a_b`` stands for the key ``a.b``."""
    lines = {
        "node.id": "1",
        "log.dirs": str(log_dir),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "authorizerd.decision.http": "http://127.0.0.1:0",
        "authorizerd.decision.stream": "tcp://127.0.0.1:0",
        "authorizerd.admin.http": "http://127.0.0.1:0",
    }
    lines |= {key.replace("_", "."): value for key, value in settings.items()} | dict(config or {})
    path = folder / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path


@contextmanager
def running(
    folder: Path, log_dir: Path, config: Mapping[str, str] | None = None, **settings: str
) -> Iterator[DaemonProcess]:
    """Start a daemon on ``log_dir`` and wait until it is ready; end it, if it has not, after."""
    config_file = write_config(folder, log_dir, config, **settings)
    ready_file = folder / "ready.json"
    ready_file.unlink(missing_ok=True)
    process = subprocess.Popen(
        [*COMMAND, "serve", "--config", config_file, "--ready-file", ready_file],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        give_up = time.monotonic() + SECONDS_MAX
        while not ready_file.exists():
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < give_up, "not ready in time"
            time.sleep(0.01)
        daemon = DaemonProcess(process, json.loads(ready_file.read_bytes()))
        try:
            yield daemon
        finally:
            daemon.close()
    finally:
        if process.poll() is None:
            process.kill()
        if process.stderr is not None and not process.stderr.closed:
            process.communicate()


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
