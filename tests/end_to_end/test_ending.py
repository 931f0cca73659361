"""Signals at bad moments, and shutdowns in which something hangs."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from authorizerd.cli.commands import COMMANDS, SUBCOMMANDS
from authorizerd.cli.program.ending import SIGNALS
from tests.end_to_end.held_daemon import HELD
from tests.support.daemon_process import (
    ROOT,
    SECONDS_MAX,
    DaemonProcess,
    new_log,
    read_until,
    wait_until,
    wait_until_ready,
    write_config,
)
from tests.support.forked_command import start_command
from tests.support.programs import run_program
from tests.support.requests import evaluation


@contextmanager
def started(
    *command: str, config: Path, stderr: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    """Start a daemon; kill it at the end."""
    process = subprocess.Popen(
        [sys.executable, *command, "serve", "--config", config],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_sighup_at_a_start_reloads_and_sigterm_ends_a_hanging_reload(tmp_path: Path) -> None:
    """The reload hangs, because it reads a pipe that has no writer."""
    config = write_config(tmp_path, new_log(tmp_path))
    kept = config.rename(tmp_path / "kept")
    os.mkfifo(config)
    with started("-m", "authorizerd.cli", config=config) as process:
        with opened_by_a_reader(config) as pipe:
            process.send_signal(signal.SIGHUP)
            config.unlink()
            config.hardlink_to(kept)  # the daemon reads this from now on
            pipe.write(kept.read_bytes())
        read_until(process, "the configuration is reloaded")
        config.unlink()
        os.mkfifo(config)
        process.send_signal(signal.SIGHUP)
        read_until(process, "SIGHUP: reloading")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 0


def test_sigint_at_a_start_leaves_no_traceback(tmp_path: Path) -> None:
    """The daemon is waiting for its configuration."""
    config = tmp_path / "server.properties"
    os.mkfifo(config)
    with started("-m", "authorizerd.cli", config=config) as process:
        with opened_by_a_reader(config):
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS_MAX) == -signal.SIGINT
        assert process.stderr is not None
        assert process.stderr.read() == ""


def opened_by_a_reader(path: Path) -> BinaryIO:
    """Open a named pipe for writing as soon as a process reads it."""
    give_up = time.monotonic() + SECONDS_MAX
    while True:
        try:
            return os.fdopen(os.open(path, os.O_WRONLY | os.O_NONBLOCK), "wb")
        except OSError:  # no reader yet
            assert time.monotonic() < give_up
            time.sleep(0.01)


def wait_until_asleep(process_id: int) -> None:
    """Wait until a process waits: Python misses a signal just before a call that blocks."""
    stat = Path(f"/proc/{process_id}/stat")
    wait_until(lambda: stat.read_text().rpartition(") ")[2][0] == "S", "the process waits")


_ASKED = "--principal User:a --operation read --topic t"
_ENDED: Mapping[str, str] = {
    "format": "--config {pipe}",
    "import-config": "{pipe}",
    "reset-copy": "--config {pipe}",
    "backup": "--config {pipe} {folder}/out",
    "restore": "--config {pipe} {folder}/backup",
    "features": "describe --config {pipe}",
    "doctor": "--config {pipe}",
    "explain": f"--acls {{pipe}} {_ASKED}",
    "who-can": "read --topic t --acls {pipe}",
    "what-can": "User:a --acls {pipe}",
    "can": "User:a --topic t --acls {pipe}",
    "test": "{pipe} --acls none",
    "history": "--config {pipe}",
    "shell": "--config {pipe} ls",
    "review": "--owner {pipe} --acls none --out {folder}/out",
    "sync": "{pipe} --once --bootstrap-server localhost:1",
    "verify": "--acls {pipe} --logs {pipe}",
    "acls": "--list --bootstrap-server localhost:1 --command-config {pipe}",
    "acls plan": "--acls none {pipe}",
    "acls apply": "{pipe} --bootstrap-server localhost:1",
    "acls compare-releases": "--acls {pipe}",
    "acls export": "--acls {pipe} --to {folder}/out.yaml",
    "acls import": "{pipe} --log-dir {folder}/new --node-id 1",
    "acls remove": "--principal User:a --bootstrap-server localhost:1 --command-config {pipe}",
    "acls grant": f"{_ASKED} --for 1h --reason x --bootstrap-server localhost:1 "
    "--command-config {pipe}",
    "acls grants": "--acls {pipe}",
    "routes check": "{pipe}",
    "replay usage": "--logs {pipe} --acls {pipe} --out {folder}/out --engine local",
}
"""Each command reads a pipe that has no writer."""
_NOT_ENDED = {
    *("serve", "worker", "token", "check-log", "docs", "replay", "routes", "routes preset"),
}
"""The daemon ends itself, five commands read no pipe, and all of replay ends in one place."""


@pytest.mark.parametrize("number", SIGNALS, ids=lambda each: signal.Signals(each).name)
@pytest.mark.parametrize("command", _ENDED)
def test_signal_ends_every_command_at_once(command: str, number: int, tmp_path: Path) -> None:
    """It prints nothing, because nothing is done yet."""
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("this signal is ignored here, as under nohup")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    words = f"{command} {_ENDED[command]}".format(pipe=pipe, folder=tmp_path).split()
    process = start_command(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        with opened_by_a_reader(pipe):
            wait_until_asleep(process.pid)
            process.send_signal(number)
            output, errors = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
    said = "authorizerd replay: stopped" if command.startswith("replay") else ""
    assert (process.returncode, output, errors.strip()) == (-number, "", said)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda each: signal.Signals(each).name)
def test_ignored_signals_end_a_change_with_words(number: int) -> None:
    """A script's shell lets its background commands ignore SIGINT; only nohup's SIGHUP is kept."""
    code = (
        "import signal, sys\n"
        "for number in (signal.SIGINT, signal.SIGTERM):\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        "from authorizerd.cli import commands, main\n"
        "from authorizerd.cli.program.ending import saying\n"
        "def run(words):\n"
        "    with saying(lambda: '1 of 2 changes made'):\n"
        f"        signal.raise_signal({int(number)})\n"
        "commands.run_acls = run\n"
        "sys.argv = ['authorizerd', 'acls']\n"
        "main.run_and_exit()\n"
    )
    command = [sys.executable, "-c", code]
    done = run_program(*command, cwd=ROOT)
    assert done.returncode == -number
    assert done.stderr == "authorizerd: interrupted: 1 of 2 changes made\n"
    kept = run_program("nohup", *command, cwd=ROOT)
    assert (kept.returncode == 0) is (number == signal.SIGHUP)


def test_every_command_is_ended_by_the_test_above() -> None:
    inner = {f"{name} {each}" for name in SUBCOMMANDS for each in SUBCOMMANDS[name]}
    commands = {*COMMANDS, *inner}
    assert commands - _NOT_ENDED == {each for each in _ENDED if not each.startswith("replay")}


_HELD = """
import os, signal, sys
from types import SimpleNamespace
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and children inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)
number = int(sys.argv.pop())
sys.argv[:] = ["authorizerd", *sys.argv[1:]]
from authorizerd.cli import __main__
assert not {"trio", "msgspec", "logging"} & set(sys.modules)
stub = SimpleNamespace(run_and_exit=lambda: os.kill(os.getpid(), number))
sys.modules["authorizerd.cli.main"] = sys.modules["authorizerd.cli"].main = stub
__main__.run_and_exit()
"""


@pytest.mark.parametrize(
    ("word", "number", "code"),
    [
        ("serve", signal.SIGHUP, 0),
        ("explain", signal.SIGHUP, -signal.SIGHUP),
        ("explain", signal.SIGINT, -signal.SIGINT),
        ("serve", signal.SIGINT, -signal.SIGINT),
    ],
)
def test_signals_while_a_daemon_is_imported(word: str, number: int, code: int) -> None:
    """Imports take most of the time of a start. SIGHUP ends other commands as usual."""
    done = run_program(sys.executable, "-c", _HELD, word, str(int(number)), cwd=ROOT)
    assert (done.returncode, done.stderr) == (code, "")


def test_hanging_shutdown_is_forced(tmp_path: Path) -> None:
    """The disk hangs: a thread that reads the log cannot be cancelled."""
    config = write_config(tmp_path, new_log(tmp_path), authorizerd_http_drain_timeout_ms="0")
    with started("-m", "tests.end_to_end.held_daemon", config=config) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == HELD
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 1
        assert process.stderr is not None
        last = process.stderr.read().splitlines()[-1]
    assert "the daemon has not ended within 1 s, and is killed: " in last
    assert "held_daemon.py" in last
    assert "log writer" not in last, "a thread that waits for lines does not block the end"


def test_daemon_works_while_nobody_reads_its_standard_error(tmp_path: Path) -> None:
    """It starts, answers and ends although it cannot write a line."""
    config = write_config(tmp_path, new_log(tmp_path))
    ready_file = tmp_path / "ready.json"
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writing, b"x" * 4096)
    command = [sys.executable, "-m", "authorizerd.cli", "serve", "--config", str(config)]
    process = subprocess.Popen(
        [*command, "--ready-file", str(ready_file)], cwd=ROOT, stderr=writing, text=True
    )
    try:
        wait_until_ready(process, ready_file)
        daemon = DaemonProcess(process, json.loads(ready_file.read_bytes()))
        assert daemon.evaluate(evaluation()).json["decision"] is False
        daemon.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 0
    finally:
        process.kill()
        process.wait()
        os.close(reading)
        os.close(writing)
