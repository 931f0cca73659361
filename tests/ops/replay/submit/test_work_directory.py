from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from authorizerd.replay.command_lock import LOCK_NAME
from authorizerd.replay.plans import IngestPlan, decode_plan
from authorizerd.replay.submit.archive import Archive
from authorizerd.replay.submit.work_directory import make_work_directory

PLAN = IngestPlan(inputs=("/logs",), out="/out")
ARCHIVE = Archive(data=b"zip", sha256="0" * 64)


def test_only_the_owner_can_read_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = make_work_directory(PLAN, ARCHIVE)
    assert made.path.parent == tmp_path
    assert made.path.stat().st_mode & 0o777 == 0o700
    files = list(made.path.iterdir())
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    lock = made.path / LOCK_NAME
    assert set(files) == {made.archive, made.plan, made.entry, made.logging, lock}
    assert decode_plan(made.plan.read_bytes()) == PLAN
    assert "main(sys.argv[1:])" in made.entry.read_text()


def test_fault_leaves_only_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = make_work_directory(PLAN, ARCHIVE)
    made.log.write_text("a trace")
    made.remove_but_log()
    assert list(made.path.iterdir()) == [made.log]
    made.remove()
    assert list(tmp_path.iterdir()) == []


MAKE = """
import os, signal, time
from tests.ops.replay.submit.test_work_directory import ARCHIVE, PLAN
from authorizerd.replay.submit.work_directory import make_work_directory
made = make_work_directory(PLAN, ARCHIVE)
print(made.path, flush=True)
"""
JOB = """
import sys, time
from authorizerd.replay import application
application._run = lambda make_plan: print("started", flush=True) or time.sleep(600)
application._run_plan_file(sys.argv[1])
"""


@contextmanager
def running(script: str, temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Yield a command that makes a work directory below ``temporary``, and the directory."""
    command = [sys.executable, "-c", f"{MAKE}{script}"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


@pytest.mark.parametrize(("end", "left"), [
    ("time.sleep(600)", {"plan.json", LOCK_NAME}),
    ("made.keep()", {"plan.json"}),
    ("made.log.touch(); made.remove_but_log()", {"spark.log"}),
    ("os.kill(os.getpid(), signal.SIGKILL)", set()),
])  # fmt: skip
def test_only_the_files_of_a_killed_command_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, left: set[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with running(end, tmp_path) as (process, path):
        if "sleep" not in end:
            process.wait(timeout=60)
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
            make_work_directory(PLAN, ARCHIVE)
        assert path.is_dir(), "another user's files stay"
        make_work_directory(PLAN, ARCHIVE)
        assert path.exists() == bool(left)
        assert left <= {each.name for each in tmp_path.glob(f"{path.name}/*")}


def test_job_ends_when_its_command_is_killed(tmp_path: Path) -> None:
    with running("time.sleep(600)", tmp_path) as (command, path):
        words = [sys.executable, "-c", JOB, str(path / "plan.json")]
        for is_late in (False, True):
            with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                if not is_late:
                    assert process.stdout.readline() == "started\n"
                    command.kill()
                assert process.wait(timeout=60) == -signal.SIGTERM
