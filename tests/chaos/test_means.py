"""The preloaded library does what the faults need, and nothing else."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.means import Shim, find_compiler

PROGRAM = """
import os, sys, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for call in (
    lambda: os.write(file, b"x"), lambda: os.writev(file, [b"y"]), lambda: os.fsync(file),
    lambda: os.fdatasync(file), lambda: os.read(file, 1),
):
    try:
        call()
        print("done")
    except OSError as error:
        print(error.errno)
print(time.time())
"""
CALLS = ["write", "writev", "fsync", "fdatasync", "read"]

pytestmark = pytest.mark.skipif(not find_compiler(), reason="no C compiler (cc)")


def run_program(shim: Shim, path: Path) -> tuple[dict[str, str], float]:
    """Return what became of each call for a file, and the clock of the program."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, path], env=os.environ | shim.environment,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    *results, now = done.stdout.split()
    return dict(zip(CALLS, results, strict=True)), float(now)


@pytest.mark.parametrize(
    ("name", "failing"),
    [
        ("write_errno", {"write", "writev"}),
        ("sync_errno", {"fsync", "fdatasync"}),
        ("read_errno", {"read"}),
        ("delay_us", set()),
    ],
)
def test_calls_for_files_of_the_log_fail(tmp_path: Path, name: str, failing: set[str]) -> None:
    (tmp_path / "log").mkdir()
    shim = Shim(tmp_path, tmp_path)
    expected = {call: str(errno.EIO) if call in failing else "done" for call in CALLS}
    with shim.having(name, errno.EIO):
        assert run_program(shim, tmp_path / "log" / "file")[0] == expected
        assert run_program(shim, tmp_path / "other")[0] == dict.fromkeys(CALLS, "done")
    assert shim.failed == len(failing)
    assert run_program(shim, tmp_path / "log" / "file")[0] == dict.fromkeys(CALLS, "done")


def test_clock_is_stepped(tmp_path: Path) -> None:
    shim = Shim(tmp_path, tmp_path)
    now = run_program(shim, tmp_path / "file")[1]
    with shim.having("clock_step_ns", -(10**6) * 10**9):
        assert run_program(shim, tmp_path / "file")[1] < now - 500_000
    assert run_program(shim, tmp_path / "file")[1] >= now
