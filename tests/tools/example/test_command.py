"""``make run``: its configuration, and a taken port."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.end_to_end.example_daemon import PORTS
from tests.end_to_end.page_shell import SECONDS_MAX
from tests.support.programs import run_program
from tools.example.__main__ import CONFIG, advise, prepare_config

ROOT = Path(__file__).parents[3]


def test_the_configuration_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    assert prepare_config(path) == str(path)
    assert path.read_text() == CONFIG
    changed = f"{CONFIG}authorizerd.tokens.file=tokens\n"
    path.write_text(changed)
    assert prepare_config(path) == f"{path}, with your changes"
    assert path.read_text() == changed


FREE_PORTS = [f"--override={each}:0" for each in PORTS]
EXAMPLE = (sys.executable, "-m", "tools.example")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def test_a_taken_port_ends_with_the_line_to_change(tmp_path: Path) -> None:
    """The daemon's own error is above it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = [re.sub("(listeners.*):0", rf"\1:{port}", word) for word in FREE_PORTS]
        ended = run_program(*EXAMPLE, *words, cwd=tmp_path, env=ENVIRONMENT)
    assert ended.returncode == 1
    error, advice = ended.stderr.splitlines(keepends=True)[-2:]
    assert "Address already in use" in error
    assert advice == advise(error)


@contextmanager
def started(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The example, and what it shows until it serves."""
    with subprocess.Popen(
        [*EXAMPLE, *FREE_PORTS, *words], cwd=folder, env=ENVIRONMENT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as example:  # fmt: skip
        assert example.stdout is not None
        shown = ""
        while "Ctrl-C ends it." not in shown and (line := example.stdout.readline()):
            shown += line
        try:
            yield example, shown
        finally:
            example.terminate()


def end(example: subprocess.Popen[str]) -> str:
    example.terminate()
    return example.communicate(timeout=SECONDS_MAX)[1]


def test_a_signal_ends_the_daemon_and_shows_its_last_lines(tmp_path: Path) -> None:
    with started(tmp_path) as (example, shown):
        (address,) = re.findall("^Its web console: (.*)$", shown, re.MULTILINE)
        with urlopen(address) as page:
            assert b"<title>Overview" in page.read()
        error = end(example)
    assert "Traceback" not in error
    assert "draining" in error
    assert f"web console: {address}\n" in error


def test_console_that_is_off_is_not_shown(tmp_path: Path) -> None:
    with started(tmp_path, "--override=authorizerd.console=false") as (example, shown):
        assert "console" not in shown + end(example)


@pytest.mark.parametrize(("place", "setting"), [
    ("authorizerd.decision.stream", "authorizerd.decision.stream=tcp"),
    ("authorizerd.decision.http", "authorizerd.decision.http=http"),
    ("authorizerd.admin.http", "authorizerd.admin.http=http"),
])  # fmt: skip
def test_advice_has_the_line_that_chooses_another_port(place: str, setting: str) -> None:
    line = f"authorizerd: {place}: 127.0.0.1:8181: Address already in use\n"
    assert advise(line) == (
        "make run: port 8181 is taken: end its process, or choose a free port with a line"
        f" {setting}://127.0.0.1:PORT in .run/example/server.properties\n"
    )


def test_advice_about_the_kafka_port_is_a_variable_of_make() -> None:
    line = "authorizerd: listeners: PLAINTEXT: 127.0.0.1:9092: Address already in use\n"
    assert "`make run PORT=19092`" in advise(line)
    done = run_program("make", "--dry-run", "run", "PORT=19092", cwd=ROOT)
    assert "-m tools.example --override listeners=PLAINTEXT://127.0.0.1:19092\n" in done.stdout


def test_another_error_gets_no_advice() -> None:
    assert advise("authorizerd: node.id: expected a value\n") == ""
