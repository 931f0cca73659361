"""Commands of ``authorizerd`` in processes that need not import it."""

from __future__ import annotations

import atexit
import math
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import IO, Self, TypeAlias

from tests.support import forked_program
from tests.support.forked_program import SOCKET, request_fork

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "authorizerd.cli.main")
READ_AT_A_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "TZ")
"""How the variables begin that a program obeys only if it starts with them."""

Stream: TypeAlias = int | IO[str] | None


def start_command(
    arguments: Sequence[str | Path], *, stdout: Stream = None, stderr: Stream = None
) -> StartedCommand:
    """Start a command of ``authorizerd`` in the root of the sources, with this environment.

    Args:
        arguments: the command and what follows it.
        stdout: as for ``Popen``, but neither ``DEVNULL`` nor ``STDOUT``.
        stderr: as ``stdout``.
    """
    words = [str(each) for each in arguments]
    folder, variables = _server()
    if variables == _start_variables():
        return ForkedCommand(folder, words, stdout=stdout, stderr=stderr)
    return subprocess.Popen([*COMMAND, *words], cwd=ROOT, stdout=stdout, stderr=stderr, text=True)


def program_folder() -> Path:
    """Return a folder with ``authorizerd`` as ``forked_program``. It exists while the tests run."""
    return Path(_server()[0])


@cache
def _server() -> tuple[str, Mapping[str, str]]:
    """Start the server once; it ends with this process.

    Return its folder, and the variables that it obeys.
    """
    home = TemporaryDirectory(prefix="authorizerd-commands-")
    folder = Path(home.name)
    fork = f'exec {sys.executable} -IS {forked_program.__file__} {folder} "$@"'
    _write_program(folder / "authorizerd", fork)
    # A daemon starts its workers and its query process by ``python -P -m authorizerd.cli.main``.
    _write_program(
        folder / "python",
        f'case "$*" in *--questions-fd*) shift 3; {fork};; esac\nexec {sys.executable} "$@"',
    )
    near, far = socket.socketpair()
    with far, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(folder / SOCKET))
        listener.listen()
        passed = (far.fileno(), listener.fileno())
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.command_server", folder, *map(str, passed)],
            cwd=ROOT,
            pass_fds=passed,
        )

    def end() -> None:
        near.close()
        process.wait()
        home.cleanup()

    atexit.register(end)
    return str(folder), _start_variables()


def _write_program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _start_variables() -> dict[str, str]:
    return {k: value for k, value in os.environ.items() if k.startswith(READ_AT_A_START)}


class _Reading(Thread):
    """Read a stream to its end. ``text`` is what was read, once the thread has ended."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(daemon=True)
        self.text = ""
        self._stream = stream
        self.start()

    def run(self) -> None:
        with self._stream:
            self.text = self._stream.read()


class ForkedCommand:
    """A process of ``authorizerd`` that ``command_server`` has forked in the root of the sources.

    It has the attributes and methods of ``subprocess.Popen`` with ``text=True``. ``Popen`` itself
    starts programs only, and waits only for children of this process.

    Args:
        server: the folder of ``command_server``.
        arguments: the command and what follows it.
        stdout: as for ``Popen``, but neither ``DEVNULL`` nor ``STDOUT``.
        stderr: as ``stdout``.
    """

    def __init__(
        self, server: str, arguments: Sequence[str], *, stdout: Stream = None, stderr: Stream = None
    ) -> None:
        self.args = arguments
        self.returncode: int | None = None
        self._readings: list[_Reading | None] | None = None
        with ExitStack() as passed:
            self.stdout, output = _open_stream(stdout, 1, passed)
            self.stderr, errors = _open_stream(stderr, 2, passed)
            told, tell = os.pipe()
            passed.callback(os.close, tell)
            self._told = open(told, "rb", buffering=0)  # noqa: SIM115 - closed at the process's end
            inherited = {0: 0, 1: output, 2: errors}
            request_fork(server, arguments, str(ROOT), tell, inherited)
        self.pid = self._next_number()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, or None if the process has not ended."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit code; TimeoutExpired: after ``timeout`` seconds."""
        if self.returncode is None:
            ending = select.poll()
            ending.register(self._told, select.POLLIN)
            if not ending.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = self._next_number()
            self._told.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read both streams to their ends, and wait for the end. Without a pipe, a stream is empty.

        After a timeout, call it again for the whole text.

        Raises:
            subprocess.TimeoutExpired: after ``timeout`` seconds.
        """
        give_up = math.inf if timeout is None else time.monotonic() + timeout
        if self._readings is None:
            self._readings = [
                None if each is None else _Reading(each) for each in (self.stdout, self.stderr)
            ]
        for reading in self._readings:
            if reading is not None:
                reading.join(_seconds_until(give_up))
                if reading.is_alive():
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(_seconds_until(give_up))
        output, errors = ("" if each is None else each.text for each in self._readings)
        return output, errors

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and its exit code is under way
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _next_number(self) -> int:
        """Read a line that has the process id, or the exit code."""
        line = self._told.readline()
        assert line, "the process that forks commands has ended"
        return int(line)


def _open_stream(given: Stream, inherited: int, passed: ExitStack) -> tuple[IO[str] | None, int]:
    """Return this process's end of a pipe, and the descriptor that the command gets.

    Args:
        inherited: the descriptor of this process's own stream.
        passed: closes the pipe's other end once the command has it.
    """
    if given is None:
        return None, inherited
    if given != subprocess.PIPE:
        return None, given if isinstance(given, int) else given.fileno()
    near, far = os.pipe()
    passed.callback(os.close, far)
    return open(near), far


def _seconds_until(give_up: float) -> float | None:
    return None if give_up == math.inf else max(0.0, give_up - time.monotonic())


StartedCommand: TypeAlias = subprocess.Popen[str] | ForkedCommand
"""A program or a fork. Tests do not have to know which one it is."""
