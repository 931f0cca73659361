"""A service manager with a notify socket, which passes listening sockets to a daemon."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.end_to_end.held_daemon import HELD
from tests.support.daemon_process import ROOT, SECONDS_MAX, wait_until_ready

Message = dict[str, str]


class NotifySocket:
    """The service manager's end of a notify socket; ``address`` is the value of NOTIFY_SOCKET."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1))

    def receive(self, seconds: float = SECONDS_MAX) -> Message:
        """Return the next message, or raise TimeoutError if none arrives."""
        self._socket.settimeout(seconds)
        lines = self._socket.recv(1 << 16).decode().split("\n")
        return dict(line.split("=", 1) for line in lines)

    def receive_until(self, key: str) -> list[Message]:
        """Return the messages up to and including the first with ``key``."""
        messages = [self.receive()]
        while key not in messages[-1]:
            messages.append(self.receive())
        return messages

    def receive_all(self) -> list[Message]:
        messages = []
        while True:
            try:
                messages.append(self.receive(seconds=1e-6))
            except (TimeoutError, BlockingIOError):
                return messages

    def close(self) -> None:
        self._socket.close()


class HeldService:
    """A daemon whose load is held back until it is released."""

    def __init__(self, process: subprocess.Popen[str], ready_file: Path) -> None:
        self.process = process
        self.ready_file = ready_file
        assert process.stdout is not None
        held = process.stdout.readline()
        assert held == HELD, process.communicate()

    def release(self) -> None:
        """Continue the load."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def wait_until_ready(self) -> None:
        wait_until_ready(self.process, self.ready_file)


@contextmanager
def held_service(
    config_file: Path,
    ready_file: Path,
    *,
    sockets: Mapping[str, socket.socket] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[HeldService]:
    """Start a daemon with inherited sockets, by name, and hold its load; kill it at the end."""
    process = start_service(
        "tests.end_to_end.held_daemon",
        *("--config", config_file, "--ready-file", ready_file),
        sockets=sockets or {},
        environment=environment or {},
    )
    try:
        yield HeldService(process, ready_file)
    finally:
        process.kill()
        process.communicate()


def start_service(
    module: str,
    *arguments: str | Path,
    sockets: Mapping[str, socket.socket],
    environment: Mapping[str, str],
    stderr: int | IO[str] = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """Start ``serve`` of a module with inherited sockets, by name."""
    descriptors = {name: each.fileno() for name, each in sockets.items()}
    named = ",".join(f"{descriptor}:{name}" for name, descriptor in descriptors.items())
    activated = ("tests.end_to_end.activated", named) if sockets else ()
    return subprocess.Popen(
        [sys.executable, "-m", *activated, module, "serve", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        pass_fds=tuple(descriptors.values()),
        env={**os.environ, **environment},
    )
