"""The archive that is sent to a cluster, and the directory in which it is made."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import crc32c
import immutables
import msgspec
import pytest

from authorizerd.replay.command_lock import LOCK_NAME
from authorizerd.replay.plans import IngestPlan, decode_plan
from authorizerd.replay.submit.files import (
    PACKAGE_NAME,
    PACKAGES,
    Archive,
    make_archive,
    make_work_directory,
    write_package,
)
from tests.support.programs import run_program

SOURCES = Path(__file__).parents[4] / "src/authorizerd"


def copy_sources(to: Path) -> Path:
    to = to / SOURCES.name
    to.mkdir(parents=True)
    shutil.copy(SOURCES / "__init__.py", to)
    for package in PACKAGES:
        shutil.copytree(SOURCES / package, to / package)
    return to


def test_equal_sources_give_equal_bytes(tmp_path: Path) -> None:
    copied = copy_sources(tmp_path / "copy")
    os.utime(copied / "acl/model.py", (1_600_000_000, 1_600_000_000))
    (copied / "acl/model.py").chmod(0o600)
    (copied / "acl/__pycache__").mkdir(exist_ok=True)
    (copied / "acl/__pycache__/model.cpython-311.pyc").write_bytes(b"compiled")
    archive = make_archive()
    assert make_archive(copied) == archive
    assert archive.sha256 == hashlib.sha256(archive.data).hexdigest()
    assert archive.name == f"authorizerd-replay-{archive.sha256[:16]}.zip"
    with open(copied / "acl/model.py", "a") as file:
        file.write("# another line\n")
    assert make_archive(copied).name != archive.name


def run_from_archive(
    folder: Path, modules: tuple[ModuleType, ...], script: str
) -> subprocess.CompletedProcess[str]:
    """Run ``script`` with the archive and ``modules``, and without other site packages."""
    archive = make_archive()
    path = folder / archive.name
    path.write_bytes(archive.data)
    for module in modules:
        installed = Path(str(module.__file__)).parent
        for each in (installed, *installed.parent.glob(f"{module.__name__}-*.dist-info")):
            (folder / each.name).symlink_to(each)
    return run_program(
        sys.executable, "-S", "-P", "-c", script, cwd=folder, env={"PYTHONPATH": f"{path}:{folder}"}
    )


def test_executor_imports_its_code_from_the_archive_only(tmp_path: Path) -> None:
    script = (
        "import authorizerd.acl.decision, authorizerd.replay.plans; "
        "import authorizerd.replay.verify.parts; "
        "import authorizerd.replay.application; print('whole')"
    )
    ran = run_from_archive(tmp_path, (immutables, msgspec), script)
    assert (ran.stdout, ran.stderr) == ("whole\n", "")


def test_driver_imports_every_command_from_the_archive_only(tmp_path: Path) -> None:
    script = """
import sys
from authorizerd.replay.application import new_parser
from authorizerd.replay.jobs import JOBS
for name in JOBS:
    try:
        new_parser().parse_words([name, "--help"])
    except SystemExit:
        pass
ours = [each for name, each in sys.modules.items() if name.startswith("authorizerd")]
print({each.__file__.partition(".zip")[0] for each in ours})
"""
    ran = run_from_archive(tmp_path, (crc32c, immutables, msgspec), script)
    assert ran.stderr == ""
    assert ran.stdout.count("usage: authorizerd-replay.py") == 4
    assert ran.stdout.splitlines()[-1] == str(
        {str(tmp_path / make_archive().name.removesuffix(".zip"))}
    )


def test_archive_has_no_module_of_the_submitting_command(tmp_path: Path) -> None:
    archive = write_package(tmp_path / "new")
    with zipfile.ZipFile(tmp_path / "new" / PACKAGE_NAME) as opened:
        names = opened.namelist()
    assert names == sorted(names)
    assert {name.split("/")[1] for name in names if name.count("/") > 1} == set(PACKAGES)
    assert not [name for name in names if name.startswith("authorizerd/replay/submit/")]
    of_cli = {name.split("/")[2] for name in names if name.startswith("authorizerd/cli/")}
    assert of_cli == {"__init__.py", "program"}
    assert (tmp_path / "new" / PACKAGE_NAME).read_bytes() == archive.data
    assert write_package(tmp_path / "new") == archive


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


MAKE = """
import os, signal, time
from tests.ops.replay.submit.test_files import ARCHIVE, PLAN
from authorizerd.replay.submit.files import make_work_directory
made = make_work_directory(PLAN, ARCHIVE)
print(made.path, flush=True)
"""
JOB = """
import os, signal, sys, time
from authorizerd.replay import application, command_lock
command_lock.GRACE_SECONDS = 0.1
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
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
    ("made.log.touch(); made.remove(but_log=True)", {"spark.log"}),
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


def test_all_processes_of_a_job_end_when_its_command_is_killed(tmp_path: Path) -> None:
    with running("time.sleep(600)", tmp_path) as (command, path):
        words = [sys.executable, "-c", JOB, str(path / "plan.json")]
        for is_late in (False, True):
            with subprocess.Popen(
                words, stdout=subprocess.PIPE, text=True, start_new_session=True
            ) as process:
                assert process.stdout is not None
                if not is_late:
                    assert process.stdout.readline() == "started\n"
                    command.kill()
                assert process.wait(timeout=60) == -signal.SIGTERM
                process.communicate(timeout=60)  # until every process has closed it
