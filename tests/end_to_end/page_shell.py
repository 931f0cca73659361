"""Run the commands of a page in a shell, and compare the output with what the page shows."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol, Self

from tests.end_to_end.documents import ROOT, Block, Command, blocks_of, commands_of
from tests.support.forked_command import program_folder

SECONDS_MAX: Final = 60.0
MAKE_RUN: Final = "make run"
SERVE: Final = ("authorizerd serve ", ".venv/bin/authorizerd serve ")
PATH: Final = f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"
"""Where commands are found: ``authorizerd`` is the installed one."""

_END: Final = "-- end, exit code"
_ENDED: Final = re.compile(rf"\n{_END} (\d+)\n".encode())


class Renaming(Protocol):
    """The names in a document, such as ports and hosts, and the real ones."""

    def to_real(self, text: str) -> str:
        """Replace the document's names."""

    def to_documented(self, text: str) -> str:
        """Replace the real names."""


class Names:
    """Real names by the names in a document, and the ports in both."""

    def __init__(self, real: Mapping[str, str], ports: Renaming) -> None:
        self._real: Final = real
        self._ports: Final = ports

    def to_real(self, text: str) -> str:
        return self._ports.to_real(_replace(text, self._real))

    def to_documented(self, text: str) -> str:
        documented = {real: shown for shown, real in self._real.items()}
        return _replace(self._ports.to_documented(text), documented)


def _replace(text: str, names: Mapping[str, str]) -> str:
    """Replace each name once; of two names at one place, the longer one."""
    words = sorted(names, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, words)), lambda found: names[found[0]], text)


class Shell:
    """A shell that runs commands one after the other in a folder, each for a limited time.

    The programs that the commands start, and the daemons of ``serve``, end with the shell.
    ``authorizerd`` is a fork, unless ``variables`` has another ``PATH``.
    """

    def __init__(self, folder: Path, seconds_max: float = SECONDS_MAX, **variables: str) -> None:
        self.folder: Final = folder
        self._daemons: Final = ExitStack()
        self._seconds_max: Final = seconds_max
        self._environment: Final = {
            **os.environ,
            "PATH": f"{program_folder()}:{PATH}",
            "PYTHONPATH": python_path("clients/python/src"),
            **variables,
        }
        self._process: Final = subprocess.Popen(
            ["bash"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

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

    def serve(self, command: str) -> None:
        """Start a daemon and wait until it is ready; at the end, it must stop with code 0."""
        self._daemons.enter_context(_serving(self.folder, command, self._environment))

    def close(self) -> None:
        """Stop the daemons, and kill the shell, which may wait for more input, and its programs."""
        self._daemons.close()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def python_path(folder: str = "") -> str:
    """Add a folder of the project whose packages are not installed."""
    return os.pathsep.join((str(ROOT / folder), os.environ["PYTHONPATH"]))


def check(command: Command, shell: Shell, names: Renaming, greeting: str = "") -> None:
    """Run a command and compare its output; ``make run`` has printed ``greeting`` already."""
    if command.text.partition("#")[0].strip() == MAKE_RUN:
        printed, code = greeting.strip("\n"), 0
    else:
        printed, code = shell.run(names.to_real(command.text))
        printed = names.to_documented(printed)
    assert code == command.exit_code, (command.text, printed)
    if command.shown and not command.matches(printed):
        assert printed == command.shown, f"{command.text}\n{printed}"


@contextmanager
def _serving(folder: Path, command: str, environment: Mapping[str, str]) -> Iterator[None]:
    ready, log = folder / "ready.json", folder / "serve.log"
    ready.unlink(missing_ok=True)
    with log.open("w") as stderr:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command} --ready-file {ready}"],
            cwd=folder,
            env=environment,
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


def save_files(blocks: Iterable[Block], folder: Path, names: Renaming) -> None:
    """Save each block with a file's name in the folder where the commands run."""
    for block in blocks:
        if block.file is not None:
            (folder / block.file).write_text(names.to_real(block.text))


def run_page(
    page: str, test: str | None, shell: Shell, names: Renaming, *sections: str
) -> None:  # fmt: skip
    """Run the console blocks of a page in order, if ``test`` runs them or no test is named.

    Args:
        sections: run only the blocks below these headings of level 2; none: the whole page.
    """
    blocks = [
        block
        for block in blocks_of(ROOT / "docs" / page)
        if block.test in (None, test) and (not sections or block.section in sections)
    ]
    save_files(blocks, shell.folder, names)
    commands = [
        command
        for block in blocks
        if block.language == "console" and block.test == test and block.reason is None
        for command in commands_of(block.text)
    ]
    assert commands, page
    for command in commands:
        if command.text.startswith(SERVE):
            shell.serve(names.to_real(command.text))
        else:
            check(command, shell, names)
