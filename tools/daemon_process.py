"""Run the daemon as users do: a process, a configuration file, a ready file, /metrics."""

from __future__ import annotations

import http.client
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.config.tokens import SECRET_BYTES, new_token
from tools.processes import capture_output, running, wait_for_file

AUTHORIZERD: Final = Path(sys.executable).with_name("authorizerd")
READY_TIMEOUT_SECONDS: Final = 60.0
_METRICS_TIMEOUT_SECONDS: Final = 5.0

_SETTINGS: Final = {
    "node.id": "1",
    # Port 0: the kernel chooses a free port, and the ready file names it.
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "authorizerd.decision.http": "http://127.0.0.1:0",
    "authorizerd.decision.stream": "tcp://127.0.0.1:0",
    "authorizerd.admin.http": "http://127.0.0.1:0",
}

PATIENT: Final = {"authorizerd.overload.turn.ms": "1000"}
"""Let a daemon answer all requests of a closed loop, even on a busy machine."""

_HOLDER: Final = "User:bench"
_HOLDER_ID: Final = "bench"


class _ReadyFile(msgspec.Struct):
    decision_http: str
    decision_stream: str
    admin_http: str
    listeners: dict[str, str]


@dataclass(frozen=True, slots=True)
class DaemonProcess:
    """A ready daemon; addresses are ``host:port``, ``listeners`` has those of Kafka listeners.

    ``token`` is what callers of the decision ports send, if they need one.
    """

    process_id: int
    decision_http: str
    decision_stream: str
    admin_http: str
    listeners: Mapping[str, str] = field(default_factory=dict)
    token: str = ""

    @property
    def kafka(self) -> str:
        """The address of the first Kafka listener."""
        return next(iter(self.listeners.values()))

    def metric(self, name: str) -> float:
        """Return the value of a metric, named with its labels, or 0 if there is none."""
        connection = http.client.HTTPConnection(self.admin_http, timeout=_METRICS_TIMEOUT_SECONDS)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        values = (line.split()[1] for line in text.splitlines() if line.startswith(f"{name} "))
        return float(next(values, 0))


def serve_command(
    directory: Path, log_dir: Path, settings: Mapping[str, str]
) -> tuple[list[str | Path], Path]:
    """Write a configuration; return the arguments of ``authorizerd`` and the ready file's path."""
    directory.mkdir(parents=True, exist_ok=True)
    config, ready = directory / "server.properties", directory / "ready.json"
    # A file from an earlier run would be mistaken for this daemon's.
    ready.unlink(missing_ok=True)
    lines = {**_SETTINGS, "metadata.log.dir": str(log_dir), **settings}
    config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return ["serve", "--config", config, "--ready-file", ready], ready


def write_token(directory: Path) -> tuple[Mapping[str, str], str]:
    """Create a super user's token; return a daemon's settings that accept it, and the token."""
    token, line = new_token(_HOLDER_ID, _HOLDER, secrets.token_bytes(SECRET_BYTES))
    directory.mkdir(parents=True, exist_ok=True)
    tokens_file = directory / "tokens"
    tokens_file.write_text(f"{line}\n")
    settings = {"authorizerd.tokens.file": str(tokens_file), "super.users": _HOLDER}
    return settings, str(token)


def format_log(directory: Path, log_dir: Path, settings: Mapping[str, str], *more: str) -> None:
    """Make a daemon's own log with ``authorizerd format``."""
    config = serve_command(directory, log_dir, settings)[0][2]
    command = [AUTHORIZERD, "format", "--config", config, *more]
    capture_output(command, timeout_seconds=READY_TIMEOUT_SECONDS)


@contextmanager
def ready_daemon(
    directory: Path,
    log_dir: Path,
    settings: Mapping[str, str],
    program: Sequence[str | Path] = (AUTHORIZERD,),
    timeout_seconds: float = READY_TIMEOUT_SECONDS,
    token: str = "",
) -> Iterator[DaemonProcess]:
    """Run a daemon on ``log_dir``, with its files below ``directory``, until the block ends.

    Args:
        token: the token that its callers send.

    Raises:
        ProcessError: it did not become ready; ``daemon.log`` has the reason.
    """
    arguments, ready = serve_command(directory, log_dir, settings)
    with running([*program, *arguments], directory / "daemon.log") as process:
        # The daemon renames the file into place, so it is never read half-written.
        contents = wait_for_file(ready, process, timeout_seconds)
        bound = msgspec.json.decode(contents, type=_ReadyFile)
        yield DaemonProcess(
            process.pid,
            bound.decision_http,
            bound.decision_stream,
            bound.admin_http,
            bound.listeners,
            token,
        )
