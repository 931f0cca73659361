"""A forked command ends and prints as a program of its own."""

import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.daemon_process import (
    COMMAND,
    ROOT,
    SECONDS_MAX,
    new_log,
    run,
    running,
    wait_until_ready,
    write_config,
)
from tests.support.forked_command import ForkedCommand, program_folder, start_command
from tests.support.forked_program import SOCKET
from tests.support.programs import run_program


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("what-can",),
        ("serve", "--config", "missing.properties"),
        ("check-log", "--log-dir", "missing"),
    ],
)
def test_exit_code_and_output_are_those_of_a_program(words: tuple[str, ...]) -> None:
    program = run_program(*COMMAND, *words, cwd=ROOT)
    light = run_program(program_folder() / "authorizerd", *words, cwd=ROOT)
    for forked in (light, run(*words)):
        assert (forked.returncode, forked.stdout, forked.stderr) == (
            program.returncode,
            program.stdout,
            program.stderr,
        )
    assert program.stdout + program.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -9)])
def test_signal_to_a_light_program_ends_its_daemon(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """The daemon and its query process hold standard error open, so reading it ends with them."""
    config, ready_file = write_config(tmp_path, new_log(tmp_path)), tmp_path / "ready.json"
    with subprocess.Popen(
        [program_folder() / "authorizerd", "serve", "--config", config, "--ready-file", ready_file],
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        wait_until_ready(program, ready_file)
        program.send_signal(number)
        _, errors = program.communicate(timeout=SECONDS_MAX)
    assert program.returncode == code
    assert ("SIGTERM: draining" in errors) is (number == signal.SIGTERM)


def test_signal_that_ends_it_is_its_exit_code(tmp_path: Path) -> None:
    with running(tmp_path, new_log(tmp_path)) as daemon:
        assert isinstance(daemon.process, ForkedCommand)
        assert daemon.process.poll() is None
        assert daemon.stop(signal.SIGKILL)[0] == -signal.SIGKILL


def test_variable_of_the_interpreter_needs_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork would not obey it."""
    run("--version")
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    process = start_command(["--version"], stdout=subprocess.PIPE)
    assert not isinstance(process, ForkedCommand)
    output, _ = process.communicate(timeout=SECONDS_MAX)
    assert output.startswith("authorizerd ")


def test_server_outlives_a_program_that_is_killed_before_it_asks() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as killed:
        killed.connect(str(program_folder() / SOCKET))
    assert run("--version").returncode == 0


def test_text_is_complete_after_a_timeout(tmp_path: Path) -> None:
    with running(tmp_path, new_log(tmp_path)) as daemon:
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.process.wait(0.01)
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.process.communicate(timeout=0.01)
        code, log = daemon.stop()
        assert code == 0
        assert "decision_http: bound" in log
        assert log.endswith("ended\n")


def test_signal_to_a_process_that_ends_meanwhile_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its exit code has not been told yet, and its process id has no process."""
    ended = start_command(["--version"], stdout=subprocess.PIPE)
    ended.communicate(timeout=SECONDS_MAX)
    with running(tmp_path, new_log(tmp_path)) as daemon:
        with monkeypatch.context() as earlier:
            earlier.setattr(daemon.process, "pid", ended.pid)
            daemon.process.kill()
        assert daemon.stop()[0] == 0


def test_end_is_awaited_although_nobody_reads_the_output(tmp_path: Path) -> None:
    """Otherwise a later test would find an open pipe."""
    with running(tmp_path, new_log(tmp_path)) as daemon:
        assert daemon.process.stderr is not None
        daemon.process.stderr.close()
    assert daemon.process.returncode is not None
