"""A real daemon in a process, on free ports, while a test runs."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tests.support.forked_command import COMMAND as COMMAND
from tests.support.forked_command import ROOT as ROOT
from tests.support.forked_command import StartedCommand, start_command

SECONDS_MAX = 30.0


@dataclass
class Answer:
    """An HTTP response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever JSON holds
        return json.loads(self.body)


class PortConnection(HTTPConnection):
    """A connection to a port whose every answer must be as the port's OpenAPI document says.

    ``kind`` is ``decision`` or ``admin``.
    """

    def __init__(self, kind: str, address: str) -> None:
        super().__init__(address, timeout=SECONDS_MAX)
        self.kind = kind


class DaemonProcess:
    """A daemon that is ready.

    ``decision`` and ``admin`` are keep-alive connections. ``ready`` is the content of the ready
    file, which has the addresses of all ports.
    """

    def __init__(self, process: StartedCommand, ready: dict[str, Any]) -> None:
        self.process = process
        self.ready = ready
        self.decision = PortConnection("decision", ready["decision_http"])
        self.admin = PortConnection("admin", ready["admin_http"])

    def evaluate(self, body: object, *, path: str = "/access/v1/evaluation") -> Answer:
        """Send an AuthZEN request. ``body`` is sent as JSON, unless it is bytes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return ask(self.decision, "POST", path, data, {"Content-Type": "application/json"})

    def metric(self, name: str, *, absent: float | None = None) -> float:
        """Return one sample of /metrics by its full name with labels, which may be ``absent``."""
        give_up = time.monotonic() + SECONDS_MAX
        while (answer := ask(self.admin, "GET", "/metrics")).status == 503:  # overloaded
            assert time.monotonic() < give_up
            time.sleep(0.1)
        for line in answer.body.decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        assert absent is not None, f"no metric {name}"
        return absent

    def reload(self, *logged: str) -> None:
        """Send SIGHUP, and wait until each of these texts is logged."""
        self.process.send_signal(signal.SIGHUP)
        for text in logged or ("the configuration is reloaded",):
            self.wait_for_log(text)

    def wait_for_log(self, text: str) -> None:
        """Read standard error until a line contains ``text``."""
        read_until(self.process, text)

    def close(self) -> None:
        self.decision.close()
        self.admin.close()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal, wait for the end, and return the exit code and standard error."""
        self.close()
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.wait(), errors


def read_until(process: StartedCommand, text: str) -> None:
    """Read standard error until a line contains ``text``."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"the daemon has ended without logging {text!r}")


_CLOSED: Final[list[socket.socket]] = []


def closed_address() -> str:
    """Return ``host:port`` where nothing listens until the tests end, as nothing can bind it."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    _CLOSED.append(bound)
    return f"127.0.0.1:{bound.getsockname()[1]}"


def connect(address: str, seconds_max: float = SECONDS_MAX) -> socket.socket:
    """Connect to ``host:port`` or ``unix:path``; each call may take ``seconds_max``."""
    if address.startswith("unix:"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(seconds_max)
        connection.connect(address.removeprefix("unix:"))
        return connection
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), seconds_max)


def ask(
    connection: HTTPConnection,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Send an HTTP request and return the response."""
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    answer = Answer(response.status, dict(response.getheaders()), response.read())
    # Without jsonschema, which ``make setup-dev`` installs, the answer is not checked.
    if isinstance(connection, PortConnection) and find_spec("jsonschema") is not None:
        from tests.support.described_ports import check_answer  # it takes a second to load

        check_answer(connection.kind, method, path, body or b"", answer)
    return answer


def ask_at(
    address: str, method: str, path: str, body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:  # fmt: skip
    """Send an HTTP request on a connection of its own."""
    with closing(HTTPConnection(address, timeout=SECONDS_MAX)) as connection:
        return ask(connection, method, path, body, headers)


def evaluate_at(address: str, document: object) -> Answer:
    """Send an AuthZEN request on a connection of its own."""
    headers = {"Content-Type": "application/json"}
    return ask_at(address, "POST", "/access/v1/evaluation", json.dumps(document).encode(), headers)


def write_config(
    folder: Path, log_dir: Path, config: Mapping[str, str] | None = None, **settings: str
) -> Path:
    """Write a server.properties with free ports; the keyword ``a_b`` sets the key ``a.b``."""
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
    """Start a daemon on ``log_dir`` and wait until it is ready; kill it at the end if necessary."""
    config_file = write_config(folder, log_dir, config, **settings)
    ready_file = folder / "ready.json"
    ready_file.unlink(missing_ok=True)
    process = start_command(
        ["serve", "--config", config_file, "--ready-file", ready_file], stderr=subprocess.PIPE
    )
    try:
        wait_until_ready(process, ready_file)
        with closing(DaemonProcess(process, json.loads(ready_file.read_bytes()))) as daemon:
            yield daemon
    finally:
        process.kill()
        if process.stderr is not None and not process.stderr.closed:
            process.communicate()
        process.wait()


def new_log(folder: Path) -> Path:
    """Format a log directory below ``folder`` and return it."""
    log_dir = folder / "log"
    done = run("format", "--config", write_config(folder, log_dir))
    assert done.returncode == 0, done.stderr
    return log_dir


def wait_until(
    holds: Callable[[], bool],
    what: str,
    seconds_max: float = SECONDS_MAX,
    pause_seconds: float = 0.02,
) -> None:
    """Wait until ``holds`` returns True; the error names ``what`` if it never does."""
    give_up = time.monotonic() + seconds_max
    while not holds():
        assert time.monotonic() < give_up, f"not within {seconds_max:.0f} s: {what}"
        time.sleep(pause_seconds)


def wait_until_ready(process: StartedCommand, ready_file: Path) -> None:

    def is_ready() -> bool:
        assert process.poll() is None, process.communicate()
        return ready_file.exists()

    wait_until(is_ready, "the daemon is ready")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command and wait for its end."""
    with start_command(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            output, errors = process.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.wait(), output, errors)
