"""Other programs end, are ended, or are an error that says which one it was."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from ops.bench.processes import (
    ProcessError,
    cpu_seconds,
    json_of,
    output_of,
    resident_bytes,
    running,
    wait_for_file,
)


def python(code: str) -> list[str | Path]:
    return [sys.executable, "-S", "-c", code]


def test_what_a_program_prints_is_read_as_json() -> None:
    """A measuring process hands its figures over by standard output."""
    assert json_of(python("print('[1, 2.5]')"), list[float], timeout_seconds=10) == [1.0, 2.5]


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (["no-such-program"], "no-such-program: No such file"),
        (python("import sys; sys.exit('no network')"), "exit code 1: no network"),
        (python("print('nothing')"), "JSON is malformed"),
    ],
)
def test_a_program_that_fails_is_named(command: list[str | Path], complaint: str) -> None:
    """Whoever reads the error must know where to look."""
    with pytest.raises(ProcessError, match=complaint):
        json_of(command, list[float], timeout_seconds=10)


def test_a_program_that_hangs_is_killed() -> None:
    """The benchmark ends, whatever a peer does."""
    begun = time.monotonic()
    with pytest.raises(ProcessError, match="not done in"):
        output_of(python("import time; time.sleep(60)"), timeout_seconds=0.1)
    assert time.monotonic() - begun < 30


def test_a_running_program_is_ended_with_the_block(tmp_path: Path) -> None:
    """No server outlives the figures that were taken from it."""
    with running(python("import time; time.sleep(60)"), tmp_path / "log") as process:
        assert process.poll() is None
    assert process.returncode == -15


def test_a_file_is_waited_for_no_longer_than_its_writer_lives(tmp_path: Path) -> None:
    """A daemon that could not start is an error at once, not after the time-out."""
    with (
        running(python("raise SystemExit(3)"), tmp_path / "log") as process,
        pytest.raises(ProcessError, match="ended with 3"),
    ):
        wait_for_file(tmp_path / "ready", process, 60)


def test_a_file_is_returned_once_it_is_there(tmp_path: Path) -> None:
    """A ready file appears whole."""
    (tmp_path / "ready").write_bytes(b"here")
    with running(python("import time; time.sleep(60)"), tmp_path / "log") as process:
        assert wait_for_file(tmp_path / "ready", process, 60) == b"here"


def test_cpu_time_and_memory_are_those_of_the_process() -> None:
    """The kernel's own books: user and system time of all threads, pages that are resident."""
    used = sum(os.times()[:2])
    assert used - 0.1 <= cpu_seconds(os.getpid()) <= sum(os.times()[:2]) + 0.1
    before = resident_bytes()
    block = bytearray(64 * 1024 * 1024)
    assert resident_bytes() - before > 60 * 1024 * 1024
    del block
