import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from authorizerd.daemon.workers.predecessors import LEASE_SECONDS_MAX, WorkersLock


class Waited:
    """A clock that goes on only while somebody sleeps, and what happens meanwhile."""

    def __init__(self, meanwhile: Callable[[float], None] = lambda now: None) -> None:
        self.now = 0.0
        self._meanwhile = meanwhile

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self._meanwhile(self.now)


def take(lock: WorkersLock, waited: Waited) -> float:
    lock.take(clock=lambda: waited.now, sleep=waited.sleep)
    return waited.now


def start_worker(lock: WorkersLock) -> subprocess.Popen[bytes]:
    """Start a process that has inherited the lock, and lives until its input ends."""
    code = "import sys; sys.stdin.read()"
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[lock.descriptor])


def end(worker: subprocess.Popen[bytes]) -> None:
    worker.communicate()


def test_daemon_without_predecessors_begins_at_once(tmp_path: Path) -> None:
    for _ in range(2):
        with WorkersLock(tmp_path) as lock:
            assert take(lock, Waited()) == 0


def test_daemon_waits_for_the_worker_of_a_killed_one(tmp_path: Path) -> None:
    """It begins as soon as the worker has ended, and at the latest when its lease has passed."""
    with WorkersLock(tmp_path) as first:
        take(first, Waited())
        worker = start_worker(first)
    try:
        with WorkersLock(tmp_path) as second:
            assert take(second, Waited()) == pytest.approx(LEASE_SECONDS_MAX)
            heir = start_worker(second)
    finally:
        end(worker)
    try:
        with WorkersLock(tmp_path) as third:
            waited = Waited(lambda now: end(heir) if now > 1 and heir.poll() is None else None)
            assert 1 < take(third, waited) < 2, "the second daemon's worker counts, too"
    finally:
        end(heir) if heir.poll() is None else None


def test_daemon_waits_without_file_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int, mode: int) -> None:
        raise OSError(os.strerror(37))

    monkeypatch.setattr("fcntl.flock", fail)
    with WorkersLock(tmp_path) as lock:
        assert take(lock, Waited()) == pytest.approx(LEASE_SECONDS_MAX)
