"""The daemon of ``make run`` on free ports, for the documents' commands."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.end_to_end.documents import ROOT
from tests.end_to_end.page_shell import SECONDS_MAX, Shell, python_path
from tests.kafka_rig.properties import find_lasting_ports
from tests.support.daemon_process import wait_until
from tests.support.forked_command import program_folder

PORTS: Final = {
    "authorizerd.decision.http=http://127.0.0.1": "8181",
    "authorizerd.admin.http=http://127.0.0.1": "8182",
    "authorizerd.decision.stream=tcp://127.0.0.1": "8183",
    "listeners=PLAINTEXT://127.0.0.1": "9092",
}
"""The documents' ports, by the settings that set them."""

SERVICE_PORTS: Final = (
    *("8080", "8081", "8281", "8282", "8283", "8291", "8292", "8293", "8443"),
    *("9093", "9094", "9095", "9182", "9192", "9292", "9293", "9443"),
)
"""The ports of the services that the documents' commands start."""

_PORT: Final = re.compile(rf"(?<=:)\d+\b|\b(?:{'|'.join(SERVICE_PORTS)})\b")
_RELOADED: Final = "the configuration is reloaded"


class Ports:
    """A free port for each port in the documents."""

    def __init__(self) -> None:
        documented = (*PORTS.values(), *SERVICE_PORTS)
        # Some services start minutes later, while other tests bind and connect.
        free = map(str, find_lasting_ports(len(documented)))
        self._free: Final = dict(zip(documented, free, strict=True))
        self._documented: Final = {port: shown for shown, port in self._free.items()}

    def settings(self) -> list[str]:
        return [f"{key}:{self._free[port]}" for key, port in PORTS.items()]

    def to_real(self, text: str) -> str:
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

    def shell(self, seconds_max: float = SECONDS_MAX) -> Shell:
        """Return a shell in the daemon's folder; ``$PID`` is the daemon."""
        return Shell(self.folder, seconds_max, PID=str(self.pid()))

    def pid(self) -> int:
        """Return the process id of the daemon, the only child of ``make run``."""
        pid = self._process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())

    def wait_for_reload(self, reloads: int) -> None:
        """Wait until this many reloads are logged; ``kill`` returns before they happen."""
        wait_until(lambda: self.log().count(_RELOADED) >= reloads, f"{reloads} reloads are logged")


def link_environment(folder: Path) -> None:
    """Make ``.venv`` in a folder, whose ``authorizerd`` is a fork."""
    links = {
        "bin/authorizerd": program_folder() / "authorizerd",
        "bin/python": Path(sys.executable),
        "lib": Path(sys.prefix) / "lib",
        "pyvenv.cfg": Path(sys.prefix) / "pyvenv.cfg",
    }
    (folder / ".venv/bin").mkdir(parents=True)
    for name, real in links.items():
        (folder / ".venv" / name).symlink_to(real)


@contextmanager
def running_example(folder: Path, settings: Sequence[str] = ()) -> Iterator[ExampleDaemon]:
    """Run the daemon of ``make run`` in ``folder``, which is like a clone."""
    link_environment(folder)
    (folder / "tools").symlink_to(ROOT / "tools")
    (folder / "ops").symlink_to(ROOT / "ops")
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
            [folder / ".venv/bin/python", "-m", "tools.example", *overrides],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": python_path()},
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


def _other_ports(config: str, ports: Ports) -> str:
    """Return overrides for the ports of the example's daemon that this configuration has too."""
    settings = dict(zip(PORTS, ports.settings(), strict=True))
    own = (
        key for key in settings if settings[key] in config or key.partition("=")[0] not in config
    )
    return " ".join(f"--override {key}:0" for key in own)


def beside(daemon: ExampleDaemon, command: str) -> str:
    """Return a ``serve`` command with free ports for those that the example's daemon has too."""
    config = (daemon.folder / command.split("--config ")[1].split()[0]).read_text()
    return f"{command} {_other_ports(config, daemon.ports)}"
