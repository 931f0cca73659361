"""The daemon of ``make run`` on free ports, and a shell for the documents' commands."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.end_to_end.documents import ROOT, Block, Command

SECONDS_MAX: Final = 60.0
PORTS: Final = {
    "authorizerd.decision.http=http://127.0.0.1": "8181",
    "authorizerd.admin.http=http://127.0.0.1": "8182",
    "authorizerd.decision.stream=tcp://127.0.0.1": "8183",
    "listeners=PLAINTEXT://127.0.0.1": "9092",
}
"""The documents' ports, by the settings that set them."""

SERVICE_PORTS: Final = (
    *("8080", "8081", "8281", "8282", "8283", "8291", "8292", "8293"),
    *("9094", "9095", "9192", "9292", "9293"),
)
"""The ports of the services that the documents' commands start."""

MAKE_RUN: Final = "make run"
PATH: Final = f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"
"""Where commands are found: ``authorizerd`` is the installed one."""

_PORT: Final = re.compile(rf"(?<=:)\d+\b|\b(?:{'|'.join(SERVICE_PORTS)})\b")
_END: Final = "-- end, exit code"
_ENDED: Final = re.compile(rf"\n{_END} (\d+)\n".encode())
_RELOADED: Final = "the configuration is reloaded"


class Ports:
    """A free port for each port in the documents."""

    def __init__(self) -> None:
        with ExitStack() as stack:
            documented = (*PORTS.values(), *SERVICE_PORTS)
            taken = [stack.enter_context(socket.socket()) for _ in documented]
            for each in taken:
                each.bind(("127.0.0.1", 0))
            free = [str(each.getsockname()[1]) for each in taken]
        self._free: Final = dict(zip(documented, free, strict=True))
        self._documented: Final = {port: shown for shown, port in self._free.items()}

    def settings(self) -> list[str]:
        return [f"{key}:{self._free[port]}" for key, port in PORTS.items()]

    def to_free(self, text: str) -> str:
        """Replace documented ports by free ones."""
        return _replace_ports(text, self._free)

    def to_documented(self, text: str) -> str:
        """Replace free ports by documented ones."""
        return _replace_ports(text, self._documented)


def _replace_ports(text: str, ports: Mapping[str, str]) -> str:
    return _PORT.sub(lambda found: ports.get(found[0], found[0]), text)


class ExampleDaemon:
    """The daemon of ``make run``: its folder, its ports and its output."""

    def __init__(self, folder: Path, ports: Ports, process: subprocess.Popen[str]) -> None:
        self.folder: Final = folder
        self.ports: Final = ports
        self._process: Final = process
        self.printed: Final = ports.to_documented(self._read_greeting())

    def _read_greeting(self) -> str:
        assert self._process.stdout is not None
        printed = ""
        while "Ctrl-C" not in printed:
            line = self._process.stdout.readline()
            assert line, (printed, self.log())
            printed += line
        return printed

    def log(self) -> str:
        """Return the daemon's log."""
        return (self.folder / "log").read_text()

    def pid(self) -> int:
        """Return the process id of the daemon, the only child of ``make run``."""
        pid = self._process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())

    def wait_for_reload(self, reloads: int) -> None:
        """Wait until this many reloads are logged; ``kill`` returns before they happen."""
        give_up = time.monotonic() + SECONDS_MAX
        while self.log().count(_RELOADED) < reloads:
            assert time.monotonic() < give_up, self.log()
            time.sleep(0.01)


@contextmanager
def running_example(folder: Path, settings: Sequence[str] = ()) -> Iterator[ExampleDaemon]:
    """Run the daemon of ``make run`` in ``folder``, with a ``.venv`` as in a clone."""
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "node_modules").mkdir()
    (folder / "node_modules/authorizerd-client").symlink_to(ROOT / "clients/javascript")
    for setting in settings:
        key, _, value = setting.partition("=")
        if key.endswith(".file"):
            (folder / value).touch()
    ports = Ports()
    overrides = [part for each in (*ports.settings(), *settings) for part in ("--override", each)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ops.example", *overrides],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": _python_path()},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            yield ExampleDaemon(folder, ports, process)
        finally:
            process.terminate()
            assert process.stdout is not None
            process.stdout.close()
            assert process.wait(SECONDS_MAX) == 0


def _python_path(folder: str = "") -> str:
    """Add a folder of the project whose packages are not installed."""
    return os.pathsep.join((str(ROOT / folder), os.environ["PYTHONPATH"]))


class Shell:
    """A shell that runs a block's commands one after the other, each for a limited time."""

    def __init__(self, daemon: ExampleDaemon, seconds_max: float = SECONDS_MAX) -> None:
        self._seconds_max: Final = seconds_max
        python_path = _python_path("clients/python/src")
        self._process: Final = subprocess.Popen(
            ["bash"],
            cwd=daemon.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": PATH, "PID": str(daemon.pid()), "PYTHONPATH": python_path},
            start_new_session=True,
        )

    def run(self, command: str) -> tuple[str, int]:
        """Return a command's output on both streams, and its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\nprintf '\\n{_END} %d\\n' $?\n".encode())
        self._process.stdin.flush()
        printed = b""
        while (found := _ENDED.search(printed)) is None:
            readable, _, _ = select.select([self._process.stdout], [], [], self._seconds_max)
            more = os.read(self._process.stdout.fileno(), 65536) if readable else b""
            assert more, f"{command!r} has not ended: {printed.decode()}"
            printed += more
        return printed[: found.start()].decode().strip("\n"), int(found[1])

    def close(self) -> None:
        """Kill the shell, which may wait for more input, and the programs that it has started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def check(command: Command, daemon: ExampleDaemon, shell: Shell) -> None:
    """Run a command and compare its output; for ``make run``, the daemon has printed it already."""
    if command.text.partition("#")[0].strip() == MAKE_RUN:
        printed, code = daemon.printed.strip("\n"), 0
    else:
        printed, code = shell.run(daemon.ports.to_free(command.text))
        printed = daemon.ports.to_documented(printed)
    assert code == command.exit_code, (command.text, printed)
    if command.shown and not command.matches(printed):
        assert printed == command.shown, f"{command.text}\n{printed}"


def save_files(blocks: Iterable[Block], daemon: ExampleDaemon) -> None:
    """Save each block with a file's name in the folder where the commands run."""
    for block in blocks:
        if block.file is not None:
            (daemon.folder / block.file).write_text(daemon.ports.to_free(block.text))


def _other_ports(config: str, ports: Ports) -> str:
    """Return overrides for the ports of the example's daemon that this configuration has too."""
    settings = dict(zip(PORTS, ports.settings(), strict=True))
    own = (
        key for key in settings if settings[key] in config or key.partition("=")[0] not in config
    )
    return " ".join(f"--override {key}:0" for key in own)


@contextmanager
def serving(daemon: ExampleDaemon, command: str) -> Iterator[None]:
    """Start a ``serve`` command, wait until it is ready, and stop it at the end."""
    folder = daemon.folder
    ready, log = folder / "ready.json", folder / "serve.log"
    config = (folder / command.split("--config ")[1].split()[0]).read_text()
    ready.unlink(missing_ok=True)
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [
                "bash",
                "-c",
                f"exec {command} --ready-file {ready} {_other_ports(config, daemon.ports)}",
            ],
            cwd=folder,
            env={**os.environ, "PATH": PATH},
            stderr=stderr,
        )
        try:
            give_up = time.monotonic() + SECONDS_MAX
            while not ready.exists():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < give_up, log.read_text()
                time.sleep(0.01)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS_MAX) == 0
