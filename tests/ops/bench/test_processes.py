"""Other programs end, are ended, or are an error that says which one it was."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ops.bench.processes import (
    ProcessError,
    cpu_seconds,
    json_of,
    output_of,
    outputs_of,
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


def test_what_a_child_uses_counts_as_its_parents() -> None:
    """A daemon's workers are children, started by any of its threads."""
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    before = cpu_seconds(os.getpid())
    children = []

    def start() -> None:
        child = subprocess.Popen(python(busy), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        children.append(child)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    with children[0] as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert cpu_seconds(os.getpid()) - before >= 0.25
        child.communicate(b"\n")


def test_programs_that_run_beside_each_other_all_print() -> None:
    """In the order of their commands, whichever ends first; one that fails fails all."""
    codes = [f"import time; time.sleep({pause}); print({pause})" for pause in (0.2, 0)]
    printed = outputs_of([python(code) for code in codes], timeout_seconds=20)
    assert printed == [b"0.2\n", b"0\n"]
    with pytest.raises(ProcessError, match="exit code 3"):
        outputs_of([python("print()"), python("raise SystemExit(3)")], timeout_seconds=20)
