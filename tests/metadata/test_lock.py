"""The lock on a log directory."""

import errno
import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from authorizerd.metadata.errors import LogDirectoryError, LogLockedError
from authorizerd.metadata.lock import LOCK_NAME, is_locked, locked

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""

TAKE = """
import pathlib, sys
from authorizerd.metadata.errors import LogLockedError
from authorizerd.metadata.lock import locked
try:
    with locked(pathlib.Path(sys.argv[1])):
        print("taken")
except LogLockedError:
    print("refused")
"""


@contextmanager
def held_by_another_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Hold a POSIX lock on ``path``, as a broker does, until the block ends."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def taken_by_another_process(log_dir: Path) -> str:
    command = [sys.executable, "-c", TAKE, str(log_dir)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_directory_locked_by_another_process_is_rejected(tmp_path: Path) -> None:
    """The lock lasts until that process ends."""
    path = tmp_path / ".lock"
    with held_by_another_process(path) as process:
        with (
            pytest.raises(LogLockedError, match="in use by another process") as refused,
            locked(tmp_path),
        ):
            pass
        assert str(path) in str(refused.value)
        process.kill()
    with locked(tmp_path):
        pass


def test_lock_excludes_other_processes_until_its_block_ends(tmp_path: Path) -> None:
    """The lock also ends if the block raises an error. The file stays, as with Kafka."""
    with locked(tmp_path):
        assert taken_by_another_process(tmp_path) == "refused"
    assert taken_by_another_process(tmp_path) == "taken"
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        _ = 1 / 0
    assert taken_by_another_process(tmp_path) == "taken"
    assert (tmp_path / ".lock").read_bytes() == b""


def test_existing_lock_file_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("left by a broker")
    with locked(tmp_path):
        pass
    assert (tmp_path / ".lock").read_text() == "left by a broker"


def test_unwritable_directory_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with (
        pytest.raises(LogDirectoryError, match="No such file or directory") as refused,
        locked(missing),
    ):
        pass
    assert str(missing / ".lock") in str(refused.value)
    (tmp_path / ".lock").mkdir()
    with pytest.raises(LogDirectoryError, match="Is a directory"), locked(tmp_path):
        pass


def test_file_system_without_locks_gives_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def refuse(file: int, command: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    with pytest.raises(LogDirectoryError, match="No locks available"), locked(tmp_path):
        pass


def test_lock_file_that_cannot_be_opened_is_not_held(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).mkdir()
    assert not is_locked(tmp_path)
    assert not is_locked(tmp_path / "none")
